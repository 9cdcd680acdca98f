//! A simulated file system for tests that loses unsynced changes in a crash. After a crash it has
//! any subset of the changes since its last sync that a real file system might have.
//!
//! A change of an object's attributes or of a name survives only together with the earlier changes
//! of the same object or name, and with the creation of its directory. Changes of file data survive
//! independently of each other. Apart from these rules, a random number decides. A removed object
//! gets a name in a hidden directory, so that a crash can undo the removal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use leasehold_base::random::Random;
use leasehold_base::units::{Cookie, FileTime};
use leasehold_fs::suite::block_on;
use leasehold_fs::{
    Access, Attributes, Budget, Caller, Capabilities, Changed, Committed, FileType, Found, FsError,
    Linked, MaybeReady, Mode, Name, NewFile, NewNode, ObjectId, Page, Place, ReadDone, Renamed,
    SetAttributes, SetTime, Space, Stability, Step, Store, Target, Wanted, Wcc, WriteDone,
    forward_store,
};
use leasehold_store_mem::MemStore;

type Spot = (ObjectId, Vec<u8>);

/// A store that loses unsynced changes in a crash.
pub(super) struct Forgetful {
    mem: MemStore,
    root: ObjectId,
    grave: ObjectId,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    names: BTreeMap<Spot, ObjectId>,
    /// The changes since the last sync.
    done: Vec<Done>,
    /// The attributes and bytes of each object at the last sync.
    base: BTreeMap<ObjectId, (Attributes, Vec<u8>)>,
    buried: u64,
    /// The number of changes that the disk still accepts before it fails; `None` if it does not
    /// fail.
    left: Option<u32>,
}

/// A change since the last sync.
struct Done {
    change: Change,
    object: ObjectId,
    after: Option<Attributes>,
    /// True if a COMMIT has made the change stable.
    is_pinned: bool,
}

enum Change {
    Made(Spot),
    Removed(Spot, u64),
    Renamed { from: Spot, to: Spot, over: Option<(ObjectId, u64)>, is_directory: bool },
    Linked(Spot),
    Set(Option<u64>),
    Written(u64, Vec<u8>),
}

/// A key. Changes with a common key survive in their order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Name(Spot),
    Object(ObjectId),
    Exists(ObjectId),
    Tree,
}

fn superuser() -> Caller {
    Caller { uid: 0, gid: 0, ..Caller::nobody() }
}

fn name(bytes: &[u8]) -> Name<'_> {
    let step = Step::parse(bytes).expect("it is a name");
    step.child(FsError::Invalid).expect("it is no dot")
}

fn place(spot: &Spot) -> Place<'_> {
    Place { directory: spot.0, name: name(&spot.1) }
}

fn spot(place: &Place<'_>) -> Spot {
    (place.directory, place.name.as_bytes().to_vec())
}

impl Done {
    /// Returns the keys of a change.
    fn keys(&self) -> Vec<Key> {
        let object = Key::Object(self.object);
        match &self.change {
            Change::Made(spot) => {
                vec![object, Key::Exists(self.object), Key::Name(spot.clone())]
            }
            Change::Removed(spot, _) | Change::Linked(spot) => {
                vec![object, Key::Name(spot.clone())]
            }
            Change::Renamed { from, to, over, is_directory } => {
                let mut keys = vec![object, Key::Name(from.clone()), Key::Name(to.clone())];
                keys.extend(over.map(|(over, _)| Key::Object(over)));
                keys.extend(is_directory.then_some(Key::Tree));
                keys
            }
            Change::Set(_) => vec![object],
            // Changes of data have no order between them.
            Change::Written(..) => Vec::new(),
        }
    }

    /// Returns further keys: earlier changes with these keys must survive if this change survives.
    fn needs(&self) -> Vec<Key> {
        let mut needs = vec![Key::Exists(self.object)];
        match &self.change {
            Change::Made(spot) | Change::Removed(spot, _) | Change::Linked(spot) => {
                needs.push(Key::Exists(spot.0));
            }
            Change::Renamed { from, to, .. } => {
                needs.extend([Key::Exists(from.0), Key::Exists(to.0)]);
            }
            Change::Set(_) | Change::Written(..) => {}
        }
        needs
    }

    /// Returns the directory that this change removes or replaces, and that must be empty
    /// therefore.
    fn empties(&self) -> Option<ObjectId> {
        match &self.change {
            Change::Removed(..) => Some(self.object),
            Change::Renamed { over, .. } => over.map(|(over, _)| over),
            Change::Made(_) | Change::Linked(_) | Change::Set(_) | Change::Written(..) => None,
        }
    }

    fn is_kept_with(&self, forgotten: &BTreeSet<Key>) -> bool {
        let inside = |key: &Key| match key {
            Key::Name((directory, _)) => Some(*directory) == self.empties(),
            Key::Object(_) | Key::Exists(_) | Key::Tree => false,
        };
        !self.keys().iter().chain(&self.needs()).any(|key| forgotten.contains(key))
            && !forgotten.iter().any(inside)
    }
}

impl Forgetful {
    pub(super) fn new() -> Self {
        Self::within("root")
    }

    /// Creates a store. The inode number of its root depends on the length of the name.
    pub(super) fn within(root: &str) -> Self {
        let mem = MemStore::default();
        mem.set_now(FileTime { seconds: 1_700_000_000, nanoseconds: 0 });
        let made = |text: &[u8]| {
            let place = Place { directory: mem.root(), name: name(text) };
            let all = SetAttributes { mode: Some(Mode::from_bits(0o777)), ..Default::default() };
            let made = block_on(mem.make(&superuser(), place, &NewNode::Directory, &all));
            made.result.expect("there is room").object
        };
        for number in 0..root.len() {
            made(number.to_string().as_bytes());
        }
        let (root, grave) = (made(root.as_bytes()), made(b"grave"));
        let store = Self { root, grave, mem, state: Mutex::default() };
        store.sync().expect("it does not fail yet");
        store
    }

    /// Makes all changes stable.
    pub(super) fn sync(&self) -> Result<(), FsError> {
        let mut state = self.state();
        if state.left == Some(0) {
            return Err(FsError::Io);
        }
        state.done.clear();
        let objects: BTreeSet<_> = state.names.values().copied().chain([self.root]).collect();
        state.base =
            objects.into_iter().map(|id| (id, (self.seen(&id), self.bytes(&id)))).collect();
        Ok(())
    }

    /// Makes the disk fail after this number of changes; `None` makes it work again.
    pub(super) fn fail_after(&self, changes: Option<u32>) {
        self.state().left = changes;
    }

    /// Cuts the power, and keeps a random subset of the changes.
    pub(super) fn crash(&self, random: &mut Random, keep_in_hundred: u64) {
        let mut state = self.state();
        let done = core::mem::take(&mut state.done);
        let pinned = pinned(&done);
        let mut forgotten = BTreeSet::new();
        let kept: Vec<bool> = done
            .iter()
            .zip(pinned)
            .map(|(one, is_pinned)| {
                let is_kept = is_pinned
                    || random.below(100) < keep_in_hundred && one.is_kept_with(&forgotten);
                if !is_kept {
                    forgotten.extend(one.keys());
                }
                is_kept
            })
            .collect();
        for (one, is_kept) in done.iter().zip(&kept).rev() {
            if !is_kept {
                self.undo(&mut state, one);
            }
        }
        let kept = done.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(one, _)| one);
        self.restore(&mut state, &kept.collect::<Vec<_>>());
    }

    /// Undoes a change of names.
    fn undo(&self, state: &mut State, done: &Done) {
        match &done.change {
            Change::Made(spot) => {
                self.bury(state, spot);
            }
            Change::Removed(spot, number) => self.dig_up(state, *number, spot, done.object),
            Change::Renamed { from, to, over, .. } => {
                self.rename_below(to, from);
                state.names.remove(to);
                state.names.insert(from.clone(), done.object);
                if let Some((over, number)) = over {
                    self.dig_up(state, *number, to, *over);
                }
            }
            Change::Linked(spot) => {
                block_on(self.mem.remove(&superuser(), place(spot))).result.expect("it is there");
                state.names.remove(spot);
            }
            Change::Set(_) | Change::Written(..) => {}
        }
    }

    /// Restores the attributes and bytes of objects that survived the crash.
    fn restore(&self, state: &mut State, kept: &[&Done]) {
        let objects: BTreeSet<_> = state.names.values().copied().chain([self.root]).collect();
        for id in objects {
            let base = state.base.get(&id).cloned();
            let (mut attributes, mut bytes) =
                base.map_or((None, Vec::new()), |(seen, bytes)| (Some(seen), bytes));
            for done in kept.iter().filter(|done| done.object == id) {
                attributes = done.after.or(attributes);
                match &done.change {
                    Change::Set(Some(size)) => bytes.resize(usize::try_from(*size).unwrap_or(0), 0),
                    Change::Written(offset, data) => put(&mut bytes, *offset, data),
                    Change::Made(_) => {
                        let size = done.after.map_or(0, |after| after.size);
                        bytes.resize(usize::try_from(size).unwrap_or(0), 0);
                    }
                    Change::Removed(..)
                    | Change::Renamed { .. }
                    | Change::Linked(_)
                    | Change::Set(None) => {}
                }
            }
            let attributes = attributes.expect("it was made or there");
            if attributes.file_type == FileType::Regular {
                let cut = SetAttributes { size: Some(0), ..SetAttributes::default() };
                block_on(self.mem.setattr(&superuser(), &id, &cut, None)).result.expect("there");
                let (data, stable) = (Bytes::from(bytes), Stability::FileSync);
                block_on(self.mem.write(&superuser(), &id, 0, data, stable)).result.expect("room");
            }
            let changes = SetAttributes {
                mode: Some(attributes.mode),
                uid: Some(attributes.uid),
                gid: Some(attributes.gid),
                size: None,
                accessed: SetTime::To(attributes.accessed),
                modified: SetTime::To(attributes.modified),
            };
            let set = block_on(self.mem.setattr(&superuser(), &id, &changes, None));
            set.result.expect("it is there");
            state.base.insert(id, (self.seen(&id), self.bytes(&id)));
        }
        // An object without a name does not exist after the crash.
        let names: BTreeSet<_> = state.names.values().copied().collect();
        state.base.retain(|id, _| names.contains(id) || *id == self.root);
    }

    /// Renames the object of a name into the hidden directory.
    fn bury(&self, state: &mut State, spot: &Spot) -> u64 {
        state.buried += 1;
        self.rename_below(spot, &(self.grave, state.buried.to_string().into_bytes()));
        state.names.remove(spot);
        state.buried
    }

    fn dig_up(&self, state: &mut State, number: u64, spot: &Spot, object: ObjectId) {
        self.rename_below(&(self.grave, number.to_string().into_bytes()), spot);
        state.names.insert(spot.clone(), object);
    }

    fn rename_below(&self, from: &Spot, to: &Spot) {
        let renamed = block_on(self.mem.rename(&superuser(), place(from), place(to)));
        renamed.result.expect("nothing is in the way");
    }

    fn seen(&self, id: &ObjectId) -> Attributes {
        block_on(self.mem.getattr(id)).expect("it is there")
    }

    fn bytes(&self, id: &ObjectId) -> Vec<u8> {
        let read = block_on(self.mem.read(&superuser(), id, 0, 1 << 20));
        read.map_or(Vec::new(), |done| done.data.to_vec())
    }

    /// Checks an operation: fails if one of the objects does not exist, or if the disk has failed
    /// and the operation is a change.
    fn admit(&self, objects: &[&ObjectId], is_change: bool) -> Result<(), FsError> {
        let mut state = self.state();
        for id in objects {
            if **id != self.root && !state.names.values().any(|present| present == *id) {
                return Err(FsError::Stale);
            }
        }
        match &mut state.left {
            Some(0) if is_change => Err(FsError::Io),
            Some(left) if is_change => {
                *left -= 1;
                Ok(())
            }
            Some(_) | None => Ok(()),
        }
    }

    fn note(&self, change: Change, object: ObjectId, after: Option<Attributes>) {
        self.state().done.push(Done { change, object, after, is_pinned: false });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unlinked(&self, at: Place<'_>, is_directory: bool) -> Changed<()> {
        let result = self.unlink(at, is_directory);
        let after = block_on(self.mem.getattr(&at.directory)).ok();
        Changed { result, wcc: Wcc { before: None, after } }
    }

    fn unlink(&self, at: Place<'_>, is_directory: bool) -> Result<(), FsError> {
        self.admit(&[&at.directory], true)?;
        let found = block_on(self.mem.lookup(&superuser(), &at.directory, at.name))?;
        if (found.attributes.file_type == FileType::Directory) != is_directory {
            return Err(if is_directory { FsError::NotDirectory } else { FsError::IsDirectory });
        }
        let mut state = self.state();
        if state.names.keys().any(|(directory, _)| *directory == found.object) {
            return Err(FsError::NotEmpty);
        }
        let number = self.bury(&mut state, &spot(&at));
        drop(state);
        self.note(Change::Removed(spot(&at), number), found.object, None);
        Ok(())
    }

    /// Records a creation, or the truncation of an existing file.
    fn made(&self, at: Place<'_>, made: &Changed<Found>, size: Option<u64>) {
        let Ok(found) = &made.result else { return };
        let is_new = self.state().names.insert(spot(&at), found.object) != Some(found.object);
        if is_new {
            self.note(Change::Made(spot(&at)), found.object, Some(found.attributes));
        }
        if !is_new && size.is_some() {
            self.note(Change::Set(size), found.object, Some(found.attributes));
        }
    }
}

/// Returns for each change if a COMMIT has made it stable, directly or as a dependency of a later
/// change.
fn pinned(done: &[Done]) -> Vec<bool> {
    let mut keys = BTreeSet::new();
    let mut pinned = vec![false; done.len()];
    for (index, one) in done.iter().enumerate().rev() {
        let own: BTreeSet<_> = one.keys().into_iter().collect();
        if one.is_pinned || !own.is_disjoint(&keys) {
            pinned[index] = true;
            keys.extend(own);
            keys.extend(one.needs());
        }
    }
    pinned
}

fn put(bytes: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let start = usize::try_from(offset).expect("files are small");
    if bytes.len() < start + data.len() {
        bytes.resize(start + data.len(), 0);
    }
    bytes[start..start + data.len()].copy_from_slice(data);
}

fn answer<T>(done: T) -> MaybeReady<'static, T> {
    MaybeReady::now(done)
}

impl Store for Forgetful {
    forward_store!(mem: identity path properties);

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::NONE
    }

    fn root(&self) -> ObjectId {
        self.root
    }

    fn getattr<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<Attributes, FsError>> {
        if let Err(error) = self.admit(&[object], false) {
            return answer(Err(error));
        }
        let mut seen = self.seen(object);
        if seen.file_type != FileType::Directory {
            // Correct the link count: the store below also counts names in the hidden directory.
            let state = self.state();
            let names = state.names.values().filter(|present| *present == object);
            seen.link_count = u32::try_from(names.count()).expect("there are few");
        }
        answer(Ok(seen))
    }

    fn setattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        changes: &'a SetAttributes,
        guard: Option<FileTime>,
    ) -> MaybeReady<'a, Changed<()>> {
        if let Err(error) = self.admit(&[object], true) {
            return answer(Changed::failed(error));
        }
        let changed = block_on(self.mem.setattr(caller, object, changes, guard));
        if changed.result.is_ok() {
            self.note(Change::Set(changes.size), *object, Some(self.seen(object)));
        }
        answer(changed)
    }

    fn lookup<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        name: Name<'a>,
    ) -> MaybeReady<'a, Result<Found, FsError>> {
        match self.admit(&[directory], false) {
            Ok(()) => self.mem.lookup(caller, directory, name),
            Err(error) => answer(Err(error)),
        }
    }

    fn parent<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Found, FsError>> {
        self.mem.parent(caller, directory)
    }

    fn access<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        wanted: Access,
    ) -> MaybeReady<'a, Result<(Access, Attributes), FsError>> {
        self.mem.access(caller, object, wanted)
    }

    fn readlink<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Target, Attributes), FsError>> {
        self.mem.readlink(caller, object)
    }

    fn read<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        count: u32,
    ) -> MaybeReady<'a, Result<ReadDone, FsError>> {
        match self.admit(&[object], false) {
            Ok(()) => self.mem.read(caller, object, offset, count),
            Err(error) => answer(Err(error)),
        }
    }

    fn write<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> MaybeReady<'a, Changed<WriteDone>> {
        if let Err(error) = self.admit(&[object], true) {
            return answer(Changed::failed(error));
        }
        let changed = block_on(self.mem.write(caller, object, offset, data.clone(), stability));
        if changed.result.is_ok() {
            let change = Change::Written(offset, data.to_vec());
            self.note(change, *object, Some(self.seen(object)));
        }
        answer(changed)
    }

    fn create<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        file: &'a NewFile,
    ) -> MaybeReady<'a, Changed<Found>> {
        if let Err(error) = self.admit(&[&place.directory], true) {
            return answer(Changed::failed(error));
        }
        let made = block_on(self.mem.create(caller, place, file));
        let size = match file {
            NewFile::Unchecked(attributes) => attributes.size,
            NewFile::Guarded(_) | NewFile::Exclusive { .. } => None,
        };
        self.made(place, &made, size);
        answer(made)
    }

    fn make<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        node: &'a NewNode<'a>,
        attributes: &'a SetAttributes,
    ) -> MaybeReady<'a, Changed<Found>> {
        if let Err(error) = self.admit(&[&place.directory], true) {
            return answer(Changed::failed(error));
        }
        let made = block_on(self.mem.make(caller, place, node, attributes));
        self.made(place, &made, None);
        answer(made)
    }

    fn remove<'a>(&'a self, _caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        answer(self.unlinked(place, false))
    }

    fn rmdir<'a>(&'a self, _caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        answer(self.unlinked(place, true))
    }

    fn rename<'a>(
        &'a self,
        caller: &'a Caller,
        from: Place<'a>,
        to: Place<'a>,
    ) -> MaybeReady<'a, Renamed> {
        let failed =
            |error| Renamed { result: Err(error), from: Wcc::default(), to: Wcc::default() };
        if let Err(error) = self.admit(&[&from.directory, &to.directory], true) {
            return answer(failed(error));
        }
        let look = |at: Place<'_>| block_on(self.mem.lookup(caller, &at.directory, at.name)).ok();
        let (Some(moved), over) = (look(from), look(to)) else {
            return answer(failed(FsError::NotFound));
        };
        let is_directory = moved.attributes.file_type == FileType::Directory;
        let mut buried = None;
        if let Some(over) = over {
            if over.object == moved.object {
                return answer(Renamed { result: Ok(()), ..failed(FsError::Io) });
            }
            let is_used = self.state().names.keys().any(|spot| spot.0 == over.object);
            if is_used || (over.attributes.file_type == FileType::Directory) != is_directory {
                return answer(failed(FsError::NotEmpty));
            }
            let number = self.bury(&mut self.state(), &spot(&to));
            buried = Some((over.object, number));
        }
        let renamed = block_on(self.mem.rename(caller, from, to));
        let mut state = self.state();
        if renamed.result.is_err() {
            if let Some((over, number)) = buried {
                self.dig_up(&mut state, number, &spot(&to), over);
            }
            return answer(renamed);
        }
        state.names.remove(&spot(&from));
        state.names.insert(spot(&to), moved.object);
        drop(state);
        let (from, to, over) = (spot(&from), spot(&to), buried);
        self.note(Change::Renamed { from, to, over, is_directory }, moved.object, None);
        answer(renamed)
    }

    fn link<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        place: Place<'a>,
    ) -> MaybeReady<'a, Linked> {
        if let Err(error) = self.admit(&[object, &place.directory], true) {
            let (result, directory) = (Err(error), Wcc::default());
            return answer(Linked { result, attributes: None, directory });
        }
        let linked = block_on(self.mem.link(caller, object, place));
        if linked.result.is_ok() {
            self.state().names.insert(spot(&place), *object);
            self.note(Change::Linked(spot(&place)), *object, None);
        }
        answer(linked)
    }

    fn readdir<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        cookie: Cookie,
        budget: Budget,
        wanted: Wanted,
    ) -> MaybeReady<'a, Result<Page, FsError>> {
        match self.admit(&[directory], false) {
            Ok(()) => self.mem.readdir(caller, directory, cookie, budget, wanted),
            Err(error) => answer(Err(error)),
        }
    }

    fn space<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Space, Attributes), FsError>> {
        self.mem.space(caller, object)
    }

    fn commit<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        length: u32,
    ) -> MaybeReady<'a, Changed<Committed>> {
        if let Err(error) = self.admit(&[object], true) {
            return answer(Changed::failed(error));
        }
        let committed = block_on(self.mem.commit(caller, object, offset, length));
        for done in &mut self.state().done {
            done.is_pinned |= done.object == *object;
        }
        answer(committed)
    }
}
