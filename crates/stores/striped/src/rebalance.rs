//! The rebalancer: it migrates the data of files whose location does not match their layout policy,
//! and repairs out-of-date copies.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use futures_util::future::join_all;
use leasehold_base::units::Cookie;
use leasehold_fs::{Allowance, Budget, FileType, FsError, ObjectId, Wanted};

use crate::Striped;
use crate::iod::{Iod, Room};
use crate::layout_policy::LayoutPolicy;
use crate::visible::superuser;

/// The maximum number of misplaced files in memory. Beyond it the rebalancer only knows that it
/// must examine all files again.
const KNOWN_MAX: usize = 65_536;

/// The state of the rebalancer.
#[derive(Debug)]
pub(crate) struct Rebalance {
    /// The misplaced files; the value is true if the file is known to have an out-of-date copy.
    misplaced: Mutex<BTreeMap<ObjectId, bool>>,
    /// Single files to examine, for example after a change of their layout policy, each with the
    /// number of requests.
    wanted: Mutex<BTreeMap<ObjectId, u64>>,
    /// The number of requests to examine all files.
    asked: AtomicU64,
    /// The number of the last request that is done.
    done: AtomicU64,
    is_ending: AtomicBool,
}

/// The result of one run of the rebalancer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RebalanceReport {
    /// The number of files whose data was migrated.
    pub moved: u64,
    /// The number of files whose data could not be migrated now.
    pub left: u64,
}

impl Rebalance {
    pub(crate) fn new(is_due: bool) -> Self {
        Self {
            misplaced: Mutex::default(),
            wanted: Mutex::default(),
            asked: AtomicU64::new(u64::from(is_due)),
            done: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
        }
    }

    fn misplaced<T>(&self, look: impl FnOnce(&mut BTreeMap<ObjectId, bool>) -> T) -> T {
        look(&mut self.misplaced.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records a misplaced file.
    pub(crate) fn found(&self, identity: ObjectId) {
        self.note(identity, false);
    }

    /// Records a file with an out-of-date copy.
    pub(crate) fn lacks_a_copy(&self, identity: ObjectId) {
        self.note(identity, true);
    }

    fn note(&self, identity: ObjectId, is_behind: bool) {
        self.misplaced(|files| {
            if files.len() < KNOWN_MAX || files.contains_key(&identity) {
                *files.entry(identity).or_default() |= is_behind;
            }
        });
        self.look_again();
    }

    fn wanted_files<T>(&self, look: impl FnOnce(&mut BTreeMap<ObjectId, u64>) -> T) -> T {
        look(&mut self.wanted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Requests the examination of one file.
    pub(crate) fn wanted(&self, object: ObjectId) {
        let is_noted = self.wanted_files(|files| {
            let is_noted = files.len() < KNOWN_MAX || files.contains_key(&object);
            if is_noted {
                *files.entry(object).or_default() += 1;
            }
            is_noted
        });
        if !is_noted {
            self.look_again();
        }
    }

    /// Requests an examination of all files.
    fn look_again(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of the last examination of all files, if none is running or due.
    pub(crate) fn last_look(&self) -> Option<u64> {
        let done = self.done.load(Ordering::Relaxed);
        (self.asked.load(Ordering::Relaxed) == done).then_some(done)
    }

    /// Records that a file is at the right location, or is gone.
    pub(crate) fn done(&self, identity: &ObjectId) {
        self.misplaced(|files| files.remove(identity));
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }
}

impl Striped {
    /// Runs the rebalancer if files may need it and all iods for new data are reachable; does
    /// nothing otherwise. Queries unreachable iods, to detect that they answer again.
    ///
    /// # Errors
    /// The names cannot be read.
    pub async fn tend(&self) -> Result<Option<RebalanceReport>, FsError> {
        if self.look_for_room().await {
            self.tending.look_again();
        }
        // Call `are_all_there` even if there is no work, because it queries unreachable iods.
        if !self.are_all_there().await || self.is_settled() {
            return Ok(None);
        }
        let mut tended = self.tend_wanted().await;
        let asked = self.tending.asked.load(Ordering::Relaxed);
        if self.tending.done.load(Ordering::Relaxed) != asked {
            let RebalanceReport { moved, left } = match self.tend_all().await {
                Err(_) if self.tending.is_ending() => return Ok(None),
                tended => tended?,
            };
            if left == 0 {
                self.tending.done.store(asked, Ordering::Relaxed);
            }
            tended = RebalanceReport { moved: tended.moved + moved, left: tended.left + left };
        }
        Ok(Some(tended))
    }

    /// Sets the layout policy of a file, or of new entries of a directory. [`Self::tend`] migrates
    /// the data of a file that does not match the policy.
    ///
    /// # Errors
    /// The errors of the names' store; [`FsError::Invalid`] for other types of objects.
    pub async fn lay_out(&self, object: &ObjectId, shape: &LayoutPolicy) -> Result<(), FsError> {
        let file_type = self.names.getattr(object).await?.file_type;
        if !matches!(file_type, FileType::Regular | FileType::Directory) {
            return Err(FsError::Invalid);
        }
        self.names.set_layout_policy(object, shape.text().into()).await?;
        if file_type == FileType::Regular {
            self.tending.wanted(*object);
        }
        Ok(())
    }

    /// Returns true if an examination of all files may have missed a file or directory during a
    /// rename. `last_look` is the number of the last examination before the rename. An examination
    /// during the rename may read the directory of the new name before the rename, and the
    /// directory of the old name after it.
    pub(crate) fn may_miss(&self, last_look: Option<u64>) -> bool {
        last_look.is_none() || self.tending.last_look() != last_look
    }

    /// Requests the examination of a file, or of all files if the object is a directory.
    pub(crate) fn look_at(&self, object: ObjectId, file_type: FileType) {
        match file_type {
            FileType::Regular => self.tending.wanted(object),
            FileType::Directory => self.tending.look_again(),
            FileType::BlockDevice
            | FileType::CharacterDevice
            | FileType::Symlink
            | FileType::Socket
            | FileType::Fifo => {}
        }
    }

    /// Examines the single files of which an examination is requested.
    async fn tend_wanted(&self) -> RebalanceReport {
        let mut tended = RebalanceReport::default();
        for (object, times) in self.tending.wanted_files(|files| files.clone()) {
            match self.tend_file(&object).await {
                Ok(moved) => tended.moved += u64::from(moved),
                // Another caller has removed the file, so no work is left.
                Err(FsError::Stale) => {}
                Err(_) => {
                    tended.left += 1;
                    continue;
                }
            }
            // Remove the request only after the examination, and only if no newer request has
            // arrived.
            self.tending.wanted_files(|files| {
                if files.get(&object) == Some(&times) {
                    files.remove(&object);
                }
            });
        }
        tended
    }

    /// Returns true if no examination of files is due.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let Rebalance { asked, done, .. } = &self.tending;
        asked.load(Ordering::Relaxed) == done.load(Ordering::Relaxed)
            && self.tending.wanted_files(|files| files.is_empty())
    }

    /// Makes [`Self::tend`] stop soon, because the metaserver is stopping.
    pub fn end_tending(&self) {
        self.tending.is_ending.store(true, Ordering::Relaxed);
    }

    /// Returns the number of files that are known to be misplaced.
    #[must_use]
    pub fn misplaced_count(&self) -> usize {
        self.tending.misplaced(|files| files.len())
    }

    /// Returns the number of files that are known to have an out-of-date copy.
    #[must_use]
    pub fn behind_count(&self) -> usize {
        self.tending.misplaced(|files| files.values().filter(|is_behind| **is_behind).count())
    }

    /// Returns the size and free space of an iod's file system.
    ///
    /// # Errors
    /// The error of the iod, for example because it is unreachable.
    pub async fn room_of(&self, iod: u16) -> Result<Room, FsError> {
        self.iod(iod).space().await
    }

    async fn are_all_there(&self) -> bool {
        let away = self.used().filter(|iod| iod.is_away());
        join_all(away.map(|iod| iod.verifier())).await;
        self.used().all(|iod| !iod.is_away())
    }

    fn used(&self) -> impl Iterator<Item = &dyn Iod> {
        self.options.used.iter().map(|&iod| self.iod(iod))
    }

    async fn tend_all(&self) -> Result<RebalanceReport, FsError> {
        let mut tended = RebalanceReport::default();
        let mut directories = vec![self.names.root()];
        while let Some(directory) = directories.pop() {
            for (object, file_type) in self.children(&directory).await?.0 {
                match file_type {
                    FileType::Directory => directories.push(object),
                    FileType::Regular => match self.tend_file(&object).await {
                        Ok(moved) => tended.moved += u64::from(moved),
                        // Another caller has removed the file, so no work is left.
                        Err(FsError::Stale) => {}
                        Err(_) => {
                            tended.left += 1;
                            if self.used().any(Iod::is_away) {
                                return Ok(tended);
                            }
                        }
                    },
                    FileType::BlockDevice
                    | FileType::CharacterDevice
                    | FileType::Symlink
                    | FileType::Socket
                    | FileType::Fifo => {}
                }
                if self.tending.is_ending() {
                    return Err(FsError::Delay);
                }
            }
        }
        Ok(tended)
    }

    async fn tend_file(&self, object: &ObjectId) -> Result<bool, FsError> {
        match self.whole_head(object).await? {
            Some((head, behind, ..))
                if self.is_misplaced(&self.shape(object).await?, &head, behind) =>
            {
                let identity = self.names.identity(object);
                self.tending.misplaced(|files| files.insert(identity, behind.any()));
                self.move_file(object).await
            }
            Some(_) | None => {
                self.tending.done(&self.names.identity(object));
                Ok(false)
            }
        }
    }

    /// Returns the children of a directory, and the names for which the listing has no id or
    /// attributes.
    pub(crate) async fn children(
        &self,
        directory: &ObjectId,
    ) -> Result<(Vec<(ObjectId, FileType)>, Vec<Vec<u8>>), FsError> {
        let caller = superuser();
        let (mut children, mut unknown) = (Vec::new(), Vec::new());
        let mut cookie = Cookie(0);
        loop {
            let budget = Budget { reply: Allowance::UNLIMITED, names: Allowance::UNLIMITED };
            let wanted = Wanted::Everything;
            let page = match self.names.readdir(&caller, directory, cookie, budget, wanted).await {
                // Another caller has removed the directory, so it has no further children.
                Err(FsError::Stale) => return Ok((children, unknown)),
                page => page?,
            };
            for entry in page.entries.iter() {
                cookie = entry.cookie;
                if crate::local::is_of_directories(entry.name) {
                    continue;
                }
                match (entry.object, entry.attributes) {
                    (Some(object), Some(about)) => children.push((object, about.file_type)),
                    (_, _) => unknown.push(entry.name.to_vec()),
                }
            }
            if page.end || page.entries.iter().next().is_none() {
                return Ok((children, unknown));
            }
        }
    }
}
