//! Detection of changes that other programs make to the names of a directory during an operation of
//! the store.
//!
//! A client receives the attributes of a directory from before and after an operation. If the
//! client has cached the attributes from before, it concludes that only its own operation changed
//! the directory, and keeps its cached names. This conclusion must be correct although local
//! programs also change the directory. Attributes alone cannot ensure this: two consecutive changes
//! look like one change. The kernel's notifications (inotify) can, for these reasons:
//! - Each change of names, by the store or by a local program, holds the kernel's lock of the
//!   directory until the kernel has queued the notification. So the notifications of earlier
//!   changes precede the notification of the store's change.
//! - After the query of the attributes the store takes this lock once more, by a rename that does
//!   nothing. At that point the kernel has queued the notifications of all changes that these
//!   attributes show.
//! - So if the store's own change is the only notification, no other change occurred in between.
//!   There is one exception, because the kernel merges two equal consecutive notifications: another
//!   program renames its object to the new name right after the store's rename. A rename therefore
//!   checks the object of the new name.
//!
//! A change by another program between two operations of the store counts as a change during the
//! next operation, because the two cases cannot be distinguished. In both cases the client detects
//! the change by the attributes. A change of the directory's own attributes counts as well; a
//! change of a file in the directory does not. `docs/design/0010-before-and-after.md` gives the
//! reasons for this method.

use std::collections::{HashMap, HashSet};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use leasehold_fs::ObjectId;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::locks::lock;

/// The maximum number of watched directories on which no client holds leases: directories that
/// clients changed in the last seconds.
const WATCHES_MAX: usize = 1024;

/// The maximum number of watched directories on which clients hold leases.
const HELD_MAX: usize = 1 << 16;

/// The number of bytes that one read of notifications takes: some hundred notifications. If more
/// are queued, the result is unknown, and later calls read the rest.
const EVENTS_BYTES: usize = 16 << 10;

/// The size of a notification without a name, and of a notification with the longest name.
const EVENT_BYTES: usize = size_of::<libc::inotify_event>();
const EVENT_BYTES_MAX: usize = EVENT_BYTES + 256;

/// The change of a name, which causes a notification.
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

/// The result of [`ChangeDetector::hold`]. A directory is held while clients have leases on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// The directory is the only held directory.
    First,
    /// The directory is held, and other directories were held before.
    Another,
    /// The directory is not held, because the kernel does not notify all changes on this file
    /// system.
    Unknown,
    /// The directory is not held, because all entries of this table are in use, or because the
    /// kernel provides no watch: it has limits for each user (`/proc/sys/fs/inotify`).
    Short,
}

/// The watches of directories.
pub(crate) struct ChangeDetector {
    /// True if the kernel notifies all changes on the file system.
    is_notified: bool,
    /// The queue of the kernel's notifications; `None` if the kernel provides no queue.
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
    /// The held directories that another program has changed, until they are reported.
    strangers: HashSet<ObjectId>,
}

struct Watch {
    directory: ObjectId,
    /// The expected notifications of the store's own operation that have not arrived yet.
    expected: Vec<(ReadFlags, Vec<u8>)>,
    /// True if an unexpected notification arrived.
    disturbed: bool,
    used: bool,
    /// True if clients hold leases on the directory, so that changes by other programs must be
    /// reported.
    held: bool,
}

impl ChangeDetector {
    /// Creates the watches for a file system. `is_notified` is true if the kernel notifies all
    /// changes on the file system.
    pub(crate) fn new(is_notified: bool) -> Self {
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        // Without a queue the detector reports every change as uncertain, which is safe: the client
        // then drops its cache.
        let queue = is_notified.then(|| inotify::init(flags).ok()).flatten();
        Self { is_notified, queue, state: Mutex::default() }
    }

    /// Announces a change of a directory. The caller holds the lock of the directory's critical
    /// section, and queries the directory's attributes afterwards. Returns true if the directory is
    /// watched.
    pub(crate) fn begin(&self, directory: &ObjectId, traces: &[Trace<'_>]) -> bool {
        let mut state = lock(&self.state);
        let watch = state.of(directory);
        let is_watched = watch.is_some();
        if let Some(watch) = watch {
            watch.expect(traces);
        }
        is_watched
    }

    /// Like `begin`, for a directory without a watch; `path` is its path. Returns true if the
    /// kernel accepts the watch.
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

    /// Holds a directory: starts to report changes by other programs in it, if possible.
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

    /// Stops reporting changes in a directory.
    pub(crate) fn let_go(&self, directory: &ObjectId) {
        let mut state = lock(&self.state);
        if state.of(directory).is_some_and(|watch| core::mem::take(&mut watch.held)) {
            state.held -= 1;
        }
    }

    /// Returns the queue of notifications, if at least one directory is held.
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

    /// Returns true if the announced changes are the only changes. The caller has queried the
    /// attributes, and has taken the kernel's lock of the directory once more.
    pub(crate) fn was_alone(&self, directory: &ObjectId) -> bool {
        let mut state = lock(&self.state);
        let all_read = self.take_in(&mut state);
        let watch = state.of(directory);
        watch.is_some_and(|watch| all_read && !watch.disturbed && watch.expected.is_empty())
    }

    /// Removes the watches of directories without a change since the last call.
    pub(crate) fn forget_idle(&self) {
        let Some(queue) = &self.queue else { return };
        let mut state = lock(&self.state);
        self.take_in(&mut state);
        let State { numbers, watches, .. } = &mut *state;
        watches.retain(|number, watch| {
            let used = core::mem::take(&mut watch.used) || watch.held;
            if !used {
                numbers.remove(&watch.directory);
                // If the directory was removed, the kernel has already removed the watch, and the
                // call fails: ignore the error.
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
        // The kernel returns only notifications that fit completely. So all of them were read if
        // the space for the longest notification was left.
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
            // A change of the attributes of a file in the directory does not change the directory:
            // ignore the notification.
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
    /// Returns the kernel's notification for the change.
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
