//! Files of which an iod has a copy that is older than its metaserver knows it.
//!
//! Rules:
//! 1. The metaserver notes each copy on an older iod as behind, on stable storage, if the iod of
//!    the other copy is there and is not older, and the other copy is not behind.
//! 2. An older iod on which no file depends any more gets its next turn. The metaserver believes
//!    the iod then, since no reader uses its old copies, and makes the copies again.
//! 3. A file whose only good copy lies on an older iod keeps the iod from its next turn.
//! 4. The metaserver notes no copy while an iod that is to be used is away: that iod may be older,
//!    too.
//! 5. No move of a file's data goes on if the move began before the metaserver found the iod older.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{MutexGuard, PoisonError};

use futures_util::future::join_all;
use leasehold_fs::{FsError, ObjectId};

use crate::Striped as Volume;
use crate::file::Data;
use crate::iod::Step;
use crate::metafile::Placed;
use crate::search::{SearchError, WALKS};
use crate::walk::{Visitor, Walk};

/// The greatest number of files that a walk counts for older iods.
const NEEDS_MAX: usize = 65_536;

/// The result of one walk over all files for the older iods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// Files of which a copy is noted as behind now.
    pub behind: u64,
    /// The older iods that got their next turn.
    pub current: Vec<u16>,
    /// The older iods that files depend on, each with the number of the files up to a bound.
    pub needed: BTreeMap<u16, u64>,
}

impl Volume {
    /// The numbers of the iods that are older than this metaserver knows them.
    #[must_use]
    pub fn older_iods(&self) -> Vec<u16> {
        (0..).zip(&self.iods).filter(|(_, iod)| iod.is_older()).map(|(number, _)| number).collect()
    }

    /// The number of files that depend on an older iod, as the last walk found it; none before a
    /// walk.
    #[must_use]
    pub fn files_of_older(&self, iod: u16) -> Option<u64> {
        self.needed().get(&iod).copied()
    }

    fn needed(&self) -> MutexGuard<'_, BTreeMap<u16, u64>> {
        self.needed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares the turns of the iods that are there, and gives the next turn to each iod whose
    /// objects changed since its last turn.
    pub async fn take_turns(&self) {
        let there = self.iods.iter().filter(|iod| !iod.is_gone());
        let there = there.filter(|iod| iod.is_older() || !iod.is_away());
        let taken = there.map(|iod| iod.take_turn(Step::IfChanged));
        // The metaserver judges an iod that does not answer when the iod answers again.
        drop(join_all(taken).await);
    }

    /// Judges the iods that have another connection than before, so that these iods let clients in.
    pub async fn judge_new_connections(&self) {
        let new = self.iods.iter().filter(|iod| iod.needs_judgement());
        let new = new.filter(|iod| iod.is_older() || !iod.is_away());
        let judged = new.map(|iod| iod.verifier());
        drop(join_all(judged).await);
    }

    /// Looks at all files for the iods that are older; does nothing where no iod is older, or where
    /// another iod is away (rule 4).
    ///
    /// # Errors
    /// As [`SearchError`] says.
    pub async fn mend_older(&self) -> Result<Option<Mended>, SearchError> {
        let older: BTreeMap<u16, u64> = (0..)
            .zip(&self.iods)
            .filter_map(|(number, iod)| Some((number, iod.older()?)))
            .collect();
        if older.is_empty() || self.options.shared {
            self.needed().clear();
            return Ok(None);
        }
        let is_there = |iod: &&u16| older.contains_key(*iod) || !self.iod(**iod).is_away();
        if !self.options.used.iter().all(|iod| is_there(&iod)) {
            return Ok(None);
        }
        let _under_way = self.search.begin()?;
        self.forget_extents().await;
        let numbers = older.keys().copied().collect();
        let (behind, needs) = (0, BTreeMap::new());
        let mender = Mender { volume: self, older: numbers, behind, needs };
        let mut walk = Walk::new(self, mender);
        for _ in 0..WALKS {
            walk.all().await?;
        }
        let Mender { behind, needs, .. } = walk.visitor;
        let mut mended = Mended { behind, ..Mended::default() };
        for iod in needs.values().flatten() {
            *mended.needed.entry(*iod).or_default() += 1;
        }
        *self.needed() = mended.needed.clone();
        for (number, since) in older {
            let is_needed = mended.needed.contains_key(&number);
            let step = Step::Believed(Some(since));
            if !is_needed && self.iod(number).take_turn(step).await.is_ok() {
                mended.current.push(number);
            }
        }
        mended.current.retain(|number| !self.iod(*number).is_older());
        if !mended.current.is_empty() {
            // The older state has objects of files that were removed since.
            self.set_removals_incomplete(true);
        }
        Ok(Some(mended))
    }

    /// Believes an older iod for good, as an administrator says.
    ///
    /// # Errors
    /// The iod does not answer, or cannot note its turn.
    pub async fn believe(&self, iod: u16) -> Result<(), FsError> {
        self.forget_extents().await;
        self.iod(iod).take_turn(Step::Believed(None)).await?;
        self.set_removals_incomplete(true);
        self.needed().remove(&iod);
        Ok(())
    }

    /// Has the metaserver ask for the sizes of all objects again, and ends all moves (rule 5).
    async fn forget_extents(&self) {
        for file in self.files.all() {
            if let Data::OnIods(objects) = &*file.write().await {
                objects.set_moving(None);
                objects.doubt();
            }
        }
    }

    /// Notes the copies of a file on older iods as behind (rule 1).
    async fn leave_older(&self, object: &ObjectId, older: &BTreeSet<u16>) -> Result<Left, FsError> {
        let file = self.file(object);
        let data = self.alone(object, &file).await?;
        let mut left = Left::default();
        let Data::OnIods(objects) = &*data else { return Ok(left) };
        let head = &objects.head;
        let copies = (0..head.layout.width())
            .flat_map(|number| (0..head.copies).map(move |copy| (number, copy)));
        for (number, copy) in copies {
            let (iod, _) = head.copy(number, copy);
            let behind = objects.behind();
            if !older.contains(&iod) || behind.has(number, copy) {
                continue;
            }
            let other = (head.copies > 1).then(|| head.copy(number, 1 - copy).0);
            let is_other_good = other
                .is_some_and(|other| !behind.has(number, 1 - copy) && !self.iod(other).is_away());
            if is_other_good {
                self.note_behind(object, objects, number, copy).await?;
                left.is_behind = true;
            } else {
                left.needs.insert(iod);
            }
        }
        Ok(left)
    }
}

/// The effect of older iods on one file.
#[derive(Debug, Default)]
struct Left {
    is_behind: bool,
    /// The older iods that have the only good copy of an object.
    needs: BTreeSet<u16>,
}

/// Looks at each file with objects on older iods.
struct Mender<'a> {
    volume: &'a Volume,
    older: BTreeSet<u16>,
    /// Files of which a copy was noted as behind.
    behind: u64,
    /// The older iods that files need, by the part of a file's id that is equal for all its names.
    needs: BTreeMap<ObjectId, BTreeSet<u16>>,
}

impl Visitor for Mender<'_> {
    async fn visit(&mut self, object: ObjectId, placed: Placed) {
        let on_older = placed.iods.iter().filter(|iod| self.older.contains(iod)).copied();
        let on_older: BTreeSet<u16> = on_older.collect();
        if on_older.is_empty() {
            return;
        }
        let Left { is_behind, needs } = match self.volume.leave_older(&object, &self.older).await {
            Ok(left) => left,
            // Somebody removed it.
            Err(FsError::Stale) => Left::default(),
            Err(_) => Left { is_behind: false, needs: on_older },
        };
        self.behind += u64::from(is_behind);
        let identity = self.volume.names.identity(&object);
        if needs.is_empty() {
            self.needs.remove(&identity);
        } else if self.needs.len() < NEEDS_MAX {
            // A count of more files is of no use: each file keeps its iod from the next turn.
            self.needs.insert(identity, needs);
        }
    }
}
