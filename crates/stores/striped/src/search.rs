//! A search for leftover stripe objects, which belong to no file, while clients use the files.
//!
//! An object becomes a leftover if the metaserver crashes, or an iod is unreachable, after the
//! metaserver has changed a file and before it changes the objects of the file. The removal of an
//! object that belongs to a file loses data, so the search never reports a doubtful object as a
//! leftover.
//!
//! Rules:
//! 1. The search lists the objects of the iods first. Then it walks all file names, and takes the
//!    objects of each file off the list. If objects remain, it walks all file names once more, as
//!    local programs may have renamed files during the first walk.
//! 2. The store assigns each object name once. So no file gets a leftover object later, unless a
//!    metafile header with its name is about to be written. Therefore the search spares the objects
//!    of all headers in progress at the start of the list, and of all object names that the store
//!    assigns during the list.
//! 3. A task that renames or links a file or directory records it for the walk. A walk ends when
//!    all such tasks have made their records and the walk has examined all recorded files and
//!    directories.
//! 4. After a failed write of a metafile header, either the new or the previous header may be in
//!    the metafile. So the search spares the objects of both headers until the next start of the
//!    metaserver.
//! 5. The metafile of a small file contains the object name for the time when the file grows.
//!    Objects with this name belong to no file yet, but the file may grow at any time: the search
//!    removes these objects only with exclusive access to the file.
//! 6. The search examines each object again before its removal. An object that has changed since
//!    the list is in use by a writer, so the search spares it.
//! 7. A held file without a name (`held`) still uses its objects, so the search spares them.
//! 8. The walk may miss a file name whose removal is not yet on stable storage, so that a crash
//!    restores the name. Therefore the caller must sync the directory of names before it removes
//!    objects.

use core::fmt;
use core::sync::atomic::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use leasehold_fs::{FsError, ObjectId};
use tokio::sync::{RwLock, RwLockReadGuard};

use crate::Striped;
use crate::file::Data;
use crate::iod::{Extent, Iod, ObjectName};
use crate::leftovers::{self, AT_ONCE, Leftovers, Listed};
use crate::metafile::{Head, Placed};
use crate::walk::{Visitor, Walk};

/// The maximum number of renamed or linked files and directories that are recorded for a walk, and
/// the maximum number of directories that are renamed during one search. Beyond either maximum the
/// search fails.
pub(crate) const NOTED_MAX: usize = 65_536;

/// The maximum number of doubtful object names; beyond it no search runs.
const DOUBTS_MAX: usize = 65_536;

/// An upper bound of the numbers in object names: no start of the metaserver assigns as many. The
/// search spares objects with greater numbers, since this start has not created them.
const NUMBERS_MAX: u64 = 1 << 63;

/// The number of walks over all file names.
pub(crate) const WALKS: u32 = 2;

/// The changes in progress that a search must know.
#[derive(Debug, Default)]
pub(crate) struct Search {
    state: Mutex<State>,
    /// Held shared by each task that renames or links, until the task has recorded the file or
    /// directory.
    naming: RwLock<()>,
}

#[derive(Debug, Default)]
struct State {
    /// The object names of metafile headers that are not written yet.
    making: BTreeSet<ObjectName>,
    /// The object names that the header of some metafile may contain after a failed write.
    doubted: BTreeSet<ObjectName>,
    /// True if there were too many doubtful object names to record.
    has_lost_doubts: bool,
    /// The renamed or linked files and directories; `None` if no walk is in progress.
    noted: Option<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    objects: BTreeSet<ObjectId>,
    /// True if a renamed file or directory is not in `objects`.
    has_lost_some: bool,
}

/// The leftover objects of a volume, and the information for their removal.
#[derive(Debug)]
pub struct Found {
    /// The leftover objects.
    pub leftovers: Leftovers,
    /// The small files whose metafiles contain the names of leftover objects.
    small: BTreeMap<ObjectName, ObjectId>,
}

/// The reason why a search cannot find the leftover objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchError {
    /// Another search is in progress.
    Busy,
    /// The server stops.
    Ending,
    /// A file or directory cannot be read: the path to it, if that is known.
    Names(Option<Vec<u8>>, FsError),
    /// Too many files or directories were renamed during the search.
    Restless,
    /// Other metaservers have metafiles, too.
    Several,
    /// The writes of too many metafile headers have failed since the start of the metaserver.
    Uncertain,
}

impl fmt::Display for SearchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("another search is in progress"),
            Self::Ending => f.write_str("the server is stopping"),
            Self::Names(Some(path), error) if !path.is_empty() => {
                write!(f, "cannot read {}: {error}", String::from_utf8_lossy(path))
            }
            Self::Names(_, error) => write!(f, "cannot read the names: {error}"),
            Self::Restless => f.write_str("too many files are being renamed: try again later"),
            Self::Several => f.write_str(
                "several metaservers have metafiles of this volume, and none of them has all: \
                 leftover objects cannot be determined",
            ),
            Self::Uncertain => {
                f.write_str("too many metafiles could not be written: restart the metaserver")
            }
        }
    }
}

/// An object name for a metafile header that is not written yet. The name becomes doubtful if this
/// value is dropped without a call of `end`, as in a cancelled call.
pub(crate) struct Making<'a> {
    search: &'a Search,
    name: ObjectName,
    is_known: bool,
}

impl Making<'_> {
    /// Ends the creation: the header has been written, or will never be written.
    pub(crate) fn end(mut self) {
        self.is_known = true;
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.search.state(|state| {
            state.making.remove(&self.name);
            if !self.is_known {
                state.doubt(self.name);
            }
        });
    }
}

/// A walk over all names that is in progress.
pub(crate) struct UnderWay<'a>(&'a Search);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.state(|state| state.noted = None);
    }
}

impl State {
    fn doubt(&mut self, name: ObjectName) {
        if self.doubted.len() < DOUBTS_MAX {
            self.doubted.insert(name);
        } else {
            self.has_lost_doubts = true;
        }
    }
}

impl Search {
    fn state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes tasks record the files and directories that they rename or link, until the result is
    /// dropped.
    pub(crate) fn begin(&self) -> Result<UnderWay<'_>, SearchError> {
        self.state(|state| match &state.noted {
            Some(_) => Err(SearchError::Busy),
            None => {
                state.noted = Some(Noted::default());
                Ok(UnderWay(self))
            }
        })
    }

    /// Waits until all tasks that are renaming or linking now have recorded the file or directory.
    pub(crate) async fn all_have_noted(&self) {
        drop(self.naming.write().await);
    }

    /// Returns a guard for a task that renames or links. The task calls [`Self::note`] before it
    /// drops the guard.
    pub(crate) async fn naming(&self) -> RwLockReadGuard<'_, ()> {
        self.naming.read().await
    }

    /// Returns true if tasks must record the files and directories that they rename or link.
    pub(crate) fn is_under_way(&self) -> bool {
        self.state(|state| state.noted.is_some())
    }

    /// Records a renamed or linked file or directory; `None` if it is unknown which one was
    /// renamed.
    pub(crate) fn note(&self, object: Option<ObjectId>) {
        self.state(|state| {
            if let Some(noted) = &mut state.noted {
                match object {
                    Some(object) if noted.objects.len() < NOTED_MAX => {
                        noted.objects.insert(object);
                    }
                    Some(_) | None => noted.has_lost_some = true,
                }
            }
        });
    }

    /// Returns the files and directories that were recorded since the last call.
    pub(crate) fn noted(&self) -> Result<BTreeSet<ObjectId>, SearchError> {
        self.state(|state| match &mut state.noted {
            Some(Noted { has_lost_some: true, .. }) => Err(SearchError::Restless),
            Some(noted) => Ok(core::mem::take(&mut noted.objects)),
            None => Ok(BTreeSet::new()),
        })
    }

    /// Creates a metafile header whose objects are created before the header is written.
    pub(crate) fn making(&self, make: impl FnOnce() -> Head) -> (Head, Making<'_>) {
        // Assign the object name and record it under one lock. So a search that starts at the same
        // time either sees this name in `making`, or reads the counter `made` before the assignment
        // and spares the name as a later one.
        let head = self.state(|state| {
            let head = make();
            state.making.insert(head.name);
            head
        });
        let making = Making { search: self, name: head.name, is_known: false };
        (head, making)
    }

    /// Records that the metafile may contain either of two headers, so that the objects of both
    /// names may belong to a file.
    pub(crate) fn doubt(&self, names: [ObjectName; 2]) {
        self.state(|state| names.into_iter().for_each(|name| state.doubt(name)));
    }

    /// Returns true if an object may belong to a file although no metafile contained its name.
    fn is_doubted(&self, object: ObjectName) -> bool {
        self.state(|state| {
            let [first, second] = [object, object.second()].map(|it| state.doubted.contains(&it));
            first || second || state.has_lost_doubts
        })
    }
}

impl Found {
    /// Keeps only the found objects that `keeps` accepts, each with the number of its iod.
    pub(crate) fn retain(&mut self, keeps: impl Fn(u16, &(ObjectName, Extent)) -> bool) {
        for (number, left) in (0..).zip(&mut self.leftovers.iods) {
            if let Some(left) = left {
                left.objects.retain(|object| keeps(number, object));
            }
        }
    }
}

impl Striped {
    /// Finds leftover objects while clients use the files. The result omits the objects of iods
    /// that do not answer.
    ///
    /// # Errors
    /// See [`SearchError`].
    pub async fn search(&self) -> Result<Found, SearchError> {
        if self.options.shared {
            return Err(SearchError::Several);
        }
        let (_under_way, kept, next) = self.begin_search()?;
        // Skip the iods that are known to be unreachable, because a call would wait for them.
        let asked = self.iods.iter().map(async |iod| match iod.is_away() {
            true => None,
            false => leftovers::list(&**iod).await.ok(),
        });
        let listed = join_all(asked).await;
        let mut listed = Listed::new(self.options.volume, listed);
        let later = next..self.pass_over(&listed);
        listed.retain(|object| {
            let number = self.options.number_of(object);
            number.is_none_or(|number| number < NUMBERS_MAX && !later.contains(&number))
                && !kept.contains(&object)
                && !kept.contains(&object.second())
        });
        let mut walk = Walk::new(self, OfFiles { listed, small: BTreeMap::new() });
        for _ in 0..WALKS {
            walk.all().await?;
            if walk.visitor.listed.is_empty() {
                break;
            }
        }
        let OfFiles { mut listed, small } = walk.visitor;
        let held = self.names_of_held().await;
        listed.retain(|object| !held.contains(&object) && !held.contains(&object.second()));
        let iods: Vec<&dyn Iod> = self.iods.iter().map(|iod| &**iod).collect();
        Ok(Found { leftovers: listed.measured(&iods).await, small })
    }

    /// Makes tasks record renamed files. Returns the object names that the search must spare, and
    /// the number of the next object name.
    fn begin_search(&self) -> Result<(UnderWay<'_>, BTreeSet<ObjectName>, u64), SearchError> {
        self.search.state(|state| {
            if state.noted.is_some() {
                return Err(SearchError::Busy);
            }
            if state.has_lost_doubts {
                return Err(SearchError::Uncertain);
            }
            state.noted = Some(Noted::default());
            let next = self.made.load(Ordering::Relaxed);
            let kept = state.making.union(&state.doubted).copied().collect();
            Ok((UnderWay(&self.search), kept, next))
        })
    }

    /// Makes the store never assign the numbers of the listed object names, as of objects that an
    /// administrator copied to an iod. Returns the number of the next object name before this
    /// change: this start has assigned only smaller numbers.
    fn pass_over(&self, listed: &Listed) -> u64 {
        let numbers = listed.objects().filter_map(|object| self.options.number_of(object));
        let last = numbers.filter(|number| *number < NUMBERS_MAX).max();
        self.made.fetch_max(last.map_or(0, |last| last + 1), Ordering::Relaxed)
    }

    /// Removes the found objects that have not changed. Returns the number of removed objects of
    /// each iod. The caller must have synced all names after the search.
    pub async fn remove_found(&self, found: &Found) -> Vec<u64> {
        let Found { leftovers, small } = found;
        // A file that loses its last name after this query had the name during both walks.
        let held = self.names_of_held().await;
        let removed = self.iods.iter().zip(&leftovers.iods).map(async |(iod, left)| {
            let objects = left.iter().flat_map(|left| &left.objects);
            let objects = objects
                .filter(|(object, _)| !held.contains(object) && !held.contains(&object.second()));
            let removed = objects.map(|(object, extent)| {
                let first = small.get(object).or_else(|| small.get(&object.second()));
                self.remove_leftover(&**iod, *object, extent, first)
            });
            let removed = stream::iter(removed).buffer_unordered(AT_ONCE);
            removed.fold(0, |sum, is_gone| core::future::ready(sum + u64::from(is_gone))).await
        });
        join_all(removed).await
    }

    /// Removes a leftover object; returns true if the object is gone. `small` is the small file
    /// whose metafile contains the object name, if there is one.
    async fn remove_leftover(
        &self,
        iod: &dyn Iod,
        object: ObjectName,
        found: &Extent,
        small: Option<&ObjectId>,
    ) -> bool {
        if self.search.is_doubted(object) || self.tending.is_ending() {
            return false;
        }
        let Some(small) = small else { return leftovers::remove(iod, object, found).await };
        let file = self.file(small);
        let data = match self.alone(small, &file).await {
            Ok(data) => data,
            // The file was removed while it was small, so it never gets the object.
            Err(FsError::Stale) => return leftovers::remove(iod, object, found).await,
            Err(_) => return false,
        };
        match &*data {
            Data::Inline(head) if [head.name, head.name.second()].contains(&object) => {
                leftovers::remove(iod, object, found).await
            }
            Data::Inline(_) | Data::OnIods(_) | Data::Nowhere | Data::Unknown | Data::Gone => false,
        }
    }
}

/// A visitor that takes the objects of each file off the list of the iods' objects.
struct OfFiles {
    listed: Listed,
    small: BTreeMap<ObjectName, ObjectId>,
}

impl Visitor for OfFiles {
    async fn visit(&mut self, object: ObjectId, placed: Placed) {
        self.listed.found(&placed);
        let name = placed.object;
        let is_small = placed.iods.is_empty();
        if is_small && (self.listed.has(name) || self.listed.has(name.second())) {
            self.small.insert(name, object);
        }
    }
}
