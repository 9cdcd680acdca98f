//! Finding objects that no file has, while files are used.
//!
//! They are left where a crash, or an iod that is away, comes between a file and its objects. What
//! is wrongly taken for such is lost data, so whatever is in doubt is left.
//!
//! Rules:
//! 1. What iods have is listed first; then all names are walked. Where something is left, they are
//!    walked once more, as local programs may have moved something meanwhile.
//! 2. Each name of objects is given once. So what no file has no file ever gets, but by a head that
//!    is yet to be written. The names of those that were begun before the list are kept, and all
//!    that are given while it is made.
//! 3. Who gives something another name takes note of it, and a walk ends when everybody has who was
//!    at that, and all that was noted was looked at.
//! 4. Of a head that could not be written nobody knows whether it, or the one before, will be there
//!    after a crash: the objects of both are kept until the next start.
//! 5. Objects of the name that stands in a small file are nobody's, but will be the file's when it
//!    grows: they are removed with nobody else at it.
//! 6. What was found is looked at again before it is removed: who writes it has it.
//! 7. That a name is gone may not be on stable storage when it is found out: who has something
//!    removed sees to that before.

use core::fmt;
use core::sync::atomic::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use leasehold_fs::{FsError, ObjectId};
use tokio::sync::{RwLock, RwLockReadGuard};

use crate::Striped as Volume;
use crate::file::Data;
use crate::iod::{Extent, Iod, ObjectName};
use crate::leftovers::{self, AT_ONCE, Leftovers, Listed};
use crate::metafile::{Head, Placed};
use crate::walk::{Visitor, Walk};

/// What gets other names is kept in mind so far; where there is more at once the search fails, and
/// where more directories do in all.
pub(crate) const NOTED_MAX: usize = 65_536;

/// Names of objects of which it is in doubt whose they are; with more nothing is searched for.
const DOUBTS_MAX: usize = 65_536;

/// No start gives as many names, so those of greater numbers were not given by it.
const NUMBERS_MAX: u64 = 1 << 63;

/// How often all names are walked.
pub(crate) const WALKS: u32 = 2;

/// What is known of files, and of names, that a search has to know.
#[derive(Debug, Default)]
pub(crate) struct Search {
    state: Mutex<State>,
    /// Shared by all who give something another name.
    naming: RwLock<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Names of objects that are made for a head that is yet to be written.
    making: BTreeSet<ObjectName>,
    /// Those of which it is in doubt whether a head has them.
    doubted: BTreeSet<ObjectName>,
    /// Whether there were too many.
    has_lost_doubts: bool,
    /// What got another name, while there is a search.
    noted: Option<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    objects: BTreeSet<ObjectId>,
    /// Whether something was not noted.
    has_lost_some: bool,
}

/// What no file of a volume has, and what is to be known to remove it.
#[derive(Debug)]
pub struct Found {
    /// What it is.
    pub leftovers: Leftovers,
    /// The small files whose objects will have such a name when they grow.
    small: BTreeMap<ObjectName, ObjectId>,
}

/// Why it cannot be told what no file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchError {
    /// Another search goes on.
    Busy,
    /// It is to end.
    Ending,
    /// A file or directory cannot be read: the path to it, where that is known.
    Names(Option<Vec<u8>>, FsError),
    /// Too much got other names.
    Restless,
    /// Other metaservers have metafiles, too.
    Several,
    /// Too many heads could not be written since the start.
    Uncertain,
}

impl fmt::Display for SearchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("another search goes on"),
            Self::Ending => f.write_str("the server is about to end"),
            Self::Names(Some(path), error) if !path.is_empty() => {
                write!(f, "{} cannot be read: {error}", String::from_utf8_lossy(path))
            }
            Self::Names(_, error) => write!(f, "the names cannot be read: {error}"),
            Self::Restless => f.write_str("too much is being renamed: try it again later"),
            Self::Several => f.write_str(
                "files have their metafiles at several metaservers, and none knows them all: what \
                 no file has cannot be told",
            ),
            Self::Uncertain => {
                f.write_str("too many metafiles could not be written: start the metaserver anew")
            }
        }
    }
}

/// A name of objects that are made for a head that is yet to be written. It is in doubt where this
/// is dropped before its end.
pub(crate) struct Making<'a> {
    search: &'a Search,
    name: ObjectName,
    is_known: bool,
}

impl Making<'_> {
    /// The head is written, or never will be.
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

/// A walk over all names that is under way.
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

    /// Has tasks note the objects that get other names, until the result is dropped.
    pub(crate) fn begin(&self) -> Result<UnderWay<'_>, SearchError> {
        self.state(|state| match &state.noted {
            Some(_) => Err(SearchError::Busy),
            None => {
                state.noted = Some(Noted::default());
                Ok(UnderWay(self))
            }
        })
    }

    /// Waits until all tasks that give an object another name now have noted the object.
    pub(crate) async fn all_have_noted(&self) {
        drop(self.naming.write().await);
    }

    /// Something is given another name until this is dropped; what it is is to be noted before.
    pub(crate) async fn naming(&self) -> RwLockReadGuard<'_, ()> {
        self.naming.read().await
    }

    /// Whether what gets another name is to be noted.
    pub(crate) fn is_under_way(&self) -> bool {
        self.state(|state| state.noted.is_some())
    }

    /// Takes note of what got another name; none where it is not known what that was.
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

    /// What was noted since this was asked before.
    pub(crate) fn noted(&self) -> Result<BTreeSet<ObjectId>, SearchError> {
        self.state(|state| match &mut state.noted {
            Some(Noted { has_lost_some: true, .. }) => Err(SearchError::Restless),
            Some(noted) => Ok(core::mem::take(&mut noted.objects)),
            None => Ok(BTreeSet::new()),
        })
    }

    /// Has a head made whose objects are made before it is written.
    pub(crate) fn making(&self, make: impl FnOnce() -> Head) -> (Head, Making<'_>) {
        // A search that begins now knows its name, or that it is given later.
        let head = self.state(|state| {
            let head = make();
            state.making.insert(head.name);
            head
        });
        let making = Making { search: self, name: head.name, is_known: false };
        (head, making)
    }

    /// It is in doubt which of two heads is there, so the objects of both may be a file's.
    pub(crate) fn doubt(&self, names: [ObjectName; 2]) {
        self.state(|state| names.into_iter().for_each(|name| state.doubt(name)));
    }

    /// Whether the objects of a name may be a file's, whatever stands in metafiles.
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

impl Volume {
    /// Finds out what no file has, while files are used. What iods have that do not answer is not
    /// looked for.
    ///
    /// # Errors
    /// As [`SearchError`] says.
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

    /// Has what gets other names be noted from now on. Gives the names of objects that are being
    /// made, and the number that the next will have.
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

    /// Has no number be given any more that stands in the name of an object, though it was not
    /// given yet, as where somebody copied it there. Gives the number before which all may be given.
    fn pass_over(&self, listed: &Listed) -> u64 {
        let numbers = listed.objects().filter_map(|object| self.options.number_of(object));
        let last = numbers.filter(|number| *number < NUMBERS_MAX).max();
        self.made.fetch_max(last.map_or(0, |last| last + 1), Ordering::Relaxed)
    }

    /// Removes what was found, as far as it is as it was. Gives how many objects of each iod are
    /// gone. All names are to be on stable storage as they were when it was found.
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

    /// Removes an object of no file, whose name is that of a small file's objects to come, or of
    /// none.
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
            // It was removed as a small file.
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

/// Takes the objects that files have out of the objects that iods have.
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
