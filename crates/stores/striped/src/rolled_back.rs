//! Files with a copy on an iod that is rolled back ("older" than its metaserver's record).
//!
//! Rules:
//! 1. The metaserver records each copy on a rolled-back iod as out of date, on stable storage, if
//!    the iod of the other copy is reachable and not rolled back, and the other copy is up to date.
//! 2. A rolled-back iod on which no file depends any more gets its next turn. The metaserver then
//!    accepts the iod, since no reader uses its old copies, and creates the copies again.
//! 3. A file whose only up-to-date copy lies on a rolled-back iod keeps the iod from its next turn.
//! 4. The metaserver records no copy while an iod for new data is away or not verified: that iod
//!    may be rolled back, too.
//! 5. No move of a file's data continues if the move began before the metaserver detected the
//!    rollback.
//! 6. Before the metaserver accepts a rolled-back iod by an administrator's command, it records the
//!    copies of rule 1, even if other iods are away: the old copies must not count as up to date.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{MutexGuard, PoisonError};

use futures_util::future::join_all;
use leasehold_fs::{FsError, ObjectId};

use crate::Striped;
use crate::file::{Data, Objects};
use crate::iod::Step;
use crate::metafile::Placed;
use crate::search::{SearchError, WALKS};
use crate::walk::{Visitor, Walk};

/// The maximum number of files that a walk counts for rolled-back iods. The bound is small for
/// tests.
const NEEDS_MAX: usize = if cfg!(test) { 4 } else { 65_536 };

/// The result of one walk over all files for the rolled-back iods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RollbackReport {
    /// Files of which a copy is recorded as out of date now.
    pub behind: u64,
    /// The rolled-back iods that got their next turn.
    pub current: Vec<u16>,
    /// The rolled-back iods that files depend on, each with the number of the files up to a bound.
    pub needed: BTreeMap<u16, u64>,
    /// The rolled-back iods with files for which the walk could not decide, as after an error or if
    /// the iod of the other copy is away. These iods get no turn before the next walk.
    pub undecided: BTreeSet<u16>,
    /// The rolled-back iods that no file depends on, and that failed to record their next turn.
    pub not_noted: BTreeMap<u16, FsError>,
    /// The last error of a file for which the walk could not decide.
    pub failed: Option<FsError>,
}

impl Striped {
    /// Returns the numbers of the iods that are rolled back.
    #[must_use]
    pub fn older_iods(&self) -> Vec<u16> {
        (0..).zip(&self.iods).filter(|(_, iod)| iod.is_older()).map(|(number, _)| number).collect()
    }

    /// Returns the number of files that depend on a rolled-back iod, as the last walk counted them;
    /// `None` before a walk.
    #[must_use]
    pub fn files_of_older(&self, iod: u16) -> Option<u64> {
        self.needed().get(&iod).copied()
    }

    fn needed(&self) -> MutexGuard<'_, BTreeMap<u16, u64>> {
        self.needed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares the turns of the reachable iods, and gives the next turn to each iod whose objects
    /// have changed since its last turn.
    pub async fn take_turns(&self) {
        let there = self.iods.iter().filter(|iod| !iod.is_gone());
        let there = there.filter(|iod| iod.is_older() || !iod.is_away());
        let taken = there.map(|iod| iod.take_turn(Step::IfChanged));
        // The metaserver verifies an iod that does not answer when the iod answers again.
        drop(join_all(taken).await);
    }

    /// Verifies the iods with new connections, so that these iods accept clients.
    pub async fn judge_new_connections(&self) {
        let new = self.iods.iter().filter(|iod| iod.needs_judgement());
        let new = new.filter(|iod| iod.is_older() || !iod.is_away());
        let judged = new.map(|iod| iod.verifier());
        drop(join_all(judged).await);
    }

    /// Examines all files for the iods that are rolled back. Does nothing if no iod is rolled back,
    /// or if another iod is away or cannot be verified (rule 4).
    ///
    /// # Errors
    /// See [`SearchError`].
    pub async fn mend_older(&self) -> Result<Option<RollbackReport>, SearchError> {
        let older: BTreeMap<u16, u64> = (0..)
            .zip(&self.iods)
            .filter_map(|(number, iod)| Some((number, iod.older()?)))
            .collect();
        if older.is_empty() || self.options.shared {
            self.needed().clear();
            return Ok(None);
        }
        self.judge_new_connections().await;
        let is_there = |iod: u16| older.contains_key(&iod) || self.is_good(iod);
        if !self.options.used.iter().all(|iod| is_there(*iod)) {
            return Ok(None);
        }
        let mut mended = self.leave_copies(older.keys().copied().collect()).await?;
        *self.needed() = mended.needed.clone();
        for (number, since) in older {
            if mended.needed.contains_key(&number) || mended.undecided.contains(&number) {
                continue;
            }
            match self.iod(number).take_turn(Step::Believed(since)).await {
                Ok(()) => mended.current.push(number),
                Err(error) => drop(mended.not_noted.insert(number, error)),
            }
        }
        mended.current.retain(|number| !self.iod(*number).is_older());
        if !mended.current.is_empty() {
            // The rolled-back state contains objects of files that were removed later.
            self.set_removals_incomplete(true);
        }
        Ok(Some(mended))
    }

    /// Accepts a rolled-back iod permanently, by an administrator's command. The metaserver first
    /// records each copy on the iod as out of date that has an up-to-date second copy (rule 6).
    ///
    /// # Errors
    /// See [`SearchError`], if the metaserver cannot examine all files. The inner error is the
    /// error of the iod, which does not answer or cannot record its turn, or the error of a file
    /// whose copy cannot be recorded.
    pub async fn believe(&self, iod: u16) -> Result<Result<(), FsError>, SearchError> {
        let Some(since) = self.iod(iod).older() else {
            return Ok(self.iod(iod).take_turn(Step::IfChanged).await);
        };
        self.judge_new_connections().await;
        let left = self.leave_copies(BTreeSet::from([iod])).await?;
        if let Some(error) = left.failed {
            return Ok(Err(error));
        }
        if let Err(error) = self.iod(iod).take_turn(Step::Believed(since)).await {
            return Ok(Err(error));
        }
        if self.iod(iod).is_older() {
            // The iod has yet another state, which the walk has not examined.
            return Ok(Err(FsError::Delay));
        }
        self.set_removals_incomplete(true);
        self.needed().remove(&iod);
        Ok(Ok(()))
    }

    /// Records the copies of all files on rolled-back iods as out of date (rule 1). No iod gets a
    /// turn.
    async fn leave_copies(&self, older: BTreeSet<u16>) -> Result<RollbackReport, SearchError> {
        let _under_way = self.search.begin()?;
        self.forget_extents().await;
        let mut walk = Walk::new(self, RollbackRepair::new(self, older));
        for _ in 0..WALKS {
            walk.all().await?;
        }
        Ok(walk.visitor.mended())
    }

    /// Returns true if an iod is reachable, verified, and not rolled back.
    fn is_good(&self, iod: u16) -> bool {
        let iod = self.iod(iod);
        !iod.is_away() && !iod.needs_judgement()
    }

    /// Makes the metaserver query the sizes of all objects again, and ends all moves (rule 5).
    async fn forget_extents(&self) {
        for file in self.files.all() {
            if let Data::OnIods(objects) = &*file.write().await {
                objects.set_moving(None);
                objects.doubt();
            }
        }
    }

    /// Records the copies of a file on rolled-back iods as out of date (rule 1). The sizes of the
    /// objects do not matter, and a query could wait for iods that are away, so this queries no
    /// iod.
    async fn leave_older(&self, object: &ObjectId, older: &BTreeSet<u16>) -> Result<Left, FsError> {
        let file = self.file(object);
        let data = file.write().await;
        let unread;
        let objects = match &*data {
            Data::OnIods(objects) => objects,
            Data::Gone => return Err(FsError::Stale),
            Data::Nowhere | Data::Inline(_) => return Ok(Left::default()),
            Data::Unknown => match self.whole_head(object).await? {
                Some((head, behind, change, _)) if !head.inline => {
                    unread = Objects::new(head, Vec::new(), change.number, behind);
                    &unread
                }
                Some(_) | None => return Ok(Left::default()),
            },
        };
        let head = &objects.head;
        let mut left = Left::default();
        let copies = (0..head.layout.width())
            .flat_map(|number| (0..head.copies).map(move |copy| (number, copy)));
        for (number, copy) in copies {
            let (iod, _) = head.copy(number, copy);
            let behind = objects.behind();
            if !older.contains(&iod) || behind.has(number, copy) {
                continue;
            }
            let other = (head.copies > 1).then(|| head.copy(number, 1 - copy).0);
            match other.filter(|_| !behind.has(number, 1 - copy)) {
                Some(other) if self.is_good(other) => {
                    self.note_behind(object, objects, number, copy).await?;
                    left.is_behind = true;
                }
                // The other copy may be up to date: its iod may come back.
                Some(other) if !self.iod(other).is_older() && !self.iod(other).is_gone() => {
                    left.undecided.insert(iod);
                }
                Some(_) | None => drop(left.needs.insert(iod)),
            }
        }
        Ok(left)
    }
}

/// The effect of rolled-back iods on one file.
#[derive(Debug, Default)]
struct Left {
    is_behind: bool,
    /// The rolled-back iods with the only up-to-date copy of an object.
    needs: BTreeSet<u16>,
    /// The rolled-back iods with a copy of an object whose other copy is on an iod that is away.
    undecided: BTreeSet<u16>,
}

/// Examines each file with objects on rolled-back iods.
struct RollbackRepair<'a> {
    volume: &'a Striped,
    older: BTreeSet<u16>,
    /// Files of which a copy was recorded as out of date.
    behind: u64,
    /// The rolled-back iods that each file needs, by the object key of the file.
    needs: BTreeMap<ObjectId, BTreeSet<u16>>,
    /// The rolled-back iods that more files need than the bound of `needs` has room for.
    overflow: BTreeSet<u16>,
    undecided: BTreeSet<u16>,
    failed: Option<FsError>,
}

impl<'a> RollbackRepair<'a> {
    fn new(volume: &'a Striped, older: BTreeSet<u16>) -> Self {
        let (overflow, undecided) = (BTreeSet::new(), BTreeSet::new());
        let needs = BTreeMap::new();
        Self { volume, older, behind: 0, needs, overflow, undecided, failed: None }
    }

    fn mended(self) -> RollbackReport {
        let Self { behind, needs, overflow, undecided, failed, .. } = self;
        let mut mended = RollbackReport { behind, undecided, failed, ..RollbackReport::default() };
        for iod in needs.values().flatten() {
            *mended.needed.entry(*iod).or_default() += 1;
        }
        for iod in overflow {
            mended.needed.entry(iod).or_insert(1);
        }
        mended
    }
}

impl Visitor for RollbackRepair<'_> {
    async fn visit(&mut self, object: ObjectId, placed: Placed) {
        let on_older = placed.iods.iter().filter(|iod| self.older.contains(iod)).copied();
        let on_older: BTreeSet<u16> = on_older.collect();
        if on_older.is_empty() {
            return;
        }
        let left = match self.volume.leave_older(&object, &self.older).await {
            Ok(left) => left,
            // Another caller removed the file.
            Err(FsError::Stale) => Left::default(),
            Err(error) => {
                self.failed = Some(error);
                self.undecided.extend(on_older);
                return;
            }
        };
        self.behind += u64::from(left.is_behind);
        self.undecided.extend(left.undecided);
        let identity = self.volume.names.identity(&object);
        if left.needs.is_empty() {
            self.needs.remove(&identity);
        } else if self.needs.len() < NEEDS_MAX || self.needs.contains_key(&identity) {
            self.needs.insert(identity, left.needs);
        } else {
            self.overflow.extend(left.needs);
        }
    }
}
