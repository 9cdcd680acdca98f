//! What is known of a file: where its data lies and how large it is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_base::units::FileTime;
use leasehold_fs::ObjectId;
use tokio::sync::RwLock;

use crate::iod::Extent;
use crate::metafile::{Behind, Head};
use crate::moving::Move;

/// How many files are kept in mind; of others the iods are asked again.
const FILES_MAX: usize = 65_536;

/// Where the data of a file lies. Reading and writing share the lock; what moves data or cuts it
/// off has it alone.
pub(crate) type File = RwLock<Data>;

/// Where the data of a file lies.
#[derive(Debug, Default)]
pub(crate) enum Data {
    /// Not known yet.
    #[default]
    Unknown,
    /// Nowhere: nothing was written.
    Nowhere,
    /// In the metafile, behind the head.
    Inline(Head),
    /// On iods.
    OnIods(Objects),
    /// The file is gone.
    Gone,
}

impl Data {
    /// Whether it can be gone by.
    pub(crate) fn is_known(&self) -> bool {
        match self {
            Self::Nowhere | Self::Inline(_) => true,
            Self::OnIods(objects) => !objects.is_in_doubt(),
            Self::Unknown | Self::Gone => false,
        }
    }
}

/// Data on iods.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) head: Head,
    /// Held by who notes that a copy is behind, which leaves the times of the metafile; shared by
    /// who changes these meanwhile.
    pub(crate) times: RwLock<()>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    extents: Vec<Extent>,
    /// The number of the last change.
    change: u64,
    /// Whether an iod failed, so that the extents may be others.
    in_doubt: bool,
    /// As it stands in the metafile.
    behind: Behind,
    /// Where the data is being moved.
    moving: Option<Arc<Move>>,
    /// When the metafile was changed last, of the changes that the extents are as new as.
    seen: FileTime,
    /// The number of the last time that nobody else was at the file.
    alone: u64,
    /// Where a client may write the objects: how they were when the metafile last showed it.
    given_out: Option<Shown>,
    /// The change time of the metafile when it was last changed by no call that asked for a change.
    shown_at: FileTime,
}

/// Size and time of each object.
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

    /// Data that is yet to be written.
    pub(crate) fn empty(head: Head) -> Self {
        let none = vec![Extent::default(); head.iods.len()];
        Self::new(head, none, 0, Behind::default())
    }

    /// Takes note of a change of the metafile that the extents are as new as.
    pub(crate) fn saw(&self, changed: FileTime) {
        self.state(|state| state.seen = changed);
    }

    /// Whether the metafile was changed by somebody else since.
    pub(crate) fn is_older_than(&self, changed: FileTime) -> bool {
        self.state(|state| state.seen != changed)
    }

    /// Whether nobody else was at the file since it was looked at, now that nobody is.
    pub(crate) fn was_alone(&self, number: u64) -> bool {
        self.state(|state| state.alone == number)
    }

    /// The file was looked at when nobody else was at it.
    pub(crate) fn alone_by(&self, number: u64) {
        self.state(|state| state.alone = number);
    }

    fn state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The size of the file: where the last of its objects ends.
    pub(crate) fn size(&self) -> u64 {
        self.state(|state| self.size_of(state))
    }

    fn size_of(&self, state: &State) -> u64 {
        let sizes = (0..).zip(&state.extents);
        let ends = sizes.map(|(object, extent)| self.head.layout.file_size(object, extent.size));
        ends.max().unwrap_or(0)
    }

    /// Size and bytes on the disks.
    pub(crate) fn extent(&self) -> Extent {
        self.state(|state| {
            let used: u64 = state.extents.iter().map(|extent| extent.used).sum();
            let (size, used) = (self.size_of(state), used * u64::from(self.head.copies));
            Extent { size, used, ..Extent::default() }
        })
    }

    /// The extent of each object.
    pub(crate) fn extents(&self) -> Vec<Extent> {
        self.state(|state| state.extents.clone())
    }

    /// The known size of one object.
    pub(crate) fn size_of_object(&self, object: u16) -> u64 {
        self.state(|state| state.extents[usize::from(object)].size)
    }

    /// Takes note of an object after it was written to: of several answers the largest is the last.
    pub(crate) fn grown(&self, object: u16, extent: Extent) {
        self.state(|state| {
            let known = &mut state.extents[usize::from(object)];
            known.size = known.size.max(extent.size);
            known.used = known.used.max(extent.used);
            known.modified = known.modified.max(extent.modified);
        });
    }

    /// Takes note of an object, with nobody else at the file.
    pub(crate) fn resized(&self, object: u16, extent: Extent) {
        self.state(|state| state.extents[usize::from(object)] = extent);
    }

    /// Takes note that an iod failed, and may have done what it was asked all the same.
    pub(crate) fn doubt(&self) {
        self.state(|state| state.in_doubt = true);
    }

    /// Whether the iods must be asked again.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.state(|state| state.in_doubt)
    }

    /// The copies that lack something.
    pub(crate) fn behind(&self) -> Behind {
        self.state(|state| state.behind)
    }

    /// Takes note of what stands in the metafile now.
    pub(crate) fn set_behind(&self, behind: Behind) {
        self.state(|state| state.behind = behind);
    }

    /// Where the data is being moved.
    pub(crate) fn moving(&self) -> Option<Arc<Move>> {
        self.state(|state| state.moving.clone())
    }

    /// Takes note that the data is being moved, or is not any more.
    pub(crate) fn set_moving(&self, moving: Option<Arc<Move>>) {
        self.state(|state| state.moving = moving);
    }

    /// Whether a client may write the objects.
    pub(crate) fn is_given_out(&self) -> bool {
        self.state(|state| state.given_out.is_some())
    }

    /// A client may write the objects from now on; the metafile shows what they are.
    pub(crate) fn give_out(&self) {
        self.state(|state| state.given_out = Some(state.shown()));
    }

    /// A client may have written the objects since the metafile showed that they were so; nobody
    /// knows how they were where that is none.
    pub(crate) fn found_given_out(&self, shown: Option<Shown>) {
        self.state(|state| state.given_out = Some(shown.unwrap_or_default()));
    }

    /// How the objects were when the metafile last showed it, where a client may write them.
    pub(crate) fn last_shown(&self) -> Option<Shown> {
        self.state(|state| state.given_out.clone())
    }

    /// No client may write the objects any more.
    pub(crate) fn taken_back(&self) {
        self.state(|state| state.given_out = None);
    }

    /// How the objects are.
    pub(crate) fn now(&self) -> Shown {
        self.state(|state| state.shown())
    }

    /// How the objects are, if clients have changed them since the metafile showed it.
    pub(crate) fn unshown(&self) -> Option<Shown> {
        self.state(|state| {
            let now = state.shown();
            (state.given_out.as_ref()? != &now).then_some(now)
        })
    }

    /// The metafile shows how the objects are.
    pub(crate) fn shown(&self, shown: Shown) {
        self.state(|state| state.given_out = Some(shown));
    }

    /// The metafile was changed then by no call that asked for a change.
    pub(crate) fn showed(&self, changed: FileTime) {
        self.state(|state| state.shown_at = changed);
    }

    /// Whether the metafile was changed so since it had this change time.
    pub(crate) fn has_shown_since(&self, changed: FileTime) -> bool {
        self.state(|state| changed < state.shown_at)
    }

    /// The greatest number of a user that an object belongs to.
    pub(crate) fn greatest_owner(&self) -> u32 {
        self.state(|state| {
            state.extents.iter().map(|extent| extent.owner).max().unwrap_or_default()
        })
    }

    /// The user that an object belongs to.
    pub(crate) fn owner_of(&self, object: u16) -> u32 {
        self.state(|state| state.extents[usize::from(object)].owner)
    }

    /// Takes note of whom an object belongs to.
    pub(crate) fn owned_by(&self, object: u16, owner: u32) {
        self.state(|state| state.extents[usize::from(object)].owner = owner);
    }

    /// Whether no change of data was ever noted.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.state(|state| state.change == 0)
    }

    /// The number of a change.
    pub(crate) fn next_change(&self) -> u64 {
        self.state(|state| {
            state.change = state.change.wrapping_add(1);
            state.change
        })
    }
}

/// The files that are in mind.
#[derive(Debug, Default)]
pub(crate) struct FileTable(Mutex<BTreeMap<ObjectId, Arc<File>>>);

impl FileTable {
    /// A file, by the part of its id that is equal for all its ids.
    pub(crate) fn get(&self, identity: ObjectId) -> Arc<File> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() >= FILES_MAX && !files.contains_key(&identity) {
            // Who is at work on a file has it in hand, and all must have the same.
            files.retain(|_, file| Arc::strong_count(file) > 1);
        }
        Arc::clone(files.entry(identity).or_default())
    }

    /// All files that the metaserver has in memory.
    pub(crate) fn all(&self) -> Vec<Arc<File>> {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.values().map(Arc::clone).collect()
    }

    /// Forgets a file that is gone.
    pub(crate) fn forget(&self, identity: &ObjectId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(identity);
    }
}
