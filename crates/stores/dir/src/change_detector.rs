//! Detection of changes that other programs make to the names of a directory during an operation of
//! the store.
//!
//! A client that receives the attributes of a directory from before and after an operation, and has
//! cached the attributes from before, attributes all changes in between to itself, and keeps its
//! cached names. This must be correct even with local programs. Attributes alone do not suffice:
//! two consecutive changes look like one. The kernel's notifications (inotify) do suffice, for
//! these reasons:
//! - Each change of names, including ours, holds the kernel's lock of the directory until the
//!   change has been notified. So the notifications of earlier changes precede the notification of
//!   ours.
//! - After the query of the attributes the store takes this lock once more, by a rename that does
//!   nothing. So all changes that these attributes show have been notified by then.
//! - So if our own change is the only notification, no other change occurred in between. The
//!   exception is a name that another program took over after our rename, since the kernel merges
//!   two equal consecutive notifications. A rename therefore checks the object of the new name.
//!
//! A change by another program between two of our operations counts as a change during the next
//! one, as this is possible; its client detects the change by the attributes in either case. A
//! change of the directory's own attributes counts as well, and a change of a file in it does not.
//! `docs/design/0010-before-and-after.md` gives the reasons for this method.

use std::collections::{HashMap, HashSet};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use leasehold_fs::ObjectId;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::locks::lock;

/// The maximum number of watched directories: the directories that clients changed in the last
/// seconds.
const WATCHES_MAX: usize = 1024;

/// The maximum number of watched directories on which clients hold leases.
const HELD_MAX: usize = 1 << 16;

/// The number of bytes of notifications in one read: some hundred notifications. If there are more,
/// the result is unknown, and later calls read the rest.
const EVENTS_BYTES: usize = 16 << 10;

/// The bytes of a notification without a name, and of one with the longest name.
const EVENT_BYTES: usize = size_of::<libc::inotify_event>();
const EVENT_BYTES_MAX: usize = EVENT_BYTES + 256;

/// The change of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trace<'a> {
    /// The name is created.
    Comes(&'a [u8]),
    /// The name is removed.
    Goes(&'a [u8]),
    /// The object of the name is renamed to another name.
    MovesAway(&'a [u8]),
    /// Another object is renamed to this name.
    MovesHere(&'a [u8]),
}

/// The result of [`ChangeDetector::hold`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// The directory is the first held one.
    First,
    /// The directory is held, and is not the first one.
    Another,
    /// The kernel does not notify all changes on this file system.
    Unknown,
    /// The directory is not held for lack of an entry here, or of a watch of the kernel, which has
    /// limits for each user (`/proc/sys/fs/inotify`).
    Short,
}

/// The watches of directories.
pub(crate) struct ChangeDetector {
    /// True if the kernel notifies all changes on the file system.
    is_notified: bool,
    /// The queue of the kernel's notifications; `None` if there is none.
    queue: Option<OwnedFd>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The kernel's watch numbers of the directories.
    numbers: HashMap<ObjectId, i32>,
    watches: HashMap<i32, Watch>,
    /// The number of held directories.
    held: usize,
    /// Held directories with a notification of a change by another program.
    strangers: HashSet<ObjectId>,
}

struct Watch {
    directory: ObjectId,
    /// The expected notifications of our operation that have not arrived yet.
    expected: Vec<(ReadFlags, Vec<u8>)>,
    /// True if an unexpected notification arrived.
    disturbed: bool,
    used: bool,
    /// True if clients hold leases on the directory, so that changes by other programs must be
    /// reported.
    held: bool,
}

impl ChangeDetector {
    /// Creates the watches for a file system; `is_notified` states that the kernel notifies all its
    /// changes.
    pub(crate) fn new(is_notified: bool) -> Self {
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        // Without a queue every result is unknown, which is safe.
        let queue = is_notified.then(|| inotify::init(flags).ok()).flatten();
        Self { is_notified, queue, state: Mutex::default() }
    }

    /// Announces a change of a directory, before the query of its attributes; to be called within
    /// its critical section. Returns true if the directory is watched.
    pub(crate) fn begin(&self, directory: &ObjectId, traces: &[Trace<'_>]) -> bool {
        let mut state = lock(&self.state);
        let watch = state.of(directory);
        let is_watched = watch.is_some();
        if let Some(watch) = watch {
            watch.expect(traces);
        }
        is_watched
    }

    /// Like `begin`, for a directory without a watch, given by its path. Returns true if the watch
    /// succeeded.
    pub(crate) fn watch(&self, directory: &ObjectId, path: &str, traces: &[Trace<'_>]) -> bool {
        let mut state = lock(&self.state);
        if state.numbers.len() - state.held >= WATCHES_MAX {
            return false;
        }
        let watch = self.add(&mut state, directory, path);
        let is_watched = watch.is_some();
        if let Some(watch) = watch {
            watch.expect(traces);
        }
        is_watched
    }

    fn add<'a>(
        &self,
        state: &'a mut State,
        directory: &ObjectId,
        path: &str,
    ) -> Option<&'a mut Watch> {
        let wanted = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ATTRIB
            | WatchFlags::ONLYDIR;
        let number = inotify::add_watch(self.queue.as_ref()?, path, wanted).ok()?;
        let (expected, disturbed, used, held) = (Vec::new(), false, true, false);
        let watch = Watch { directory: *directory, expected, disturbed, used, held };
        state.numbers.insert(*directory, number);
        Some(state.watches.entry(number).or_insert(watch))
    }

    /// Starts to report changes by other programs in a directory, if possible.
    pub(crate) fn hold(&self, directory: &ObjectId, path: &str) -> Hold {
        if !self.is_notified {
            return Hold::Unknown;
        }
        let mut state = lock(&self.state);
        if state.of(directory).is_some_and(|watch| watch.held) {
            return Hold::Another;
        }
        if state.held >= HELD_MAX {
            return Hold::Short;
        }
        match state.of(directory) {
            Some(watch) => watch.held = true,
            None => match self.add(&mut state, directory, path) {
                Some(watch) => watch.held = true,
                None => return Hold::Short,
            },
        }
        state.held += 1;
        if state.held == 1 { Hold::First } else { Hold::Another }
    }

    /// Stops to report changes in a directory.
    pub(crate) fn let_go(&self, directory: &ObjectId) {
        let mut state = lock(&self.state);
        if state.of(directory).is_some_and(|watch| core::mem::take(&mut watch.held)) {
            state.held -= 1;
        }
    }

    /// Returns the queue of notifications, if any directory is held.
    pub(crate) fn held_queue(&self) -> Option<&OwnedFd> {
        self.queue.as_ref().filter(|_| lock(&self.state).held > 0)
    }

    /// Returns the held directories.
    pub(crate) fn held(&self) -> Vec<ObjectId> {
        let state = lock(&self.state);
        let held = state.watches.values().filter(|watch| watch.held);
        held.map(|watch| watch.directory).collect()
    }

    /// Marks all held directories as changed by another program.
    pub(crate) fn disturb_all(&self) {
        let mut state = lock(&self.state);
        let held = state.watches.values().filter(|watch| watch.held);
        let held: Vec<_> = held.map(|watch| watch.directory).collect();
        state.strangers.extend(held);
    }

    /// Returns true if another program changed a held directory.
    pub(crate) fn has_strangers(&self) -> bool {
        !lock(&self.state).strangers.is_empty()
    }

    /// Returns the held directories that other programs changed since the last call.
    pub(crate) fn strangers(&self) -> Vec<ObjectId> {
        let mut state = lock(&self.state);
        if state.held > 0 {
            self.take_in(&mut state);
        }
        state.strangers.drain().collect()
    }

    /// Returns true if the announced changes are the only ones; to be called after the query of the
    /// attributes and after the directory's lock was taken once more.
    pub(crate) fn was_alone(&self, directory: &ObjectId) -> bool {
        let mut state = lock(&self.state);
        let all_read = self.take_in(&mut state);
        let watch = state.of(directory);
        watch.is_some_and(|watch| all_read && !watch.disturbed && watch.expected.is_empty())
    }

    /// Stops the watch of directories without a change since the last call.
    pub(crate) fn forget_idle(&self) {
        let Some(queue) = &self.queue else { return };
        let mut state = lock(&self.state);
        self.take_in(&mut state);
        let State { numbers, watches, .. } = &mut *state;
        watches.retain(|number, watch| {
            let used = core::mem::take(&mut watch.used) || watch.held;
            if !used {
                numbers.remove(&watch.directory);
                // If the directory is gone, so is the watch.
                let _ = inotify::remove_watch(queue, *number);
            }
            used
        });
    }

    /// Reads notifications; returns true if it read all of them.
    fn take_in(&self, state: &mut State) -> bool {
        let Some(queue) = &self.queue else { return false };
        let mut buffer = [MaybeUninit::<u8>::uninit(); EVENTS_BYTES];
        let mut reader = Reader::new(queue, &mut buffer);
        let mut taken_bytes = 0;
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map_or(&b""[..], |name| name.to_bytes());
                    taken_bytes += EVENT_BYTES + (name.len() + 1).next_multiple_of(EVENT_BYTES);
                    state.take(event.wd(), event.events(), name);
                }
                Err(errno) => return errno == Errno::AGAIN,
            }
            if reader.is_buffer_empty() {
                break;
            }
        }
        // The kernel stops at the first notification that does not fit.
        taken_bytes + EVENT_BYTES_MAX <= EVENTS_BYTES
    }
}

impl State {
    fn of(&mut self, directory: &ObjectId) -> Option<&mut Watch> {
        let number = self.numbers.get(directory)?;
        self.watches.get_mut(number)
    }

    /// Processes one notification.
    fn take(&mut self, number: i32, events: ReadFlags, name: &[u8]) {
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            for watch in self.watches.values_mut() {
                watch.disturbed = true;
                self.strangers.extend(watch.held.then_some(watch.directory));
            }
            return;
        }
        if events.contains(ReadFlags::IGNORED) {
            if let Some(watch) = self.watches.remove(&number) {
                self.numbers.remove(&watch.directory);
                if watch.held {
                    self.held -= 1;
                    self.strangers.insert(watch.directory);
                }
            }
            return;
        }
        let Some(watch) = self.watches.get_mut(&number) else { return };
        let what = events - ReadFlags::ISDIR;
        match watch.expected.iter().position(|(kind, of)| *kind == what && of == name) {
            Some(at) => drop(watch.expected.swap_remove(at)),
            // Changes of files in the directory are not changes of the directory.
            None if what == ReadFlags::ATTRIB && !name.is_empty() => {}
            None => {
                watch.disturbed = true;
                self.strangers.extend(watch.held.then_some(watch.directory));
            }
        }
    }
}

impl Watch {
    fn expect(&mut self, traces: &[Trace<'_>]) {
        self.expected.clear();
        self.expected.extend(traces.iter().map(Trace::notified));
        self.disturbed = false;
        self.used = true;
    }
}

impl Trace<'_> {
    /// Returns the notification of the kernel.
    fn notified(&self) -> (ReadFlags, Vec<u8>) {
        let (kind, name) = match self {
            Self::Comes(name) => (ReadFlags::CREATE, name),
            Self::Goes(name) => (ReadFlags::DELETE, name),
            Self::MovesAway(name) => (ReadFlags::MOVED_FROM, name),
            Self::MovesHere(name) => (ReadFlags::MOVED_TO, name),
        };
        (kind, name.to_vec())
    }
}
