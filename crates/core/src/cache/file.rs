//! The data of one file, and what is being done about it.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use leasehold_base::attributes::{Attributes, SetAttributes};
use leasehold_base::units::FileTime;

use super::altered::Altered;
use super::extents::{Extents, in_memory};
use super::{Asked, JobId, Options, Serial, Ticket};

/// One file's data; of a directory or a link, nothing.
#[derive(Clone, Debug)]
pub(super) struct File<E> {
    pub(super) extents: Extents,
    /// Reads that wait for bytes.
    pub(super) readers: Vec<Reader>,
    /// READs on their way.
    pub(super) fetches: BTreeMap<JobId, Fetch>,
    /// WRITEs on their way.
    pub(super) writes: BTreeMap<JobId, Range<u64>>,
    /// A COMMIT on its way.
    pub(super) commit: Option<JobId>,
    /// Calls of what was discarded while they were on their way: a failure is nobody's loss.
    pub(super) unheeded: BTreeSet<JobId>,
    /// What was set here, if that is not at the server.
    pub(super) altered: Option<Altered>,
    /// Who waits for what was written up to then.
    pub(super) syncs: Vec<(Ticket, Serial)>,
    /// What was written up to then is sent without anybody waiting.
    pub(super) background: Option<Serial>,
    /// Changes that wait for each other; the first is under way when the file is held.
    pub(super) holds: VecDeque<Ticket>,
    pub(super) held: bool,
    /// Where a READ found the end, when that was not where the attributes have it.
    pub(super) end: Option<u64>,
    pub(super) ahead: Ahead,
    /// How many failures to save there were, and the last.
    pub(super) failures: (u64, Option<E>),
    /// When a program last wrote here.
    pub(super) modified: FileTime,
    /// The change time that programs were shown since the file last changed here.
    pub(super) shown: Option<ShownChange>,
    /// How often what is clean was dropped, as it may not be what the server has.
    pub(super) dropped: u64,
    /// How many bytes and unsaved bytes the whole cache has counted here.
    pub(super) counted: (u64, u64),
}

/// A change time that programs were shown before the server had the change. No call sets a change
/// time: the server chooses another time when the server takes the change.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShownChange {
    shown: FileTime,
    /// The change time at the server that means the same state of the file.
    there: FileTime,
}

/// A read that waits for bytes.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub(super) ticket: Ticket,
    pub(super) range: Range<u64>,
}

/// A READ on its way.
#[derive(Clone, Debug)]
pub(super) struct Fetch {
    pub(super) range: Range<u64>,
    pub(super) asked: Asked,
    /// Where its answer is not to be believed: the bytes have changed since.
    pub(super) holes: Vec<Range<u64>>,
}

/// How a file is read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ahead {
    /// Where a reader in order goes on.
    next: u64,
    /// How far is read ahead.
    window: u64,
    /// The same while it is streamed from many servers.
    spread: u64,
    /// Whether it is read in order, as much at once as a READ carries.
    is_streamed: bool,
    /// Up to where bytes are wanted though nobody waits for them.
    pub(super) goal: u64,
}

/// The first step of reading ahead: what kernels ask for at once.
const AHEAD_MIN: u64 = 128 << 10;

impl Ahead {
    /// A program reads.
    pub(super) fn read(&mut self, range: &Range<u64>, options: &Options) {
        let count = range.end - range.start;
        self.is_streamed = range.start == self.next && count >= u64::from(options.read_bytes);
        if range.start == self.next {
            self.window = (self.window * 2).clamp(AHEAD_MIN, AHEAD_MIN.max(options.ahead_bytes));
            self.window = self.window.min(options.ahead_bytes);
            self.next = range.end;
            self.want(options);
        } else {
            (self.window, self.goal) = (0, 0);
            self.next = range.end;
        }
    }

    /// The file lies on many servers.
    pub(super) fn spread(&mut self, ahead: u64, options: &Options) {
        self.spread = ahead;
        if self.goal > 0 {
            self.want(options);
        }
    }

    fn want(&mut self, options: &Options) {
        // Who takes as much at once as a READ carries goes on: it is not tried out how far.
        let window = if self.is_streamed { self.window.max(self.spread) } else { self.window };
        // Whole READs: not one for each step of the reader.
        let goal = self.next + window;
        self.goal = goal - goal % u64::from(options.read_bytes);
    }

    /// Where what is wanted ahead begins.
    pub(super) const fn behind(&self) -> u64 {
        self.next
    }

    /// Nothing is wanted that nobody waits for, until a program reads.
    pub(super) const fn stop(&mut self) {
        self.goal = 0;
    }

    /// Whether the file is read in order.
    pub(super) const fn is_in_order(&self) -> bool {
        self.window > 0
    }
}

impl<E> Default for File<E> {
    fn default() -> Self {
        Self {
            extents: Extents::default(),
            readers: Vec::new(),
            fetches: BTreeMap::new(),
            writes: BTreeMap::new(),
            commit: None,
            unheeded: BTreeSet::new(),
            altered: None,
            syncs: Vec::new(),
            background: None,
            holds: VecDeque::new(),
            held: false,
            end: None,
            ahead: Ahead::default(),
            failures: (0, None),
            modified: FileTime::default(),
            shown: None,
            dropped: 0,
            counted: (0, 0),
        }
    }
}

impl<E> File<E> {
    /// All bytes, and those that are unsaved.
    pub(super) const fn bytes(&self) -> (u64, u64) {
        (self.extents.bytes(), self.extents.unsaved_bytes())
    }

    /// How many calls are on their way.
    pub(super) fn calls(&self) -> usize {
        let alone = self.altering().is_some_and(|job| !self.writes.contains_key(&job));
        let commit = self.commit.is_some();
        self.fetches.len() + self.writes.len() + usize::from(commit) + usize::from(alone)
    }

    /// The call by which what was set here is on its way.
    fn altering(&self) -> Option<JobId> {
        self.altered.as_ref().and_then(Altered::sent)
    }

    /// Whether the server does not have all that was written and set here, or may lose some.
    pub(super) const fn is_unsaved(&self) -> bool {
        self.extents.unsaved_bytes() > 0 || self.altered.is_some()
    }

    /// The same of what was written and set up to then.
    pub(super) fn is_unsaved_since(&self, serial: Serial) -> bool {
        let altered = self.altered.is_some_and(|altered| altered.is_unsaved(serial));
        altered || self.extents.is_unsaved(serial)
    }

    /// Whether a change of the file is under way or waits, so that no program may write; so does
    /// what was set here and somebody wants saved, which is behind all that is written.
    pub(super) fn is_closed_to_writes(&self) -> bool {
        let wanted = self.syncs.iter().map(|(_, serial)| *serial).chain(self.background).max();
        let is_wanted = |altered: &Altered| {
            let waits = altered.is_asked_for() && altered.sent().is_none();
            waits && wanted.is_some_and(|serial| altered.is_unsaved(serial))
        };
        !self.holds.is_empty() || self.altered.as_ref().is_some_and(is_wanted)
    }

    /// Whether all that is dirty is to go out.
    pub(super) fn is_pushing(&self) -> bool {
        !self.syncs.is_empty() || self.background.is_some() || !self.holds.is_empty()
    }

    /// The oldest serial up to which somebody wants all to be saved.
    pub(super) fn wanted_stable(&self) -> Option<Serial> {
        let all = self.awaits_hold().then_some(Serial(u64::MAX));
        self.syncs.iter().map(|(_, serial)| *serial).chain(self.background).chain(all).min()
    }

    /// Whether a change of the file waits for what was written before.
    fn awaits_hold(&self) -> bool {
        !self.held && !self.holds.is_empty()
    }

    /// Whether the change that waits can begin: all is on stable storage.
    pub(super) fn can_be_held(&self) -> bool {
        self.altered.is_none() && self.is_at_rest()
    }

    /// Whether all data is on stable storage, and nothing on its way there.
    fn is_at_rest(&self) -> bool {
        self.extents.unsaved_bytes() == 0 && self.writes.is_empty() && self.commit.is_none()
    }

    /// Whether what was set is to go out by a call of its own.
    pub(super) fn is_alteration_due(&self) -> bool {
        let waits = self.altered.is_some_and(|altered| altered.sent().is_none());
        waits && self.is_pushing() && !self.held && self.is_at_rest()
    }

    /// What goes out with this call.
    pub(super) fn send_alteration(&mut self, job: JobId) -> Option<SetAttributes> {
        self.altered.as_mut().map(|altered| altered.send(job))
    }

    /// Whether a size can be set here of a file that has this one at the server: no WRITE that may
    /// reach beyond it is on its way, nor another size.
    pub(super) fn can_resize(&self, there: u64, size: u64) -> bool {
        let is_quiet = self.writes.is_empty() && self.altering().is_none();
        there <= size && is_quiet && self.holds.is_empty()
    }

    /// Mode, times or size are set here.
    pub(super) fn alter(&mut self, set: &SetAttributes, at: FileTime, serial: Serial) {
        if let Some(size) = set.size {
            self.overwrite(size..u64::MAX);
        }
        match &mut self.altered {
            Some(altered) => altered.set(set, at, serial),
            None => self.altered = Some(Altered::new(*set, at, serial)),
        }
        self.shown = None;
    }

    /// True if the server would choose another time of reading or of modification than programs see
    /// here, if the cache sent the file in its present state.
    pub(super) fn estimates_times(&self) -> bool {
        let altered = self.altered.as_ref();
        let is_fixed = altered.is_some_and(Altered::fixes_modified);
        altered.is_some_and(Altered::leaves_times_open) || (self.is_written() && !is_fixed)
    }

    /// True if the server lacks bytes that programs wrote.
    pub(super) fn is_written(&self) -> bool {
        self.extents.has_dirty() || !self.writes.is_empty()
    }

    /// A program is shown the attributes `shown` of a file that has the change time `there` at the
    /// server: the times in the attributes are the times of the file from then on.
    pub(super) fn show(&mut self, shown: &Attributes, there: FileTime, serial: Serial) {
        if self.is_unsaved() && self.shown.is_none() {
            self.shown = Some(ShownChange { shown: shown.changed, there });
        }
        if !self.estimates_times() {
            return;
        }
        let was_written = self.is_written();
        match &mut self.altered {
            Some(altered) => altered.fix(shown, was_written, serial),
            None => self.altered = Some(Altered::of_shown(shown, serial)),
        }
    }

    /// The change time that programs see, of a file with the change time `there` at the server.
    pub(super) fn changed(&self, there: FileTime) -> Option<FileTime> {
        self.shown.filter(|shown| shown.there == there).map(|shown| shown.shown)
    }

    /// The server took data or attributes that programs wrote or set here, and had the change times
    /// `before` and `after`.
    pub(super) fn took(&mut self, before: FileTime, after: FileTime) {
        if let Some(shown) = self.shown.as_mut().filter(|shown| shown.there == before) {
            shown.there = after;
        }
    }

    /// The call was answered by which what was set was on its way; the server has it, or refuses
    /// it, or it goes out once more. Says which size went with it, if one did.
    pub(super) fn end_alteration(&mut self, job: JobId, is_over: bool) -> Option<u64> {
        if self.altering() != Some(job) {
            return None;
        }
        let size = self.altered.as_ref().and_then(Altered::sent_size);
        self.altered.take_if(|altered| altered.end(is_over));
        size
    }

    /// Nobody can see the file again.
    pub(super) fn discard(&mut self) {
        self.overwrite(0..u64::MAX);
        self.altered.take_if(|altered| altered.sent().is_none());
        let calls = self.writes.keys().copied().chain(self.commit).chain(self.altering());
        self.unheeded = calls.collect();
    }

    pub(super) fn release(&mut self) {
        assert!(core::mem::take(&mut self.held), "the file was held");
        self.holds.pop_front();
    }

    /// The end of the bytes that the server does not have or may have lost.
    pub(super) fn unsaved_end(&self) -> u64 {
        self.extents.unsaved_end()
    }

    /// Bytes that a program wrote.
    pub(super) fn write(
        &mut self,
        offset: u64,
        data: &Bytes,
        (serial, at): (Serial, FileTime),
        chunk: u64,
    ) {
        let end = offset + data.len() as u64;
        self.extents.write(offset, data, serial, chunk);
        self.distrust_answers(&(offset..end));
        (self.modified, self.end, self.shown) = (at, None, None);
        self.altered.take_if(|altered| altered.written(end));
    }

    /// A program is about to write behind the end: what lies between is zeros.
    pub(super) fn fill_gap(
        &mut self,
        gap: Range<u64>,
        when: (Serial, FileTime),
        options: &Options,
    ) {
        let length = gap.end - gap.start;
        if length > GAP_BYTES_MAX {
            return;
        }
        let zeros = Bytes::from(vec![0; in_memory(length)]);
        if options.writes_gaps && length < BLOCK_BYTES {
            self.write(gap.start, &zeros, when, u64::from(options.write_bytes));
        } else {
            self.extents.fill(gap.start, &zeros);
        }
    }

    /// Bytes that are no longer what they were.
    pub(super) fn overwrite(&mut self, range: Range<u64>) {
        self.distrust_answers(&range);
        self.extents.remove(range);
        self.end = None;
    }

    /// Somebody else changed the file.
    pub(super) fn drop_clean(&mut self) {
        self.distrust_answers(&(0..u64::MAX));
        self.extents.remove_clean();
        self.ahead.stop();
        self.end = None;
        self.dropped += 1;
    }

    fn distrust_answers(&mut self, range: &Range<u64>) {
        for fetch in self.fetches.values_mut().filter(|fetch| overlap(&fetch.range, range)) {
            fetch.holes.push(range.clone());
            if fetch.holes.len() > HOLES_MAX {
                fetch.holes = vec![fetch.range.clone()];
            }
        }
    }

    /// Takes what a READ brought, where it can be believed. What lies between the server's end and
    /// bytes that it does not have yet reads as zeros.
    pub(super) fn fill(&mut self, fetch: &Fetch, data: &Bytes, end: bool) {
        let length = (data.len() as u64).min(fetch.range.end - fetch.range.start);
        let reached = fetch.range.start + length;
        self.fill_around_holes(fetch, fetch.range.start, &data.slice(..in_memory(length)));
        if end && reached < fetch.range.end {
            let zeros_end = self.reach().min(fetch.range.end);
            if reached < zeros_end {
                let zeros = Bytes::from(vec![0; in_memory(zeros_end - reached)]);
                self.fill_around_holes(fetch, reached, &zeros);
            }
            if fetch.holes.is_empty() {
                self.end = Some(reached);
            }
        }
    }

    fn fill_around_holes(&mut self, fetch: &Fetch, offset: u64, data: &Bytes) {
        let mut holes = fetch.holes.clone();
        holes.sort_by_key(|hole| hole.start);
        let end = offset + data.len() as u64;
        let mut at = offset;
        for hole in holes.iter().chain([&(end..end)]) {
            let until = hole.start.clamp(at, end);
            if at < until {
                let part = in_memory(at - offset)..in_memory(until - offset);
                self.extents.fill(at, &data.slice(part));
            }
            at = at.max(hole.end.min(end));
        }
    }

    /// Where the file ends for programs here, when its attributes say `size`.
    pub(super) fn end(&self, size: Option<u64>) -> u64 {
        let there = size.unwrap_or(u64::MAX).min(self.end.unwrap_or(u64::MAX));
        there.max(self.reach())
    }

    /// Up to where it reaches by what the server does not have.
    fn reach(&self) -> u64 {
        let set = self.altered.as_ref().map_or(0, Altered::reach);
        self.extents.unsaved_end().max(set)
    }

    /// Bytes of `range` that are neither here nor on their way; the first gap.
    pub(super) fn unasked(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let mut at = range.start;
        while at < range.end {
            let gap = self.extents.missing(at..range.end).into_iter().next()?;
            let mut asked: Vec<&Range<u64>> =
                self.fetches.values().map(|fetch| &fetch.range).collect();
            asked.sort_by_key(|asked| asked.start);
            let mut start = gap.start;
            for asked in asked {
                if asked.start <= start && start < asked.end {
                    start = asked.end;
                } else if start < asked.start && asked.start < gap.end && start < gap.end {
                    return Some(start..asked.start);
                }
            }
            if start < gap.end {
                return Some(start..gap.end);
            }
            at = start;
        }
        None
    }

    /// The part of `wide` around `at` that is neither here nor on its way.
    pub(super) fn unasked_around(&self, wide: &Range<u64>, at: u64) -> Range<u64> {
        let mut start = wide.start;
        while let Some(gap) = self.unasked(&(start..wide.end)) {
            if gap.contains(&at) {
                return gap;
            }
            start = gap.end;
        }
        at..wide.end
    }

    /// Dirty bytes that may go out now.
    pub(super) fn due_write(&self, chunk: u64) -> Option<Range<u64>> {
        if self.held || self.altering().is_some() {
            return None;
        }
        let mut from = 0;
        loop {
            let run = self.extents.next_dirty(from, chunk, !self.is_pushing())?;
            if !self.writes.values().any(|write| overlap(write, &run)) {
                return Some(run);
            }
            from = run.end;
        }
    }

    pub(super) fn check(&self, options: &Options) {
        self.extents.check();
        assert!(self.calls() <= options.calls_of_file_max, "calls for a file are bounded");
        assert!(!self.held || !self.holds.is_empty(), "a file is held for somebody");
        let is_called = |job: &JobId| {
            self.writes.contains_key(job) || [self.commit, self.altering()].contains(&Some(*job))
        };
        assert!(self.unheeded.iter().all(is_called), "what is not heeded is on its way");
        let mut writes: Vec<&Range<u64>> = self.writes.values().collect();
        writes.sort_by_key(|write| write.start);
        let apart = writes.windows(2).all(|pair| pair[0].end <= pair[1].start);
        assert!(apart, "two WRITEs of the same bytes are never on their way at once");
    }
}

/// A longer gap takes more memory than a READ is worth.
const GAP_BYTES_MAX: u64 = 64 << 10;

/// A gap that is shorter leaves no block of a file system out.
const BLOCK_BYTES: u64 = 4096;

/// So many changes are kept apart while one READ is on its way; with more, all of its answer is
/// not believed.
const HOLES_MAX: usize = 64;

pub(super) fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}
