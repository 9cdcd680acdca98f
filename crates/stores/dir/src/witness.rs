//! Whether anybody else changed the names in a directory while an operation of ours did.
//!
//! A client that is told of a directory as it was before an operation and after it, and had seen
//! it as it was before, takes all changes in between for its own and keeps what it knows of other
//! names. That must be true of local programs as well. Attributes do not show it: two changes in a
//! row look like one. The kernel's notification does (inotify), for these reasons:
//! - Whoever changes names holds the kernel's lock of the directory until the change has been
//!   notified, and so do we: what came before our change is notified before it.
//! - Behind the look at the attributes afterwards that lock is taken once more, by a rename that
//!   does nothing: what those attributes show is notified by then.
//! - So if nothing but our own change is notified, nobody came between; but of a name that was
//!   taken over after our rename, for the kernel makes one notification of two that are the same
//!   and follow each other. Whoever renames looks where the name leads then.
//!
//! What somebody else changed between two operations of ours is taken for a change within the next
//! one, as it may have been; its client finds out by the attributes in either case. Who changes
//! attributes of the directory itself counts as well, who changes a file in it does not.
//! `docs/design/0010-before-and-after.md` says why this way.

use std::collections::{HashMap, HashSet};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use leasehold_fs::ObjectId;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::locks::lock;

/// How many directories are watched at once: those that clients changed in the last seconds.
const WATCHES_MAX: usize = 1024;

/// How many directories that clients hold leases on.
const HELD_MAX: usize = 1 << 16;

/// How many bytes of notifications are read at once: some hundred. Where there are more, nothing
/// is known, and they are read by and by.
const EVENTS_BYTES: usize = 16 << 10;

/// A notification without a name, and one with the longest, in bytes.
const EVENT_BYTES: usize = size_of::<libc::inotify_event>();
const EVENT_BYTES_MAX: usize = EVENT_BYTES + 256;

/// What is done to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trace<'a> {
    /// It comes to be.
    Comes(&'a [u8]),
    /// It is removed.
    Goes(&'a [u8]),
    /// What has it gets another name.
    MovesAway(&'a [u8]),
    /// Something gets it that had another name.
    MovesHere(&'a [u8]),
}

/// The result of [`Witness::hold`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// The directory is the first that is held.
    First,
    /// The directory is held, and is not the first.
    Another,
    /// The kernel does not notify of all changes on this file system.
    Unknown,
    /// The directory is not held for lack of a place here, or of a watch of the kernel, which has
    /// limits for each user (`/proc/sys/fs/inotify`).
    Short,
}

/// Watches directories.
pub(crate) struct Witness {
    /// True if the kernel notifies of all changes on the file system.
    is_notified: bool,
    /// Where the kernel notifies; none where it does not.
    queue: Option<OwnedFd>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The kernel's numbers of what is watched.
    numbers: HashMap<ObjectId, i32>,
    watches: HashMap<i32, Watch>,
    /// How many are held.
    held: usize,
    /// Directories that are held, of which something was notified that was not ours.
    strangers: HashSet<ObjectId>,
}

struct Watch {
    directory: ObjectId,
    /// What our operation does and has not been notified yet.
    expected: Vec<(ReadFlags, Vec<u8>)>,
    /// Whether something else was notified.
    disturbed: bool,
    used: bool,
    /// Whether clients hold leases on it, so that what others change is to be told.
    held: bool,
}

impl Witness {
    /// A witness of a file system that the kernel notifies all changes of, or does not.
    pub(crate) fn new(is_notified: bool) -> Self {
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        // Where there is no queue to be had nothing is ever known; that is safe.
        let queue = is_notified.then(|| inotify::init(flags).ok()).flatten();
        Self { is_notified, queue, state: Mutex::default() }
    }

    /// Says what is about to be done in a directory, before it is looked at; to be called within
    /// its critical section. Whether it is watched.
    pub(crate) fn begin(&self, directory: &ObjectId, traces: &[Trace<'_>]) -> bool {
        let mut state = lock(&self.state);
        let watch = state.of(directory);
        let is_watched = watch.is_some();
        if let Some(watch) = watch {
            watch.expect(traces);
        }
        is_watched
    }

    /// The same for a directory that is not watched yet, by its path. Whether it can be.
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

    /// Has changes of other programs in a directory reported from now on, where possible.
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

    /// Has it told no more.
    pub(crate) fn let_go(&self, directory: &ObjectId) {
        let mut state = lock(&self.state);
        if state.of(directory).is_some_and(|watch| core::mem::take(&mut watch.held)) {
            state.held -= 1;
        }
    }

    /// Where the kernel notifies, if there is a directory of which it is to be told.
    pub(crate) fn held_queue(&self) -> Option<&OwnedFd> {
        self.queue.as_ref().filter(|_| lock(&self.state).held > 0)
    }

    /// The directories that are held.
    pub(crate) fn held(&self) -> Vec<ObjectId> {
        let state = lock(&self.state);
        let held = state.watches.values().filter(|watch| watch.held);
        held.map(|watch| watch.directory).collect()
    }

    /// Takes all directories that are held for changed by somebody else.
    pub(crate) fn disturb_all(&self) {
        let mut state = lock(&self.state);
        let held = state.watches.values().filter(|watch| watch.held);
        let held: Vec<_> = held.map(|watch| watch.directory).collect();
        state.strangers.extend(held);
    }

    /// Whether somebody else changed a directory that is held.
    pub(crate) fn has_strangers(&self) -> bool {
        !lock(&self.state).strangers.is_empty()
    }

    /// The directories that are held and that somebody else changed since this was asked last.
    pub(crate) fn strangers(&self) -> Vec<ObjectId> {
        let mut state = lock(&self.state);
        if state.held > 0 {
            self.take_in(&mut state);
        }
        state.strangers.drain().collect()
    }

    /// Whether just that was done and nothing else; to be called when the directory has been
    /// looked at again and its lock was taken once more.
    pub(crate) fn was_alone(&self, directory: &ObjectId) -> bool {
        let mut state = lock(&self.state);
        let all_read = self.take_in(&mut state);
        let watch = state.of(directory);
        watch.is_some_and(|watch| all_read && !watch.disturbed && watch.expected.is_empty())
    }

    /// Watches no more what was not changed since the last call.
    pub(crate) fn forget_idle(&self) {
        let Some(queue) = &self.queue else { return };
        let mut state = lock(&self.state);
        self.take_in(&mut state);
        let State { numbers, watches, .. } = &mut *state;
        watches.retain(|number, watch| {
            let used = core::mem::take(&mut watch.used) || watch.held;
            if !used {
                numbers.remove(&watch.directory);
                // Where the directory is gone, so is the watch.
                let _ = inotify::remove_watch(queue, *number);
            }
            used
        });
    }

    /// Reads notifications; whether those were all.
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
        // The kernel stops where the next one does not fit.
        taken_bytes + EVENT_BYTES_MAX <= EVENTS_BYTES
    }
}

impl State {
    fn of(&mut self, directory: &ObjectId) -> Option<&mut Watch> {
        let number = self.numbers.get(directory)?;
        self.watches.get_mut(number)
    }

    /// Takes in one notification.
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
            // Files in the directory are no matter of its own.
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
    /// As the kernel notifies it.
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
