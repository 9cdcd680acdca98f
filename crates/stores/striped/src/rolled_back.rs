//! Repair of files with a copy on a rolled-back iod: an iod whose rollback counter is less than the
//! metaserver's record of the counter. Names in the code call such an iod `older`.
//!
//! Rules:
//! 1. The metaserver records each copy on a rolled-back iod as out of date, on stable storage, if
//!    the iod of the other copy is reachable and not rolled back, and the other copy is up to date.
//! 2. If no file depends on a rolled-back iod any more, the metaserver advances the rollback
//!    counter of the iod and so accepts the iod. This is safe because all old copies on the iod are
//!    recorded as out of date. The rebalancer then creates the copies again.
//! 3. The metaserver does not accept a rolled-back iod while a file has its only up-to-date copy on
//!    this iod.
//! 4. The metaserver records no copy as out of date while another iod for new data is unreachable
//!    or not verified, because the other iod may be rolled back, too.
//! 5. A migration of data that began before the metaserver detected the rollback is cancelled,
//!    because it may have read old data.
//! 6. An administrator can make the metaserver accept a rolled-back iod. The metaserver first
//!    records the copies of rule 1 as out of date, even if other iods are unreachable, so that no
//!    reader uses an old copy where an up-to-date one exists.

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

/// The maximum number of files whose dependence on rolled-back iods a walk keeps in memory, 16
/// bytes and some for each. Tests use a small value.
const NEEDS_MAX: usize = if cfg!(test) { 4 } else { 65_536 };

/// The result of one repair walk over all files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RollbackReport {
    /// The number of files of which this walk recorded a copy as out of date.
    pub behind: u64,
    /// The rolled-back iods that the metaserver accepted, by a new value of the rollback counter.
    pub current: Vec<u16>,
    /// The rolled-back iods on which files depend, each with the number of these files, up to a
    /// maximum.
    pub needed: BTreeMap<u16, u64>,
    /// The rolled-back iods with files for which the walk could not decide, as after an error or if
    /// the iod of the other copy is unreachable. The metaserver does not accept these iods before
    /// the next walk.
    pub undecided: BTreeSet<u16>,
    /// The rolled-back iods on which no file depends, but which failed to record the new rollback
    /// counter.
    pub not_noted: BTreeMap<u16, FsError>,
    /// The error of the last file that the walk could not examine or record.
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

    /// Compares the rollback counters of the reachable iods with the metaserver's record, and
    /// advances the counter of each iod whose objects have changed since the last advance.
    pub async fn take_turns(&self) {
        let there = self.iods.iter().filter(|iod| !iod.is_gone());
        let there = there.filter(|iod| iod.is_older() || !iod.is_away());
        let taken = there.map(|iod| iod.take_turn(Step::IfChanged));
        // Ignore errors: an iod that does not answer is verified when it answers again.
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
    /// or if another iod is unreachable or cannot be verified (rule 4).
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
            // The old state of the iod contains objects of files that were removed after this
            // state. The list of removals lacks these objects, so a search must find them.
            self.set_removals_incomplete(true);
        }
        Ok(Some(mended))
    }

    /// Accepts a rolled-back iod permanently, by an administrator's command. The metaserver first
    /// records each copy on the iod as out of date that has an up-to-date second copy (rule 6).
    ///
    /// # Errors
    /// See [`SearchError`], if the metaserver cannot examine all files. The inner error is the
    /// error of the iod if the iod does not answer or cannot record its rollback counter, or the
    /// error of a file whose copy cannot be recorded as out of date.
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
            // The iod was rolled back again during the walk. The walk has not examined the files
            // against this state, so the administrator must retry.
            return Ok(Err(FsError::Delay));
        }
        self.set_removals_incomplete(true);
        self.needed().remove(&iod);
        Ok(Ok(()))
    }

    /// Walks all files and records their copies on rolled-back iods as out of date (rule 1).
    /// Advances no rollback counter.
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

    /// Makes the metaserver query the sizes of all objects again, and cancels all migrations of
    /// data (rule 5).
    async fn forget_extents(&self) {
        for file in self.files.all() {
            if let Data::OnIods(objects) = &*file.write().await {
                objects.set_moving(None);
                objects.doubt();
            }
        }
    }

    /// Records the copies of a file on rolled-back iods as out of date (rule 1). Queries no iod:
    /// the sizes of the objects do not matter here, and a query could wait for unreachable iods.
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
                // The iod of the other copy is unreachable, and may return with up-to-date data.
                Some(other) if !self.iod(other).is_older() && !self.iod(other).is_gone() => {
                    left.undecided.insert(iod);
                }
                Some(_) | None => drop(left.needs.insert(iod)),
            }
        }
        Ok(left)
    }
}

/// The dependence of one file on rolled-back iods.
#[derive(Debug, Default)]
struct Left {
    is_behind: bool,
    /// The rolled-back iods with the only up-to-date copy of an object.
    needs: BTreeSet<u16>,
    /// The rolled-back iods with a copy of an object whose other copy is on an unreachable iod.
    undecided: BTreeSet<u16>,
}

/// A visitor that examines each file with objects on rolled-back iods.
struct RollbackRepair<'a> {
    volume: &'a Striped,
    older: BTreeSet<u16>,
    /// The number of files of which a copy was recorded as out of date.
    behind: u64,
    /// For each file, by its object key: the rolled-back iods on which the file depends.
    needs: BTreeMap<ObjectId, BTreeSet<u16>>,
    /// The rolled-back iods on which files depend that are not in `needs`, because `needs` is full.
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
            // Another caller has removed the file, so it depends on no iod.
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
