//! Cached information about a file: the location of its data, and its size.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_base::units::FileTime;
use leasehold_fs::ObjectId;
use tokio::sync::RwLock;

use crate::iod::Extent;
use crate::metafile::{Behind, Head};
use crate::migrate::Move;

/// The maximum number of files whose location and sizes are in memory. For other files the store
/// queries the iods again.
const FILES_MAX: usize = 65_536;

/// The location of a file's data, under a lock. READ and WRITE hold the lock shared; a migration or
/// a truncation of the data holds the lock exclusively.
pub(crate) type File = RwLock<Data>;

/// The location of a file's data.
#[derive(Debug, Default)]
pub(crate) enum Data {
    /// The store has not read the metafile yet.
    #[default]
    Unknown,
    /// The file has no data, because no client has written to the file.
    Nowhere,
    /// The data is in the metafile, after its header.
    Inline(Head),
    /// The data is on iods.
    OnIods(Objects),
    /// The file no longer exists.
    Gone,
}

impl Data {
    /// Returns true if callers may rely on this information without a query of the iods.
    pub(crate) fn is_known(&self) -> bool {
        match self {
            Self::Nowhere | Self::Inline(_) => true,
            Self::OnIods(objects) => !objects.is_in_doubt(),
            Self::Unknown | Self::Gone => false,
        }
    }
}

/// The cached information about a file whose data is on iods.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) head: Head,
    /// The lock of the metafile's times. A task that records an out-of-date copy holds the lock
    /// exclusively while it writes the metafile and restores its times; tasks that change the times
    /// hold the lock shared.
    pub(crate) times: RwLock<()>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    extents: Vec<Extent>,
    /// The number of the last change of data; see `Change::number`.
    change: u64,
    /// True if `extents` may be wrong, as after an error of an iod.
    in_doubt: bool,
    /// The out-of-date copies that the metafile lists.
    behind: Behind,
    /// The migration of the data, if one is in progress.
    moving: Option<Arc<Move>>,
    /// The change time of the metafile for which the extents are valid.
    seen: FileTime,
    /// The number of this metaserver's exclusive access to the file under which it read the
    /// extents.
    alone: u64,
    /// If a client may write the objects: the sizes and times of the objects when the metafile last
    /// reflected them.
    given_out: Option<Shown>,
    /// The change time of the metafile after its last change that no client requested.
    shown_at: FileTime,
}

/// Size and modification time of each object.
pub(crate) type Shown = Vec<(u64, FileTime)>;

impl State {
    fn shown(&self) -> Shown {
        self.extents.iter().map(|extent| (extent.size, extent.modified)).collect()
    }
}

impl Objects {
    pub(crate) fn new(head: Head, extents: Vec<Extent>, change: u64, behind: Behind) -> Self {
        let seen = FileTime::default();
        let (in_doubt, moving, given_out) = (false, None, None);
        let (alone, shown_at) = (0, seen);
        let state =
            State { extents, change, in_doubt, behind, moving, seen, alone, given_out, shown_at };
        Self { head, times: RwLock::new(()), state: Mutex::new(state) }
    }

    /// Returns the information about objects that contain no data yet.
    pub(crate) fn empty(head: Head) -> Self {
        let none = vec![Extent::default(); head.iods.len()];
        Self::new(head, none, 0, Behind::default())
    }

    /// Records that the extents are valid for this change time of the metafile.
    pub(crate) fn saw(&self, changed: FileTime) {
        self.state(|state| state.seen = changed);
    }

    /// Returns true if the metafile has changed since the extents were read.
    pub(crate) fn is_older_than(&self, changed: FileTime) -> bool {
        self.state(|state| state.seen != changed)
    }

    /// Returns true if no other metaserver has had access to the file since this metaserver read
    /// the extents. The caller has exclusive access now, and `number` is the number of this access.
    pub(crate) fn was_alone(&self, number: u64) -> bool {
        self.state(|state| state.alone == number)
    }

    /// Records the number of the exclusive access under which the extents were read.
    pub(crate) fn alone_by(&self, number: u64) {
        self.state(|state| state.alone = number);
    }

    fn state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the size of the file: the greatest end of its objects.
    pub(crate) fn size(&self) -> u64 {
        self.state(|state| self.size_of(state))
    }

    fn size_of(&self, state: &State) -> u64 {
        let sizes = (0..).zip(&state.extents);
        let ends = sizes.map(|(object, extent)| self.head.layout.file_size(object, extent.size));
        ends.max().unwrap_or(0)
    }

    /// Returns the size of the file and the bytes that it uses on the disks.
    pub(crate) fn extent(&self) -> Extent {
        self.state(|state| {
            let used: u64 = state.extents.iter().map(|extent| extent.used).sum();
            let (size, used) = (self.size_of(state), used * u64::from(self.head.copies));
            Extent { size, used, ..Extent::default() }
        })
    }

    /// Returns the extent of each object.
    pub(crate) fn extents(&self) -> Vec<Extent> {
        self.state(|state| state.extents.clone())
    }

    /// Returns the known size of one object.
    pub(crate) fn size_of_object(&self, object: u16) -> u64 {
        self.state(|state| state.extents[usize::from(object)].size)
    }

    /// Records the extent of an object after a write. Replies may arrive out of order, so the
    /// largest values win.
    pub(crate) fn grown(&self, object: u16, extent: Extent) {
        self.state(|state| {
            let known = &mut state.extents[usize::from(object)];
            known.size = known.size.max(extent.size);
            known.used = known.used.max(extent.used);
            known.modified = known.modified.max(extent.modified);
        });
    }

    /// Records the extent of an object; the caller has exclusive access to the file.
    pub(crate) fn resized(&self, object: u16, extent: Extent) {
        self.state(|state| state.extents[usize::from(object)] = extent);
    }

    /// Records that the extents may be wrong, for example because an iod failed and may have
    /// executed the request nevertheless. The next operation queries the iods again.
    pub(crate) fn doubt(&self) {
        self.state(|state| state.in_doubt = true);
    }

    /// Returns true if the store must query the iods again before it uses the extents.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.state(|state| state.in_doubt)
    }

    /// Returns the copies that are out of date.
    pub(crate) fn behind(&self) -> Behind {
        self.state(|state| state.behind)
    }

    /// Records the out-of-date copies that the metafile lists now.
    pub(crate) fn set_behind(&self, behind: Behind) {
        self.state(|state| state.behind = behind);
    }

    /// Returns the migration of the data, if one is in progress.
    pub(crate) fn moving(&self) -> Option<Arc<Move>> {
        self.state(|state| state.moving.clone())
    }

    /// Records that a migration of the data has started, or (`None`) that the migration has ended.
    pub(crate) fn set_moving(&self, moving: Option<Arc<Move>>) {
        self.state(|state| state.moving = moving);
    }

    /// Returns true if a client may write the objects.
    pub(crate) fn is_given_out(&self) -> bool {
        self.state(|state| state.given_out.is_some())
    }

    /// Records that a client may write the objects from now on. The metafile reflects the current
    /// state of the objects.
    pub(crate) fn give_out(&self) {
        self.state(|state| state.given_out = Some(state.shown()));
    }

    /// Records that a client may have written the objects since the metafile last reflected them.
    /// `shown` is the state of the objects at that time; `None` if the state is unknown.
    pub(crate) fn found_given_out(&self, shown: Option<Shown>) {
        self.state(|state| state.given_out = Some(shown.unwrap_or_default()));
    }

    /// If a client may write the objects, returns the sizes and times of the objects when the
    /// metafile last reflected them.
    pub(crate) fn last_shown(&self) -> Option<Shown> {
        self.state(|state| state.given_out.clone())
    }

    /// Records that the layout has ended: no client may write the objects any more.
    pub(crate) fn taken_back(&self) {
        self.state(|state| state.given_out = None);
    }

    /// Returns the current size and time of each object.
    pub(crate) fn now(&self) -> Shown {
        self.state(|state| state.shown())
    }

    /// Returns the current state of the objects if clients have changed them since the metafile
    /// last reflected them.
    pub(crate) fn unshown(&self) -> Option<Shown> {
        self.state(|state| {
            let now = state.shown();
            (state.given_out.as_ref()? != &now).then_some(now)
        })
    }

    /// Records the state of the objects that the metafile reflects now.
    pub(crate) fn shown(&self, shown: Shown) {
        self.state(|state| state.given_out = Some(shown));
    }

    /// Records the change time of the metafile after a change that no client requested.
    pub(crate) fn showed(&self, changed: FileTime) {
        self.state(|state| state.shown_at = changed);
    }

    /// Returns true if the store has changed the metafile without a client's request after the
    /// change time `changed`.
    pub(crate) fn has_shown_since(&self, changed: FileTime) -> bool {
        self.state(|state| changed < state.shown_at)
    }

    /// Returns the greatest owner number of the file's objects.
    pub(crate) fn greatest_owner(&self) -> u32 {
        self.state(|state| {
            state.extents.iter().map(|extent| extent.owner).max().unwrap_or_default()
        })
    }

    /// Returns the owner number of an object.
    pub(crate) fn owner_of(&self, object: u16) -> u32 {
        self.state(|state| state.extents[usize::from(object)].owner)
    }

    /// Records the owner number of an object.
    pub(crate) fn owned_by(&self, object: u16, owner: u32) {
        self.state(|state| state.extents[usize::from(object)].owner = owner);
    }

    /// Returns true if the metafile has never recorded a change of data.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.state(|state| state.change == 0)
    }

    /// Returns the number for the next change of data.
    pub(crate) fn next_change(&self) -> u64 {
        self.state(|state| {
            state.change = state.change.wrapping_add(1);
            state.change
        })
    }
}

/// The files that the store has in memory.
#[derive(Debug, Default)]
pub(crate) struct FileTable(Mutex<BTreeMap<ObjectId, Arc<File>>>);

impl FileTable {
    /// Returns the entry of a file, by the object key of the file; creates the entry if it is
    /// missing.
    pub(crate) fn get(&self, identity: ObjectId) -> Arc<File> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() >= FILES_MAX && !files.contains_key(&identity) {
            // Drop only entries that no task uses: all tasks that work on one file must share one
            // `File`, because it is their lock.
            files.retain(|_, file| Arc::strong_count(file) > 1);
        }
        Arc::clone(files.entry(identity).or_default())
    }

    /// Returns the entries of all files in memory.
    pub(crate) fn all(&self) -> Vec<Arc<File>> {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.values().map(Arc::clone).collect()
    }

    /// Drops the entry of a file that no longer exists.
    pub(crate) fn forget(&self, identity: &ObjectId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(identity);
    }
}
