//! A client's cache of one mount: attributes, names and data, including written data that is not on
//! the server's stable storage yet.
//!
//! Criteria in order of weight:
//! - Data that a program wrote is not lost: it stays in the cache until the server has it on stable
//!   storage, even if the server restarts. If the data cannot be saved, the program receives an
//!   error.
//! - A read returns the data last written here, and is no older than the mount's consistency
//!   variant allows.
//! - Calls to the server are few and large.
//! - Memory is bounded.
//!
//! Rules:
//! 1. Attributes are trusted for a time that doubles while they are found unchanged, within limits.
//!    A reply to a call that was sent before a change of our own was answered does not override
//!    that change, and does not make a file shorter than the data that the server has accepted.
//! 2. Changes of our own and changes of others are distinguished by the attributes before each
//!    change: starting from the known attributes, our own changes must lead to the newest
//!    attributes. Otherwise another client changed the object, and clean data and names are
//!    dropped.
//! 3. A cached name, or the absence of a name, is valid while its directory's attributes are
//!    trusted and only this client has changed the directory. The number of names is bounded; names
//!    from listings get a quarter of it. If no other client can add names unnoticed, a directory
//!    that was created here contains only the known names, until one of them is forgotten.
//! 4. Written data is dirty, then in transit, then written unstably, then clean (the page states of
//!    the paper's figure 1). If a COMMIT returns another verifier than the WRITE, the data is dirty
//!    again. Only clean data is evicted.
//! 5. Dirty data is sent when it fills a WRITE, when it is old, when there is much unsaved data,
//!    when a caller waits for it, and before any other change of the file; in the last case it is
//!    also committed, so that a repeated WRITE cannot undo the change. Together with old data the
//!    cache also sends data that is at least half as old: many files that are saved at once share
//!    the server's syncs, for which other clients wait.
//! 6. Two WRITEs of the same bytes are never in transit at the same time.
//! 7. If all unsaved data of a file fits one WRITE and must be saved, because a caller waits for it
//!    or it is old, that WRITE is sent as stable and needs no COMMIT.
//! 8. A program's write waits while there is too much unsaved data, and while the owner changes the
//!    file.
//! 9. Data that the server refuses is dropped, and the error is recorded for each program that has
//!    the file open. No error is recorded for data that was discarded in transit because the file
//!    was removed.
//! 10. A file that is read sequentially is read ahead, with a window that doubles, until a READ
//!     fails.
//! 11. Bytes that change here while a READ is in transit are not taken from the READ's reply.
//! 12. The numbers of READs, WRITEs and COMMITs in transit are bounded, for one file and for all
//!     files. The files are served in round-robin order.
//! 13. Mode, times and size that an owner sets here are sent after the earlier data is saved, or
//!     with the WRITE that saves it if rule 7 applies, and are unsaved until then. No WRITE of the
//!     file is in transit at the same time, and a size that is sent late does not truncate data
//!     that was written after the size was set. A time that a program has seen is set in the same
//!     way: it stays the file's time until a program writes again. No call sets the change time. So
//!     programs here continue to see the change time that they saw, as long as only changes from
//!     this cache have moved the change time at the server.
//! 14. If a program writes beyond the known end of a file, the cache fills a short gap before the
//!     write with zeros and sends no READ for the gap. If no other client can write unnoticed, a
//!     gap within a block is sent with the data around it and does not split a WRITE.
//!
//! Limits: the cache sends no calls itself and contains no file handles. The owner chooses the
//! consistency variant: it decides if the server is asked when a file is opened, if written data is
//! sent when a file is closed, and if cached content may be used at all. An owner with leases sets
//! the trust times of rule 1 to infinity for leased objects, uses cached content only under a
//! lease, and reports [`Event::Replaced`] if a new lease shows that the object has changed.

mod altered;
mod attributes;
mod audit;
mod dispatch;
mod extents;
mod file;
mod names;
mod options;
mod shown;

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use leasehold_base::attributes::{Attributes, FileType, SetAttributes, Wcc};
use leasehold_base::units::{FileTime, Time};

use attributes::{Content, Known};
use file::File;
use names::Names;
pub use names::Source;
pub use options::Options;
pub use shown::Times;

/// Identifies an object. The owner assigns the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(pub u64);

/// Identifies a waiting request of a program to the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Identifies a call to the server that the owner sends for the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// The send time of a request, for comparison with other requests and replies. The serial decides,
/// because a thread may read the clock before another thread and enter the cache after that thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    serial: Serial,
    time: Time,
}

/// The write verifier, which a server changes when it may have lost unstable data.
pub type Verifier = [u8; 8];

/// A counter of requests, changes and writes, which orders them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Serial(u64);

/// The result of a READ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The bytes: at least one, unless the file ends at the offset.
    pub data: Bytes,
    /// True if the file ends after these bytes.
    pub end: bool,
    /// The file's attributes after the READ.
    pub attributes: Option<Attributes>,
}

/// The result of a WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The number of accepted bytes: at least one, at most the number that was sent.
    pub count: u32,
    /// The verifier of unstable data; `None` if the data is stable.
    pub unstable: Option<Verifier>,
    /// The file's attributes before and after the call.
    pub wcc: Wcc,
    /// True if the server has set the attributes that were sent with the WRITE.
    pub set: bool,
}

/// The result of a COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The server's verifier.
    pub verifier: Verifier,
    /// The file's attributes before and after the call.
    pub wcc: Wcc,
}

/// An event for the cache. `E` is the owner's error type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<E> {
    /// A program reads. The owner has made sure that the cached attributes are trusted.
    Read {
        /// The waiting request.
        ticket: Ticket,
        /// The file.
        file: ObjectKey,
        /// The offset.
        offset: u64,
        /// The maximum number of bytes.
        count: u32,
    },
    /// A program writes.
    Write {
        /// The waiting request.
        ticket: Ticket,
        /// The file.
        file: ObjectKey,
        /// The offset.
        offset: u64,
        /// The data.
        data: Bytes,
        /// The time of day.
        at: FileTime,
    },
    /// A program sets mode, times or a size ([`Cache::can_resize`]), and nothing else.
    Alter {
        /// The file.
        file: ObjectKey,
        /// The attributes to set.
        set: SetAttributes,
        /// The time of day.
        at: FileTime,
    },
    /// A program is shown the attributes of a file ([`Cache::times`]). From then on these times are
    /// the file's times, and the cache sends them after the written data.
    Show {
        /// The file.
        file: ObjectKey,
    },
    /// A program waits until all earlier writes are on stable storage.
    Sync {
        /// The waiting request.
        ticket: Ticket,
        /// The file.
        file: ObjectKey,
    },
    /// The owner is about to change the file by another call. The change requires that all earlier
    /// writes are on stable storage, and that the cache sends no WRITE until [`Event::Release`].
    Hold {
        /// The waiting request.
        ticket: Ticket,
        /// The file.
        file: ObjectKey,
    },
    /// The change for which the file was held has ended.
    Release {
        /// The file.
        file: ObjectKey,
    },
    /// The file, whose attributes are known, was truncated or extended to a size.
    Resized {
        /// The file.
        file: ObjectKey,
        /// The new size of the file.
        size: u64,
    },
    /// Bytes were written without the cache, so their cached values are invalid.
    Overwritten {
        /// The file.
        file: ObjectKey,
        /// The range of the bytes.
        range: Range<u64>,
    },
    /// The file is striped over many servers: a shorter read-ahead would leave some servers idle.
    Spread {
        /// The file.
        file: ObjectKey,
        /// The read-ahead in bytes; at most an eighth of the cache is used.
        ahead: u64,
    },
    /// Unsaved data is not needed any more: no program can read the file again.
    Discard {
        /// The file.
        file: ObjectKey,
    },
    /// The server reported the attributes of an object.
    Observed {
        /// The object.
        object: ObjectKey,
        /// The time of the request.
        asked: Asked,
        /// The attributes.
        attributes: Attributes,
    },
    /// A change of the object was sent, other than a WRITE of this cache.
    BeginChange {
        /// The object.
        object: ObjectKey,
    },
    /// A change that [`Event::BeginChange`] reported was answered.
    EndChange {
        /// The object.
        object: ObjectKey,
        /// The object's attributes before and after the change.
        wcc: Wcc,
    },
    /// The server reported the object of a name, or the name was changed.
    Named {
        /// The directory.
        directory: ObjectKey,
        /// The name.
        name: Box<[u8]>,
        /// The object; `None` if the name does not exist.
        target: Option<ObjectKey>,
        /// The source of the information.
        source: Source,
        /// The time of the request; for a change of this client, the time of its reply.
        asked: Asked,
    },
    /// The directory was just created, and has no names yet.
    Empty {
        /// The directory.
        directory: ObjectKey,
    },
    /// The cached object of a name may be out of date.
    Unnamed {
        /// The directory.
        directory: ObjectKey,
        /// The name.
        name: Box<[u8]>,
    },
    /// The attributes of an object must be requested before they are used again.
    Distrust {
        /// The object.
        object: ObjectKey,
    },
    /// All cached content of the object is invalid, as are replies to earlier requests, because
    /// other clients may have changed it.
    Replaced {
        /// The object.
        object: ObjectKey,
    },
    /// The object no longer exists at the server, or its handle may denote another object: its
    /// clean data and all names that lead to it are dropped.
    Invalidate {
        /// The object.
        object: ObjectKey,
    },
    /// The object is not used any more; all its content is dropped.
    Forget {
        /// The object.
        object: ObjectKey,
    },
    /// A READ was answered.
    Fetched {
        /// The call.
        job: JobId,
        /// The result.
        result: Result<Fetched, E>,
    },
    /// A WRITE was answered.
    Stored {
        /// The call.
        job: JobId,
        /// The result.
        result: Result<Stored, E>,
    },
    /// A COMMIT was answered.
    Committed {
        /// The call.
        job: JobId,
        /// The result.
        result: Result<Committed, E>,
    },
    /// A SETATTR was answered, with the file's attributes before and after.
    Altered {
        /// The call.
        job: JobId,
        /// The result.
        result: Result<Wcc, E>,
    },
    /// Time has passed.
    Tick,
}

/// An action that the owner of this state machine must perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<E> {
    /// Send a READ.
    Fetch {
        /// The call.
        job: JobId,
        /// The file.
        file: ObjectKey,
        /// The offset.
        offset: u64,
        /// The number of bytes.
        count: u32,
    },
    /// Send a WRITE.
    Store {
        /// The call.
        job: JobId,
        /// The file.
        file: ObjectKey,
        /// The offset.
        offset: u64,
        /// The data.
        data: Bytes,
        /// True if the data must be stable when the WRITE is answered.
        stable: bool,
        /// The attributes to set after the WRITE.
        set: Option<SetAttributes>,
    },
    /// Send a SETATTR.
    Alter {
        /// The call.
        job: JobId,
        /// The file.
        file: ObjectKey,
        /// The attributes to set.
        set: SetAttributes,
    },
    /// Send a COMMIT of the whole file.
    Commit {
        /// The call.
        job: JobId,
        /// The file.
        file: ObjectKey,
    },
    /// The result of a read: fewer bytes than requested only at the end of the file.
    Read {
        /// The waiting request.
        ticket: Ticket,
        /// The bytes in order.
        result: Result<Vec<Bytes>, E>,
    },
    /// A write was accepted into the cache.
    Wrote {
        /// The waiting request.
        ticket: Ticket,
    },
    /// All earlier writes are on stable storage, or have failed: see [`Cache::failure`].
    Synced {
        /// The waiting request.
        ticket: Ticket,
    },
    /// The server refused bytes that programs wrote here, and the cache has dropped them. No
    /// program has written the range again since.
    Refused {
        /// The file.
        file: ObjectKey,
        /// The offset of the bytes in the file.
        offset: u64,
        /// The bytes.
        data: Bytes,
        /// The error of the server.
        error: E,
    },
    /// The owner may now send the change that [`Event::Hold`] announced.
    Held {
        /// The waiting request.
        ticket: Ticket,
        /// The file.
        file: ObjectKey,
    },
    /// No cached name leads to the object any more.
    Idle {
        /// The object.
        object: ObjectKey,
    },
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The number of bytes that the server had lost and that were written again.
    pub rewritten_bytes: u64,
    /// The number of bytes that were evicted.
    pub evicted_bytes: u64,
    /// The number of bytes that the server refused and that the cache has dropped.
    pub refused_bytes: u64,
    /// The number of writes of programs that had to wait (rule 8).
    pub held_writes: u64,
}

/// The cache of one mount.
#[derive(Clone, Debug)]
pub struct Cache<E> {
    options: Options,
    objects: BTreeMap<ObjectKey, Object<E>>,
    names: Names,
    /// The counter that orders requests, changes and writes.
    serial: Serial,
    /// The calls in transit, each with its file; `None` if the cache has forgotten the file.
    jobs: BTreeMap<JobId, Option<ObjectKey>>,
    next_job: u64,
    /// Files that an event changed, so that waiting requests may have to be answered.
    touched: BTreeSet<ObjectKey>,
    /// Files that may need a call. There may be many while the limit of calls is reached.
    hungry: BTreeSet<ObjectKey>,
    /// The file for which the last call was sent: the round-robin order continues after this file.
    turn: ObjectKey,
    /// Writes of programs that wait (rule 8), oldest first.
    held: VecDeque<HeldWrite>,
    /// Files with unsaved data, each with the time from which the age of this data counts.
    unsaved: BTreeMap<ObjectKey, Time>,
    /// Files with data that is only sent when it is old or a caller waits for it, oldest first.
    delayed: BTreeSet<(Time, ObjectKey)>,
    /// The files with cached data.
    filled: BTreeSet<ObjectKey>,
    bytes: u64,
    unsaved_bytes: u64,
    /// The position at which the last round of eviction stopped.
    hand: (ObjectKey, u64),
    /// The largest WRITE that the server is known to accept as a whole.
    write_bytes: u64,
    counters: Counters,
}

#[derive(Clone, Debug)]
struct Object<E> {
    known: Known,
    file: File<E>,
}

impl<E> Default for Object<E> {
    fn default() -> Self {
        Self { known: Known::default(), file: File::default() }
    }
}

/// A write of a program that waits until the cache accepts it.
#[derive(Clone, Debug)]
struct HeldWrite {
    ticket: Ticket,
    file: ObjectKey,
    offset: u64,
    data: Bytes,
    at: FileTime,
}

/// The maximum number of objects with which a debug build audits the cache after each step.
const AUDITED_MAX: usize = 64;

impl<E: Clone> Cache<E> {
    /// Creates an empty cache.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            objects: BTreeMap::new(),
            names: Names::new(options.names_max),
            serial: Serial(1),
            jobs: BTreeMap::new(),
            next_job: 0,
            touched: BTreeSet::new(),
            hungry: BTreeSet::new(),
            turn: ObjectKey(0),
            held: VecDeque::new(),
            unsaved: BTreeMap::new(),
            delayed: BTreeSet::new(),
            filled: BTreeSet::new(),
            bytes: 0,
            unsaved_bytes: 0,
            hand: (ObjectKey(0), 0),
            write_bytes: u64::from(options.write_bytes),
            counters: Counters::default(),
            options,
        }
    }

    /// Handles one event, and appends the resulting actions in order.
    ///
    /// # Panics
    /// Panics on a reply to an unknown call, and on the release of a file that was not held.
    pub fn step(&mut self, now: Time, event: Event<E>, effects: &mut Vec<Effect<E>>) {
        match event {
            Event::Read { ticket, file, offset, count } => {
                self.read(ticket, file, offset, count, effects);
            }
            Event::Write { ticket, file, offset, data, at } => {
                self.write(now, HeldWrite { ticket, file, offset, data, at }, effects);
            }
            Event::Alter { file, set, at } => self.alter_here(now, file, &set, at),
            Event::Show { file } => self.show(now, file),
            Event::Sync { ticket, file } => self.sync(ticket, file),
            Event::Hold { ticket, file } => {
                self.object(file).file.holds.push_back(ticket);
                self.touch(file);
            }
            Event::Release { file } => self.change_file(file, File::release),
            Event::Resized { file, size } => self.resized(file, size),
            Event::Overwritten { file, range } => {
                self.change_file(file, |file| file.overwrite(range));
            }
            Event::Spread { file, ahead } => self.spread(file, ahead),
            Event::Discard { file } => self.change_file(file, File::discard),
            Event::Observed { object, asked, attributes } => {
                self.observed(object, asked, &attributes, effects);
            }
            Event::BeginChange { object } => self.object(object).known.begin_change(),
            Event::EndChange { object, wcc } => self.end_change(now, object, &wcc, effects),
            Event::Named { directory, name, target, source, asked } => {
                self.named((directory, &name), target, (source, asked), effects);
            }
            Event::Empty { directory } => self.emptied(directory),
            Event::Unnamed { directory, name } => {
                let mut idle = Vec::new();
                self.names.forget(directory, &name, &mut idle);
                tell_idle(idle, effects);
            }
            Event::Distrust { object } => {
                if let Some(object) = self.objects.get_mut(&object) {
                    object.known.distrust();
                }
            }
            Event::Replaced { object } => self.doubt(now, object, effects),
            Event::Invalidate { object } => {
                self.object(object).known.distrust();
                self.names.forget_leading(object);
                self.drop_content(object, effects);
                effects.push(Effect::Idle { object });
            }
            Event::Forget { object } => self.forget(object, effects),
            Event::Fetched { job, result } => self.fetched(now, job, result, effects),
            Event::Stored { job, result } => self.stored(now, job, result, effects),
            Event::Committed { job, result } => self.committed(now, job, result, effects),
            Event::Altered { job, result } => self.altered(now, job, result, effects),
            Event::Tick => {}
        }
        self.go_on(now, effects);
        if cfg!(debug_assertions) && self.objects.len() <= AUDITED_MAX {
            self.check();
        }
    }

    /// Returns the next time at which the passing of time alone requires a step.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        self.delayed.first().map(|(since, _)| *since + self.options.write_delay)
    }

    /// Returns the send time of a request to the server. The event of the reply repeats it.
    pub fn ask(&mut self, now: Time) -> Asked {
        Asked { time: now, serial: self.tick_serial() }
    }

    /// Returns the type of an object, if its attributes are known.
    #[must_use]
    pub fn file_type(&self, object: ObjectKey) -> Option<FileType> {
        let known = self.objects.get(&object)?.known.attributes()?;
        Some(known.file_type)
    }

    /// Returns true if the reply to a request is up to date: no change of this client is in
    /// transit, and no reply to a later request or change has arrived.
    #[must_use]
    pub fn is_current(&self, object: ObjectKey, asked: Asked) -> bool {
        self.objects
            .get(&object)
            .is_none_or(|object| !object.known.is_changing() && !object.known.is_outdated(asked))
    }

    /// Returns the object of a cached and trusted name; an inner `None` is an absent name.
    pub fn find(
        &mut self,
        now: Time,
        directory: ObjectKey,
        name: &[u8],
    ) -> Option<Option<ObjectKey>> {
        let trusted = self.objects.get(&directory)?.known.trusted_for(now);
        if trusted.is_zero() { None } else { self.names.find(directory, name) }
    }

    /// Returns true if a cached name leads to the object.
    #[must_use]
    pub fn is_named(&self, object: ObjectKey) -> bool {
        self.names.lead_to(object)
    }

    /// Returns the number of failures to save a file's data, and the last error.
    #[must_use]
    pub fn failure(&self, file: ObjectKey) -> (u64, Option<E>) {
        self.objects.get(&file).map_or((0, None), |object| object.file.failures.clone())
    }

    /// Returns the number of times that other clients may have changed a file's data: a copy of
    /// data that was read here is valid while this count is unchanged.
    #[must_use]
    pub fn replaced(&self, file: ObjectKey) -> u64 {
        self.objects.get(&file).map_or(0, |object| object.file.dropped)
    }

    /// Returns true if the server lacks a mode or times that programs set or saw here.
    #[must_use]
    pub fn is_altered(&self, file: ObjectKey) -> bool {
        self.objects.get(&file).is_some_and(|object| object.file.altered.is_some())
    }

    /// Returns true if the server lacks a mode that a program set here.
    #[must_use]
    pub fn is_mode_altered(&self, file: ObjectKey) -> bool {
        let altered = self.objects.get(&file).and_then(|object| object.file.altered.as_ref());
        altered.is_some_and(altered::Altered::sets_mode)
    }

    /// Returns true if the server lacks, or may lose, data or attributes that were set here.
    #[must_use]
    pub fn is_unsaved(&self, file: ObjectKey) -> bool {
        self.unsaved.contains_key(&file) || self.held.iter().any(|write| write.file == file)
    }

    /// Lists the files with data that the server lacks or may lose.
    #[must_use]
    pub fn unsaved_objects(&self) -> Vec<ObjectKey> {
        let held = self.held.iter().map(|write| write.file);
        self.unsaved.keys().copied().chain(held).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Returns the counters.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the number of cached bytes, and the number of unsaved bytes among them.
    #[must_use]
    pub const fn bytes(&self) -> (u64, u64) {
        (self.bytes, self.unsaved_bytes)
    }

    /// Returns the number of cached names.
    #[must_use]
    pub fn names(&self) -> usize {
        self.names.len()
    }

    fn object(&mut self, key: ObjectKey) -> &mut Object<E> {
        self.objects.entry(key).or_default()
    }

    /// Changes a file that has not been forgotten.
    fn change_file(&mut self, key: ObjectKey, change: impl FnOnce(&mut File<E>)) {
        if let Some(object) = self.objects.get_mut(&key) {
            change(&mut object.file);
            self.touch(key);
        }
    }

    fn touch(&mut self, key: ObjectKey) {
        self.touched.insert(key);
        self.hungry.insert(key);
    }

    fn tick_serial(&mut self) -> Serial {
        self.serial = Serial(self.serial.0 + 1);
        self.serial
    }

    fn observed(
        &mut self,
        key: ObjectKey,
        asked: Asked,
        attributes: &Attributes,
        effects: &mut Vec<Effect<E>>,
    ) {
        let options = self.options;
        let object = self.object(key);
        object.file.end = None;
        if object.known.observe(&options, asked, attributes) == Content::Changed {
            self.drop_content(key, effects);
        }
        self.touch(key);
    }

    fn end_change(&mut self, now: Time, key: ObjectKey, wcc: &Wcc, effects: &mut Vec<Effect<E>>) {
        let asked = self.ask(now);
        let options = self.options;
        let Some(object) = self.objects.get_mut(&key) else { return };
        let content = object.known.end_change(&options, asked, wcc);
        object.file.end = None;
        if content == Content::Changed {
            self.drop_content(key, effects);
        }
        self.touch(key);
    }

    /// Drops the cached content of an object, because another client changed it.
    fn drop_content(&mut self, key: ObjectKey, effects: &mut Vec<Effect<E>>) {
        self.object(key).file.drop_clean();
        self.touch(key);
        let mut idle = Vec::new();
        self.names.forget_all(key, &mut idle);
        tell_idle(idle, effects);
    }

    fn doubt(&mut self, now: Time, key: ObjectKey, effects: &mut Vec<Effect<E>>) {
        let asked = self.ask(now);
        self.object(key).known.replaced(asked);
        self.drop_content(key, effects);
    }

    fn named(
        &mut self,
        (directory, name): (ObjectKey, &[u8]),
        target: Option<ObjectKey>,
        (source, asked): (Source, Asked),
        effects: &mut Vec<Effect<E>>,
    ) {
        let known = &self.object(directory).known;
        let mut idle = Vec::new();
        if known.is_comparable() && !known.is_outdated(asked) {
            self.names.insert((directory, name), target, source, &mut idle);
        } else {
            self.names.forget(directory, name, &mut idle);
        }
        // The target is idle if no cached name leads to it, even if this call cached no name.
        idle.extend(target.filter(|object| !self.names.lead_to(*object)));
        tell_idle(idle, effects);
    }

    fn emptied(&mut self, directory: ObjectKey) {
        let known = self.objects.get(&directory).map(|object| &object.known);
        if self.options.names_of_new && known.is_some_and(Known::is_comparable) {
            self.names.complete(directory);
        }
    }

    fn forget(&mut self, key: ObjectKey, effects: &mut Vec<Effect<E>>) {
        self.drop_content(key, effects);
        self.names.forget_leading(key);
        let file = &mut self.object(key).file;
        file.overwrite(0..u64::MAX);
        file.altered = None;
        self.recount(Time::ZERO, key);
        self.objects.remove(&key);
        // The object may become known again before the replies arrive, so they must be ignored.
        self.jobs.values_mut().filter(|of| **of == Some(key)).for_each(|of| *of = None);
        self.hungry.remove(&key);
        self.touched.remove(&key);
        self.held.retain(|write| write.file != key);
    }
}

fn tell_idle<E>(idle: Vec<ObjectKey>, effects: &mut Vec<Effect<E>>) {
    effects.extend(idle.into_iter().map(|object| Effect::Idle { object }));
}

#[cfg(test)]
mod tests;
