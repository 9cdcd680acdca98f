//! A client's cache of one mount: attributes, names and data, and what was written here and is not
//! yet on the server's stable storage.
//!
//! Criteria in order of weight:
//! - What a program wrote is not lost: it stays here until the server has it on stable storage,
//!   whatever the server forgets meanwhile; where that fails, the program is told.
//! - What is read is what was last written here, and no older than the mount's variant allows.
//! - The server is asked seldom, and in large pieces.
//! - Memory is bounded.
//!
//! Rules:
//! 1. Attributes are trusted for a time that doubles while they are found unchanged, within limits.
//!    An answer to a question from before a change of ours was answered is not believed over it,
//!    nor does what another change brought make a file shorter than the server took it.
//! 2. A change of ours is told from another's by the attributes before it: from what is known, all
//!    our changes lead to the newest attributes, or somebody else was there. Then clean data and
//!    names are dropped.
//! 3. A name, or its absence, is good for as long as its directory's attributes are trusted and its
//!    directory was changed by us alone. Names are bounded; a listing gets a quarter of the room.
//!    Where nobody else makes names unseen, a directory that was made here has no names but those
//!    that are known, until one of them is forgotten.
//! 4. Written data is dirty, then on its way, then written unstably, then clean (the page states of
//!    the paper's figure 1). A COMMIT that is answered with another verifier than the WRITE was
//!    makes it dirty again. Only clean data is evicted.
//! 5. Dirty data goes out when it fills a WRITE, when it has been here for long, when much is
//!    unsaved, when somebody waits for it, and before anything else about the file is changed: then
//!    it is committed as well, so that what is changed is not changed back by writing again. With
//!    what has been here for long goes what has been here for half as long: many files that are
//!    saved at once share the server's syncs, for which others wait.
//! 6. Two WRITEs of the same bytes are never on their way at once.
//! 7. When all that is unsaved of a file fits one WRITE and is to be saved, as somebody waits for it
//!    or it has been here for long, then that is asked to be stable, and needs no COMMIT.
//! 8. A program that writes waits while too much is unsaved, and while the file is being changed.
//! 9. What the server refuses to take is dropped, and the failure is remembered for each who has
//!    the file open; not where it was discarded while it was on its way, as its file was removed.
//! 10. A file that is read in order is read ahead, twice as far each time, while all goes well.
//! 11. Bytes that change here while a READ is on its way are not taken from its answer.
//! 12. So many READs, WRITEs and COMMITs are on their way at once, for one file and for all; files
//!     take turns.
//! 13. Mode, times and size that an owner sets here are sent when what was written before is saved,
//!     along with the WRITE that saves it where rule 7 has one, and are unsaved until then. No WRITE
//!     of the file is on its way at once with them, and no size cuts off what was written behind it.
//!     A time that a program was shown is set in the same way: it is the file's time from then on,
//!     until a program writes again. No call sets the change time, so programs here go on seeing
//!     the change time that they were shown, as long as only changes from this cache have moved
//!     the change time at the server.
//! 14. Behind the end that a file is known to have there are zeros: a short gap that a write leaves
//!     there is not asked for. Where nobody else writes unseen, one within a block goes out with what
//!     lies around it, so that it parts no WRITE.
//!
//! What it does not do: it calls nobody and knows no handles. Whether the server is asked when a
//! file is opened, and whether data is pushed when it is closed, is its owner's choice of variant.
//! So is whether what is known may be used at all: an owner with leases has rule 1's times without
//! end for what these are on, uses that while it holds one, and tells when that shows another object
//! than before ([`Event::Replaced`]).

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

/// Names an object to the owner, who gives a number of its own to each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(pub u64);

/// Names something that a program waits for to the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Names a call that the owner is to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// When a question was asked, among all that were asked and answered. The serial comes first: of
/// several threads one may look at the clock before another, and come here after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    serial: Serial,
    time: Time,
}

/// What a server changes when it may have lost what was written unstably.
pub type Verifier = [u8; 8];

/// Counts what happens, to tell before from after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Serial(u64);

/// What a READ was answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The bytes: at least one, except at the end.
    pub data: Bytes,
    /// Whether the file ends behind them.
    pub end: bool,
    /// The file afterwards.
    pub attributes: Option<Attributes>,
}

/// What a WRITE was answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// How many of the bytes the server took: at least one, and not more than there were.
    pub count: u32,
    /// The verifier under which it may lose them; none when they are stable.
    pub unstable: Option<Verifier>,
    /// The file before and after.
    pub wcc: Wcc,
    /// Whether what was to be set behind it is set.
    pub set: bool,
}

/// What a COMMIT was answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The server's verifier.
    pub verifier: Verifier,
    /// The file before and after.
    pub wcc: Wcc,
}

/// What happens to the cache. `E` is the owner's kind of error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<E> {
    /// A program reads; what the owner wants to know of the attributes it knows.
    Read {
        /// Who waits.
        ticket: Ticket,
        /// The file.
        file: ObjectKey,
        /// Where.
        offset: u64,
        /// How many bytes at most.
        count: u32,
    },
    /// A program writes.
    Write {
        /// Who waits.
        ticket: Ticket,
        /// The file.
        file: ObjectKey,
        /// Where.
        offset: u64,
        /// What.
        data: Bytes,
        /// The time of day.
        at: FileTime,
    },
    /// A program sets mode, times or a size that can be set here ([`Cache::can_resize`]); no more.
    Alter {
        /// The file.
        file: ObjectKey,
        /// What is set.
        set: SetAttributes,
        /// The time of day.
        at: FileTime,
    },
    /// A program is shown the attributes of a file ([`Cache::times`]): from then on the times in them
    /// are the times of the file, and the cache sends these times behind the written data.
    Show {
        /// The file.
        file: ObjectKey,
    },
    /// A program wants what was written before to be on stable storage.
    Sync {
        /// Who waits.
        ticket: Ticket,
        /// The file.
        file: ObjectKey,
    },
    /// The owner is about to change the file otherwise, and wants what was written before to be on
    /// stable storage, and nothing more to be written until [`Event::Release`].
    Hold {
        /// Who waits.
        ticket: Ticket,
        /// The file.
        file: ObjectKey,
    },
    /// The change for which the file was held is over.
    Release {
        /// The file.
        file: ObjectKey,
    },
    /// The file, whose attributes had been asked for, was cut, or made longer, to a size.
    Resized {
        /// The file.
        file: ObjectKey,
        /// Its size.
        size: u64,
    },
    /// Bytes are no longer what they were: they were written past the cache.
    Overwritten {
        /// The file.
        file: ObjectKey,
        /// Which.
        range: Range<u64>,
    },
    /// A file lies on many servers: read ahead less far than that, some of them would be idle.
    Spread {
        /// The file.
        file: ObjectKey,
        /// How far; an eighth of what may be cached at most.
        ahead: u64,
    },
    /// The data that is not saved is not wanted any more: nobody can read the file again.
    Discard {
        /// The file.
        file: ObjectKey,
    },
    /// The server told the attributes of an object.
    Observed {
        /// The object.
        object: ObjectKey,
        /// When that was asked.
        asked: Asked,
        /// The attributes.
        attributes: Attributes,
    },
    /// A change of the object is sent, other than a WRITE that was asked for here.
    BeginChange {
        /// The object.
        object: ObjectKey,
    },
    /// It was answered.
    EndChange {
        /// The object.
        object: ObjectKey,
        /// The object before and after.
        wcc: Wcc,
    },
    /// The server told what a name leads to, or it was changed.
    Named {
        /// The directory.
        directory: ObjectKey,
        /// The name.
        name: Box<[u8]>,
        /// What it leads to; none when there is no such name.
        target: Option<ObjectKey>,
        /// How that came to be known.
        source: Source,
        /// When it was asked; for a change of ours, when it was answered.
        asked: Asked,
    },
    /// The directory was made just now, and has no names yet.
    Empty {
        /// The directory.
        directory: ObjectKey,
    },
    /// A name may lead elsewhere now.
    Unnamed {
        /// The directory.
        directory: ObjectKey,
        /// The name.
        name: Box<[u8]>,
    },
    /// The attributes of an object are to be asked for before they are used again.
    Distrust {
        /// The object.
        object: ObjectKey,
    },
    /// What was known of the object is not good any more, and neither is what comes of questions
    /// from before: others may have changed it.
    Replaced {
        /// The object.
        object: ObjectKey,
    },
    /// The object is gone from the server, or may be another one: nothing clean is kept of it, and
    /// no name leads to it.
    Invalidate {
        /// The object.
        object: ObjectKey,
    },
    /// Nobody uses the object any more; nothing of it is kept.
    Forget {
        /// The object.
        object: ObjectKey,
    },
    /// A READ was answered.
    Fetched {
        /// The call.
        job: JobId,
        /// How.
        result: Result<Fetched, E>,
    },
    /// A WRITE was answered.
    Stored {
        /// The call.
        job: JobId,
        /// How.
        result: Result<Stored, E>,
    },
    /// A COMMIT was answered.
    Committed {
        /// The call.
        job: JobId,
        /// How.
        result: Result<Committed, E>,
    },
    /// A SETATTR was answered: the file before and after.
    Altered {
        /// The call.
        job: JobId,
        /// How.
        result: Result<Wcc, E>,
    },
    /// Time went on.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<E> {
    /// A READ is sent.
    Fetch {
        /// The call.
        job: JobId,
        /// The file.
        file: ObjectKey,
        /// Where.
        offset: u64,
        /// How many bytes.
        count: u32,
    },
    /// A WRITE is sent.
    Store {
        /// The call.
        job: JobId,
        /// The file.
        file: ObjectKey,
        /// Where.
        offset: u64,
        /// What.
        data: Bytes,
        /// Whether it is to be stable when it is answered.
        stable: bool,
        /// What is set behind it.
        set: Option<SetAttributes>,
    },
    /// A SETATTR is sent.
    Alter {
        /// The call.
        job: JobId,
        /// The file.
        file: ObjectKey,
        /// What is set.
        set: SetAttributes,
    },
    /// A COMMIT of the whole file is sent.
    Commit {
        /// The call.
        job: JobId,
        /// The file.
        file: ObjectKey,
    },
    /// What was read: fewer bytes than asked for only where the file ends.
    Read {
        /// Who waits.
        ticket: Ticket,
        /// The bytes in order.
        result: Result<Vec<Bytes>, E>,
    },
    /// A write was taken.
    Wrote {
        /// Who waits.
        ticket: Ticket,
    },
    /// What was written before is on stable storage, or has failed: see [`Cache::failure`].
    Synced {
        /// Who waits.
        ticket: Ticket,
    },
    /// The server refused bytes that programs wrote here, and the cache has given up the bytes. The
    /// bytes are from the last write of a program to this place.
    Refused {
        /// The file.
        file: ObjectKey,
        /// Where the bytes belong.
        offset: u64,
        /// The bytes.
        data: Bytes,
        /// The server's reason to refuse the bytes.
        error: E,
    },
    /// The file can be changed.
    Held {
        /// Who waits.
        ticket: Ticket,
        /// The file.
        file: ObjectKey,
    },
    /// No name leads to the object any more.
    Idle {
        /// The object.
        object: ObjectKey,
    },
}

/// What was counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes that the server had lost and that were written again.
    pub rewritten_bytes: u64,
    /// Bytes that were evicted.
    pub evicted_bytes: u64,
    /// Bytes that the server refused, and that the cache has given up.
    pub refused_bytes: u64,
    /// Writes that had to wait.
    pub held_writes: u64,
}

/// One mount's cache.
#[derive(Clone, Debug)]
pub struct Cache<E> {
    options: Options,
    objects: BTreeMap<ObjectKey, Object<E>>,
    names: Names,
    /// Counts questions, changes and writes.
    serial: Serial,
    /// The calls on their way; of a file that was forgotten meanwhile, without it.
    jobs: BTreeMap<JobId, Option<ObjectKey>>,
    next_job: u64,
    /// Files that an event changed, so that somebody may be to be answered.
    touched: BTreeSet<ObjectKey>,
    /// Files that may have something to call for: many, while no more calls may be on their way.
    hungry: BTreeSet<ObjectKey>,
    /// The file that called last.
    turn: ObjectKey,
    /// Writes that wait, oldest first.
    held: VecDeque<HeldWrite>,
    /// Files that have unsaved data, and since when.
    unsaved: BTreeMap<ObjectKey, Time>,
    /// Those of them that nothing is sent of yet unless somebody waits for it, the oldest first.
    delayed: BTreeSet<(Time, ObjectKey)>,
    /// Files that have data.
    filled: BTreeSet<ObjectKey>,
    bytes: u64,
    unsaved_bytes: u64,
    /// Where the last round of eviction stopped.
    hand: (ObjectKey, u64),
    /// The largest WRITE that the server takes as a whole, as far as that is known.
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

#[derive(Clone, Debug)]
struct HeldWrite {
    ticket: Ticket,
    file: ObjectKey,
    offset: u64,
    data: Bytes,
    at: FileTime,
}

/// More than this is audited in the owner's tests only.
const AUDITED_MAX: usize = 64;

impl<E: Clone> Cache<E> {
    /// Starts empty.
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

    /// Takes one event, and appends what is to be done in order.
    ///
    /// # Panics
    /// When a call is answered that was not asked for, or a file is released that was not held.
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

    /// When time alone will be an event.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        self.delayed.first().map(|(since, _)| *since + self.options.write_delay)
    }

    /// The moment of a question to the server, to be told along with what it answers.
    pub fn ask(&mut self, now: Time) -> Asked {
        Asked { time: now, serial: self.tick_serial() }
    }

    /// What kind of object it is, where anything is known of it.
    #[must_use]
    pub fn file_type(&self, object: ObjectKey) -> Option<FileType> {
        let known = self.objects.get(&object)?.known.attributes()?;
        Some(known.file_type)
    }

    /// Whether what comes of a question is no older than what is known: nothing of ours has changed
    /// the object since it was asked, or may have.
    #[must_use]
    pub fn is_current(&self, object: ObjectKey, asked: Asked) -> bool {
        self.objects
            .get(&object)
            .is_none_or(|object| !object.known.is_changing() && !object.known.is_outdated(asked))
    }

    /// What a name leads to, where that is known and can be trusted; the inner none is an absent
    /// name.
    pub fn find(
        &mut self,
        now: Time,
        directory: ObjectKey,
        name: &[u8],
    ) -> Option<Option<ObjectKey>> {
        let trusted = self.objects.get(&directory)?.known.trusted_for(now);
        if trusted.is_zero() { None } else { self.names.find(directory, name) }
    }

    /// Whether a name leads to the object.
    #[must_use]
    pub fn is_named(&self, object: ObjectKey) -> bool {
        self.names.lead_to(object)
    }

    /// How many failures to save a file's data there were, and the last.
    #[must_use]
    pub fn failure(&self, file: ObjectKey) -> (u64, Option<E>) {
        self.objects.get(&file).map_or((0, None), |object| object.file.failures.clone())
    }

    /// How often somebody else may have changed a file's data: whoever keeps a copy of what was read
    /// here has a good one for as long as this stays.
    #[must_use]
    pub fn replaced(&self, file: ObjectKey) -> u64 {
        self.objects.get(&file).map_or(0, |object| object.file.dropped)
    }

    /// True if the server lacks a mode or times that programs set or saw here.
    #[must_use]
    pub fn is_altered(&self, file: ObjectKey) -> bool {
        self.objects.get(&file).is_some_and(|object| object.file.altered.is_some())
    }

    /// True if the server lacks a mode that a program set here.
    #[must_use]
    pub fn is_mode_altered(&self, file: ObjectKey) -> bool {
        let altered = self.objects.get(&file).and_then(|object| object.file.altered.as_ref());
        altered.is_some_and(altered::Altered::sets_mode)
    }

    /// Whether the server may lose some of a file's data, or does not have all that was set of it.
    #[must_use]
    pub fn is_unsaved(&self, file: ObjectKey) -> bool {
        self.unsaved.contains_key(&file) || self.held.iter().any(|write| write.file == file)
    }

    /// The files that the server may lose data of, or does not have.
    #[must_use]
    pub fn unsaved_objects(&self) -> Vec<ObjectKey> {
        let held = self.held.iter().map(|write| write.file);
        self.unsaved.keys().copied().chain(held).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// What was counted so far.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// The bytes of data here, and of those that are unsaved.
    #[must_use]
    pub const fn bytes(&self) -> (u64, u64) {
        (self.bytes, self.unsaved_bytes)
    }

    /// The number of names here.
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

    /// Somebody else changed an object: what was cached of its content is not good any more.
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
        // The owner hears of an object that no name leads to, also when this one was not kept.
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
        // It may come to be known anew before they are answered.
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
