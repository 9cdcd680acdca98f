//! Looking after all files: what does not lie where it should is moved.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use futures_util::future::join_all;
use leasehold_base::units::Cookie;
use leasehold_fs::{Allowance, Budget, FileType, FsError, ObjectId, Wanted};

use crate::Striped as Volume;
use crate::iod::{Iod, Room};
use crate::look::superuser;

/// Files that are known to be misplaced; of more only that there are some.
const KNOWN_MAX: usize = 65_536;

/// What is known of files that do not lie where they should.
#[derive(Debug)]
pub(crate) struct Tending {
    misplaced: Mutex<BTreeSet<ObjectId>>,
    /// How often there was something to look for.
    asked: AtomicU64,
    /// How much of that was done.
    done: AtomicU64,
    is_ending: AtomicBool,
}

/// What looking after all files came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tended {
    /// Files that were moved.
    pub moved: u64,
    /// Files that could not be moved now.
    pub left: u64,
}

impl Tending {
    pub(crate) fn new(is_due: bool) -> Self {
        Self {
            misplaced: Mutex::default(),
            asked: AtomicU64::new(u64::from(is_due)),
            done: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
        }
    }

    fn misplaced<T>(&self, look: impl FnOnce(&mut BTreeSet<ObjectId>) -> T) -> T {
        look(&mut self.misplaced.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes note of a file that does not lie where it should.
    pub(crate) fn found(&self, identity: ObjectId) {
        self.misplaced(|files| {
            if files.len() < KNOWN_MAX {
                files.insert(identity);
            }
        });
        self.asked.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes note of a file that does, or is gone.
    pub(crate) fn done(&self, identity: &ObjectId) {
        self.misplaced(|files| files.remove(identity));
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }
}

impl Volume {
    /// Looks after all files, if there may be any to be moved and all iods are there that are to
    /// be used; does nothing otherwise. An iod that is away is asked whether it is back.
    ///
    /// # Errors
    /// The names cannot be read.
    pub async fn tend(&self) -> Result<Option<Tended>, FsError> {
        let all_are_there = self.are_all_there().await;
        let asked = self.tending.asked.load(Ordering::Relaxed);
        if !all_are_there || self.tending.done.load(Ordering::Relaxed) == asked {
            return Ok(None);
        }
        let tended = match self.tend_all().await {
            Err(_) if self.tending.is_ending() => return Ok(None),
            tended => tended?,
        };
        if tended.left == 0 {
            self.tending.done.store(asked, Ordering::Relaxed);
        }
        Ok(Some(tended))
    }

    /// Whether all files lie where they should, as far as is known.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let Tending { asked, done, .. } = &self.tending;
        asked.load(Ordering::Relaxed) == done.load(Ordering::Relaxed)
    }

    /// Has [`Self::tend`] end soon, wherever it is.
    pub fn end_tending(&self) {
        self.tending.is_ending.store(true, Ordering::Relaxed);
    }

    /// How many files are known not to lie where they should.
    #[must_use]
    pub fn misplaced_count(&self) -> usize {
        self.tending.misplaced(|files| files.len())
    }

    /// The room of an iod.
    ///
    /// # Errors
    /// It does not say, as when it is away.
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

    async fn tend_all(&self) -> Result<Tended, FsError> {
        let mut tended = Tended::default();
        let mut directories = vec![self.names.root()];
        while let Some(directory) = directories.pop() {
            for (object, file_type) in self.children(&directory).await? {
                match file_type {
                    FileType::Directory => directories.push(object),
                    FileType::Regular => match self.tend_file(&object).await {
                        Ok(moved) => tended.moved += u64::from(moved),
                        // Somebody removed it.
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
                    return Err(FsError::Later);
                }
            }
        }
        Ok(tended)
    }

    async fn tend_file(&self, object: &ObjectId) -> Result<bool, FsError> {
        match self.whole_head(object).await? {
            Some((head, behind, ..)) if self.is_misplaced(&head, behind) => {
                self.tending.misplaced(|files| files.insert(self.names.identity(object)));
                self.move_file(object).await
            }
            Some(_) | None => Ok(false),
        }
    }

    /// What lies in a directory.
    async fn children(&self, directory: &ObjectId) -> Result<Vec<(ObjectId, FileType)>, FsError> {
        let caller = superuser();
        let mut children = Vec::new();
        let mut cookie = Cookie(0);
        loop {
            let budget = Budget { reply: Allowance::UNLIMITED, names: Allowance::UNLIMITED };
            let wanted = Wanted::Everything;
            let page = match self.names.readdir(&caller, directory, cookie, budget, wanted).await {
                // Somebody removed it.
                Err(FsError::Stale) => return Ok(children),
                page => page?,
            };
            for entry in page.entries.iter() {
                cookie = entry.cookie;
                if let (false, Some(object), Some(attributes)) =
                    (crate::local::is_of_directories(entry.name), entry.object, entry.attributes)
                {
                    children.push((object, attributes.file_type));
                }
            }
            if page.end || page.entries.iter().next().is_none() {
                return Ok(children);
            }
        }
    }
}
