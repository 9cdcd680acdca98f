//! Tests that all answered changes are present after a power cut and a replay, whichever of them
//! the disk had stored.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use leasehold_base::random::Random;
use leasehold_base::units::{Cookie, FileTime};
use leasehold_fs::suite::block_on;
use leasehold_fs::{
    Allowance, Attributes, Blocking, Budget, Caller, FileType, FsError, Inline, Mode, Name,
    NewFile, NewNode, ObjectId, Place, SetAttributes, SetTime, Stability, Step, Store, Wanted,
};

use super::device::Device;
use super::forgetful::Forgetful;
use crate::{Event, Logged, OpenError, Options, Replayed, SIZE_MIN, Standing};

/// A machine that can lose power.
pub(super) struct Machine {
    pub(super) disk: Arc<Forgetful>,
    pub(super) device: Device,
    pub(super) boot: u128,
    pub(super) volume: Option<[u8; 16]>,
    pub(super) blocking: Arc<dyn Blocking>,
    pub(super) standing: Standing,
    /// True if the state directory fails to store records.
    pub(super) notes_fail: Arc<AtomicBool>,
    /// The number of times that the state directory recorded that the log is out of date.
    pub(super) notes: Arc<AtomicUsize>,
    pub(super) events: Arc<Mutex<Vec<Event>>>,
}

impl Machine {
    pub(super) fn new() -> Self {
        Self {
            disk: Arc::new(Forgetful::new()),
            device: Device::new(usize::try_from(SIZE_MIN).expect("small")),
            boot: 1,
            volume: Some(*b"a volume's UUID."),
            blocking: Arc::new(Inline),
            standing: Standing::Unknown,
            notes_fail: Arc::default(),
            notes: Arc::default(),
            events: Arc::default(),
        }
    }

    pub(super) fn start(&self) -> Result<Logged, OpenError> {
        self.start_with(SIZE_MIN)
    }

    /// Starts the server; a new log gets this size in bytes.
    pub(super) fn start_with(&self, size: u64) -> Result<Logged, OpenError> {
        let (synced, events) = (Arc::clone(&self.disk), Arc::clone(&self.events));
        let (fails, notes) = (Arc::clone(&self.notes_fail), Arc::clone(&self.notes));
        Logged::open(Options {
            store: Arc::clone(&self.disk) as Arc<dyn Store>,
            media: Box::new(self.device.clone()),
            size,
            boot: self.boot,
            volume: self.volume,
            random: *b"sixteen letters.",
            blocking: Arc::clone(&self.blocking),
            sync_all: Box::new(move || synced.sync()),
            make_void: Box::new(move || {
                if fails.load(Ordering::Relaxed) {
                    return Err(ErrorKind::PermissionDenied.into());
                }
                notes.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }),
            standing: self.standing,
            commits_names: true,
            report: Box::new(move |event| events.lock().expect("no panic").push(event)),
        })
    }

    /// Cuts the power. The disk keeps a random subset of its unsynced changes.
    pub(super) fn cut(&mut self, random: &mut Random, keep_in_hundred: u64) {
        self.disk.crash(random, keep_in_hundred);
        self.device.cut(|| random.below(2) == 0);
        self.boot += 1;
    }

    /// Returns the results of the last replay since the previous call; `None` if there was none.
    pub(super) fn replayed(&self) -> Option<Replayed> {
        let events = core::mem::take(&mut *self.events.lock().expect("no panic"));
        events.into_iter().find_map(|event| match event {
            Event::Replayed(done) => Some(done),
            Event::LogFailed(_) | Event::NotVoid(_) | Event::DiskFailed => None,
        })
    }
}

/// The state of an object as a client sees it.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    id: ObjectId,
    attributes: Attributes,
    data: Vec<u8>,
}

type Tree = BTreeMap<String, Seen>;

pub(super) fn superuser() -> Caller {
    Caller { uid: 0, gid: 0, ..Caller::nobody() }
}

pub(super) fn name(text: &str) -> Name<'_> {
    let step = Step::parse(text.as_bytes()).expect("it is a name");
    step.child(FsError::Invalid).expect("it is no dot")
}

/// Returns the state of all objects that have a name, by path.
fn tree(store: &Logged) -> Tree {
    let (mut tree, mut left) = (Tree::new(), vec![(String::new(), store.root())]);
    while let Some((path, directory)) = left.pop() {
        for text in names(store, &directory) {
            let caller = superuser();
            let found = block_on(store.lookup(&caller, &directory, name(&text)));
            let found = found.expect("it is listed");
            let below = format!("{path}/{text}");
            let data = match found.attributes.file_type {
                FileType::Regular => {
                    let read = block_on(store.read(&caller, &found.object, 0, 1 << 20));
                    read.expect("it can be read").data.to_vec()
                }
                FileType::Symlink => {
                    block_on(store.readlink(&caller, &found.object)).expect("it is one").0
                }
                FileType::Directory => {
                    left.push((below.clone(), found.object));
                    Vec::new()
                }
                FileType::BlockDevice
                | FileType::CharacterDevice
                | FileType::Socket
                | FileType::Fifo => Vec::new(),
            };
            // The object must also be accessible by its handle alone.
            let attributes = block_on(store.getattr(&found.object)).expect("it is there");
            assert_eq!(attributes.file_id, found.attributes.file_id);
            tree.insert(below, Seen { id: found.object, attributes, data });
        }
    }
    tree
}

fn names(store: &Logged, directory: &ObjectId) -> Vec<String> {
    let budget = Budget { reply: Allowance::UNLIMITED, names: Allowance::UNLIMITED };
    let caller = superuser();
    let page = store.readdir(&caller, directory, Cookie(0), budget, Wanted::Everything);
    let page = block_on(page).expect("it can be listed");
    assert!(page.end);
    let names = page.entries.iter().filter(|entry| entry.name != b"." && entry.name != b"..");
    names.map(|entry| String::from_utf8(entry.name.to_vec()).expect("it is text")).collect()
}

/// The random changes of the clients, and the results that the clients may rely on.
struct Clients {
    random: Random,
    /// All objects that the clients have created.
    objects: Vec<ObjectId>,
    /// The ranges of each file that were written unstably and not committed since, so that their
    /// bytes are uncertain.
    uncertain: BTreeMap<ObjectId, Vec<Range<usize>>>,
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

impl Clients {
    fn new(seed: u64, root: ObjectId) -> Self {
        let random = Random::from_seed(seed);
        Self { random, objects: vec![root], uncertain: BTreeMap::new() }
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.below(bound as u64)).expect("it is small")
    }

    fn object(&mut self) -> ObjectId {
        // Prefer the most recent objects.
        let count = self.objects.len();
        let back = if self.random.one_in(3) { self.below(count) } else { self.below(count.min(6)) };
        self.objects[count - 1 - back]
    }

    fn place(&mut self) -> Place<'static> {
        let directory = if self.random.one_in(3) { self.objects[0] } else { self.object() };
        Place { directory, name: name(NAMES[self.below(NAMES.len())]) }
    }

    fn mode(&mut self) -> SetAttributes {
        let mode = Mode::from_bits([0o600, 0o644, 0o755, 0o4711][self.below(4)]);
        SetAttributes { mode: Some(mode), ..SetAttributes::default() }
    }

    fn step(&mut self, store: &Logged) {
        let caller = &superuser();
        match self.below(19) {
            0..4 => {
                let (place, mut attributes) = (self.place(), self.mode());
                attributes.size = self.random.one_in(4).then(|| self.random.below(2000));
                let file = match self.random.one_in(2) {
                    true => NewFile::Unchecked(attributes),
                    false => NewFile::Guarded(attributes),
                };
                let made = block_on(store.create(caller, place, &file)).result;
                self.objects.extend(made.ok().map(|found| found.object));
            }
            4..7 => {
                let (place, attributes) = (self.place(), self.mode());
                let node = [NewNode::Directory, NewNode::Directory, NewNode::Fifo];
                let node = [node[0], node[1], node[2], NewNode::Symlink(b"some/where")];
                let node = node[self.below(4)];
                let made = block_on(store.make(caller, place, &node, &attributes)).result;
                self.objects.extend(made.ok().map(|found| found.object));
            }
            7 => drop(block_on(store.remove(caller, self.place()))),
            8 => drop(block_on(store.rmdir(caller, self.place()))),
            9..12 => {
                let (from, to) = (self.place(), self.place());
                let _ = block_on(store.rename(caller, from, to));
            }
            12 => {
                let (object, place) = (self.object(), self.place());
                let _ = block_on(store.link(caller, &object, place));
            }
            13..16 => self.write(store),
            16 => {
                let object = self.object();
                if block_on(store.commit(caller, &object, 0, 10)).result.is_ok() {
                    // A COMMIT of a range makes only the bytes in this range certain.
                    let ranges = self.uncertain.get_mut(&object);
                    ranges.into_iter().for_each(|ranges| ranges.retain(|range| range.end > 10));
                }
                if block_on(store.commit(caller, &object, 0, 0)).result.is_ok() {
                    self.uncertain.remove(&object);
                }
            }
            17 => self.set(store),
            _ => {
                if self.random.one_in(4) {
                    store.checkpoint();
                }
            }
        }
    }

    fn write(&mut self, store: &Logged) {
        let object = self.object();
        let length = if self.random.one_in(8) { 9000 } else { 1 + self.below(600) };
        let offset = self.below(3000);
        let byte = u8::try_from(self.below(255)).expect("it is small") + 1;
        let stability = [Stability::Unstable, Stability::DataSync, Stability::FileSync];
        let stability = stability[self.below(3)];
        let (data, at) = (Bytes::from(vec![byte; length]), offset as u64);
        let done = block_on(store.write(&superuser(), &object, at, data, stability));
        if done.result.is_ok() && stability == Stability::Unstable {
            self.uncertain.entry(object).or_default().push(offset..offset + length);
        }
    }

    fn set(&mut self, store: &Logged) {
        let object = self.object();
        let time = FileTime { seconds: 1_000_000_000, nanoseconds: 5 };
        let changes = match self.below(4) {
            0 => self.mode(),
            1 => SetAttributes { uid: Some(1000), gid: Some(1000), ..Default::default() },
            2 => SetAttributes { modified: SetTime::To(time), ..Default::default() },
            _ => SetAttributes { size: Some(self.random.below(4000)), ..Default::default() },
        };
        let _ = block_on(store.setattr(&superuser(), &object, &changes, None));
    }

    /// Returns an error if the state after a crash lacks an answered change. `before` is the state
    /// before the crash, and `after` is the state after the replay.
    fn judge(&self, before: &Tree, after: &Tree, store: &Logged) -> Result<(), String> {
        let paths = |tree: &Tree| tree.keys().cloned().collect::<Vec<_>>();
        if paths(before) != paths(after) {
            return Err(format!("names: {:?} became {:?}", paths(before), paths(after)));
        }
        for (path, old) in before {
            let new = &after[path];
            let ranges = self.uncertain.get(&old.id).map_or(&[][..], Vec::as_slice);
            let kept = |seen: &Seen| {
                let Attributes { file_type, mode, uid, gid, file_id, link_count, .. } =
                    seen.attributes;
                let is_directory = file_type == FileType::Directory;
                let modified = ranges.is_empty().then_some(seen.attributes.modified);
                let links = (!is_directory).then_some(link_count);
                (seen.id, file_type, mode, uid, gid, file_id, links, modified)
            };
            if kept(old) != kept(new) {
                return Err(format!("{path}: {:?} became {:?}", kept(old), kept(new)));
            }
            if ranges.is_empty() && old.data.len() != new.data.len() {
                return Err(format!("{path}: {} became {}", old.data.len(), new.data.len()));
            }
            for (index, byte) in old.data.iter().enumerate() {
                // A lost unstable write may have extended the file, so bytes at the end may be
                // missing.
                let present = new.data.get(index).copied().unwrap_or(0);
                if present != *byte && !ranges.iter().any(|range| range.contains(&index)) {
                    return Err(format!("{path}: byte {index} is {present}, was {byte}"));
                }
            }
        }
        for id in &self.objects[1..] {
            let was = before.values().any(|seen| seen.id == *id);
            let is = block_on(store.getattr(id));
            if is.is_ok() != was {
                return Err(format!("{id:?}: {was} became {is:?}"));
            }
        }
        Ok(())
    }
}

/// Repeats this several times: executes changes, cuts the power, restarts the server, and checks
/// the state.
fn run(seed: u64, rounds: u32, fault: impl Fn(&Machine)) -> Result<(), String> {
    let mut machine = Machine::new();
    let mut store = machine.start().expect("the log can be made");
    let mut clients = Clients::new(seed, store.root());
    fault(&machine);
    for round in 0..rounds {
        for _ in 0..clients.below(60) {
            clients.step(&store);
        }
        let before = tree(&store);
        let keep_in_hundred = [0, 50, 90, 100][clients.below(4)];
        let mut random = clients.random.fork();
        machine.cut(&mut random, keep_in_hundred);
        drop(store);
        // Interrupt the replay at a random change, too.
        while random.one_in(2) {
            machine.disk.fail_after(Some(u32::try_from(random.below(20)).expect("it is small")));
            match machine.start() {
                Ok(_) | Err(OpenError::Disk(FsError::Io)) => {}
                Err(error) => return Err(format!("round {round}: {error}")),
            }
            machine.disk.fail_after(None);
            machine.cut(&mut random, keep_in_hundred);
        }
        store = machine.start().map_err(|error| format!("round {round}: {error}"))?;
        let replayed = machine.replayed().unwrap_or_default();
        if replayed.failed + replayed.taken + replayed.damaged > 0 {
            return Err(format!("round {round}: {replayed:?}"));
        }
        let after = tree(&store);
        clients.judge(&before, &after, &store).map_err(|text| format!("round {round}: {text}"))?;
        clients.uncertain.clear();
    }
    Ok(())
}

#[test]
fn answered_changes_survive_power_cuts() {
    for seed in 0..100 {
        if let Err(text) = run(seed, 4, |_| {}) {
            panic!("seed {seed}: {text}");
        }
    }
}

/// Checks that the test above can fail: if a sync of the log has no effect, some answered change is
/// lost.
#[test]
fn an_answer_before_the_sync_is_detected() {
    let found =
        (0..20).filter(|seed| run(*seed, 1, |machine| machine.device.sync_nothing()).is_err());
    assert!(found.count() > 10);
}
