//! A search for leftover objects, which belong to no file, while clients use the files.
//!
//! Objects become leftovers if a crash, or an iod that is away, comes between the change of a file
//! and the change of its objects. To mistake an object for a leftover means a loss of data, so the
//! search keeps every doubtful object.
//!
//! Rules:
//! 1. The search lists the objects of the iods first; then it walks all names. If objects remain,
//!    it walks the names once more, as local programs may have moved files meanwhile.
//! 2. The store uses each name of objects once. So no file ever gets a leftover object, except by a
//!    head that is not written yet. The search keeps the names of heads in progress at the time of
//!    the list, and all names that the store assigns during the list.
//! 3. A task that gives an object another name records the object. A walk ends when all such tasks
//!    have recorded their objects and the walk has examined them.
//! 4. After a failed write of a head it is unknown if this head, or the previous one, is in place
//!    after a crash: the search keeps the objects of both until the next start.
//! 5. Objects of the name in the metafile of a small file belong to no file yet, but will belong to
//!    this file when it grows: the search removes them only with exclusive access to the file.
//! 6. The search examines each object again before its removal: a changed object belongs to a
//!    writer.
//! 7. The removal of a name may not be on stable storage when the search misses the name: the
//!    caller must sync the names before it removes objects.

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

/// The maximum number of recorded objects with new names, and of directories with new names during
/// one search; beyond either the search fails.
pub(crate) const NOTED_MAX: usize = 65_536;

/// The maximum number of doubtful names of objects; beyond it no search runs.
const DOUBTS_MAX: usize = 65_536;

/// No start assigns as many names, so this start has not assigned any greater number.
const NUMBERS_MAX: u64 = 1 << 63;

/// The number of walks over all names.
pub(crate) const WALKS: u32 = 2;

/// The state of files and names that a search needs.
#[derive(Debug, Default)]
pub(crate) struct Search {
    state: Mutex<State>,
    /// Shared by all tasks that give an object another name.
    naming: RwLock<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Names of objects that are created for a head that is not written yet.
    making: BTreeSet<ObjectName>,
    /// Names of objects that may belong to a head.
    doubted: BTreeSet<ObjectName>,
    /// True if there were too many doubtful names.
    has_lost_doubts: bool,
    /// The objects that got another name, during a search.
    noted: Option<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    objects: BTreeSet<ObjectId>,
    /// True if an object was not recorded.
    has_lost_some: bool,
}

/// The leftover objects of a volume, and the information for their removal.
#[derive(Debug)]
pub struct Found {
    /// The leftover objects.
    pub leftovers: Leftovers,
    /// The small files whose objects will have such a name when they grow.
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
    /// Too many objects got other names.
    Restless,
    /// Other metaservers have metafiles, too.
    Several,
    /// The writes of too many heads have failed since the start.
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

/// A name of objects that are created for a head that is not written yet. The name is doubtful if
/// this value is dropped before `end`.
pub(crate) struct Making<'a> {
    search: &'a Search,
    name: ObjectName,
    is_known: bool,
}

impl Making<'_> {
    /// Ends the creation: the head is written, or never will be.
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

    /// Makes tasks record the objects that get other names, until the result is dropped.
    pub(crate) fn begin(&self) -> Result<UnderWay<'_>, SearchError> {
        self.state(|state| match &state.noted {
            Some(_) => Err(SearchError::Busy),
            None => {
                state.noted = Some(Noted::default());
                Ok(UnderWay(self))
            }
        })
    }

    /// Waits until all tasks that now give an object another name have recorded the object.
    pub(crate) async fn all_have_noted(&self) {
        drop(self.naming.write().await);
    }

    /// Returns a guard for a task that gives an object another name; the task records the object
    /// before it drops the guard.
    pub(crate) async fn naming(&self) -> RwLockReadGuard<'_, ()> {
        self.naming.read().await
    }

    /// Returns true if tasks must record objects that get another name.
    pub(crate) fn is_under_way(&self) -> bool {
        self.state(|state| state.noted.is_some())
    }

    /// Records an object that got another name; `None` if the object is unknown.
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

    /// Returns the objects that were recorded since the last call.
    pub(crate) fn noted(&self) -> Result<BTreeSet<ObjectId>, SearchError> {
        self.state(|state| match &mut state.noted {
            Some(Noted { has_lost_some: true, .. }) => Err(SearchError::Restless),
            Some(noted) => Ok(core::mem::take(&mut noted.objects)),
            None => Ok(BTreeSet::new()),
        })
    }

    /// Creates a head whose objects are created before it is written.
    pub(crate) fn making(&self, make: impl FnOnce() -> Head) -> (Head, Making<'_>) {
        // A search that begins now has this name in its list of names in progress, or it counts the
        // number as one that was assigned later.
        let head = self.state(|state| {
            let head = make();
            state.making.insert(head.name);
            head
        });
        let making = Making { search: self, name: head.name, is_known: false };
        (head, making)
    }

    /// Records that either of two heads may be in place, so that the objects of both may belong to
    /// a file.
    pub(crate) fn doubt(&self, names: [ObjectName; 2]) {
        self.state(|state| names.into_iter().for_each(|name| state.doubt(name)));
    }

    /// Returns true if the objects of a name may belong to a file, regardless of the metafiles.
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
        // No search waits for an iod that is known to be away.
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
        let OfFiles { listed, small } = walk.visitor;
        let iods: Vec<&dyn Iod> = self.iods.iter().map(|iod| &**iod).collect();
        Ok(Found { leftovers: listed.measured(&iods).await, small })
    }

    /// Makes tasks record objects that get other names. Returns the names of objects that are being
    /// created, and the next number.
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

    /// Skips the numbers that occur in names of objects but were not assigned yet, as when an
    /// administrator copied the objects there. Returns the upper bound of the numbers that this
    /// start has assigned.
    fn pass_over(&self, listed: &Listed) -> u64 {
        let numbers = listed.objects().filter_map(|object| self.options.number_of(object));
        let last = numbers.filter(|number| *number < NUMBERS_MAX).max();
        self.made.fetch_max(last.map_or(0, |last| last + 1), Ordering::Relaxed)
    }

    /// Removes the found objects that have not changed. Returns the number of removed objects of
    /// each iod. The caller must have synced all names after the search.
    pub async fn remove_found(&self, found: &Found) -> Vec<u64> {
        let Found { leftovers, small } = found;
        let removed = self.iods.iter().zip(&leftovers.iods).map(async |(iod, left)| {
            let objects = left.iter().flat_map(|left| &left.objects);
            let removed = objects.map(|(object, extent)| {
                let first = small.get(object).or_else(|| small.get(&object.second()));
                self.remove_leftover(&**iod, *object, extent, first)
            });
            let removed = stream::iter(removed).buffer_unordered(AT_ONCE);
            removed.fold(0, |sum, is_gone| core::future::ready(sum + u64::from(is_gone))).await
        });
        join_all(removed).await
    }

    /// Removes a leftover object. `small` is the small file whose future objects have this name, if
    /// there is one.
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
            // The file was removed while it was still small.
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

/// Takes the objects of files out of the list of objects of the iods.
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
