//! The data of one file, and the pending calls for it.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use leasehold_base::attributes::{Attributes, SetAttributes};
use leasehold_base::units::FileTime;

use super::altered::Altered;
use super::extents::{Extents, in_memory};
use super::{Asked, JobId, Options, Serial, Ticket};

/// The data of one file; empty for a directory or a link.
#[derive(Clone, Debug)]
pub(super) struct File<E> {
    pub(super) extents: Extents,
    /// The reads of programs that wait for bytes.
    pub(super) readers: Vec<Reader>,
    /// The READs in transit.
    pub(super) fetches: BTreeMap<JobId, Fetch>,
    /// The WRITEs in transit, each with the range of its bytes.
    pub(super) writes: BTreeMap<JobId, Range<u64>>,
    /// The COMMIT in transit.
    pub(super) commit: Option<JobId>,
    /// Calls whose data was discarded while they were in transit: their failure is not recorded.
    pub(super) unheeded: BTreeSet<JobId>,
    /// Attributes that were set here and that the server lacks.
    pub(super) altered: Option<Altered>,
    /// The requests that wait until all writes up to a serial are saved.
    pub(super) syncs: Vec<(Ticket, Serial)>,
    /// All writes up to this serial must be sent now, although no request waits for them.
    pub(super) background: Option<Serial>,
    /// The changes of the file that the owner is about to make, in order ([`super::Event::Hold`]).
    /// While `held` is true, the first change is in progress.
    pub(super) holds: VecDeque<Ticket>,
    /// True while the owner changes the file, so that no WRITE may be sent.
    pub(super) held: bool,
    /// The end of the file that a READ found after the attributes were received.
    pub(super) end: Option<u64>,
    pub(super) ahead: Ahead,
    /// The number of failures to save, and the last error.
    pub(super) failures: (u64, Option<E>),
    /// The time of a program's last write here.
    pub(super) modified: FileTime,
    /// The change time that programs were shown since the file last changed here.
    pub(super) shown: Option<ShownChange>,
    /// The number of times that clean data was dropped because the server's data may differ.
    pub(super) dropped: u64,
    /// The bytes and unsaved bytes that are included in the totals of the cache.
    pub(super) counted: (u64, u64),
}

/// A change time that programs saw before the server had the change. No call sets a change time:
/// the server chooses another change time when it makes the change.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShownChange {
    shown: FileTime,
    /// The server's change time for the same state of the file.
    there: FileTime,
}

/// A read that waits for bytes.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub(super) ticket: Ticket,
    pub(super) range: Range<u64>,
}

/// A READ in transit.
#[derive(Clone, Debug)]
pub(super) struct Fetch {
    pub(super) range: Range<u64>,
    pub(super) asked: Asked,
    /// Ranges that changed after the READ was sent. The reply is ignored in these ranges.
    pub(super) holes: Vec<Range<u64>>,
}

/// The access pattern of a file's readers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ahead {
    /// The offset at which a sequential reader continues.
    next: u64,
    /// The read-ahead window in bytes.
    window: u64,
    /// The window for a file that is striped over many servers.
    spread: u64,
    /// True if the file is read sequentially, in pieces of at least a READ's size.
    is_streamed: bool,
    /// The end of the range that is read ahead.
    pub(super) goal: u64,
}

/// The first read-ahead window: the size that kernels request at once.
const AHEAD_MIN: u64 = 128 << 10;

impl Ahead {
    /// Rule 10: handles a program's read: a sequential read doubles the read-ahead window.
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

    /// Handles the report that the file is striped over many servers.
    pub(super) fn spread(&mut self, ahead: u64, options: &Options) {
        self.spread = ahead;
        if self.goal > 0 {
            self.want(options);
        }
    }

    fn want(&mut self, options: &Options) {
        // A program that reads such large pieces in sequence is expected to continue, so the window
        // need not grow step by step.
        let window = if self.is_streamed { self.window.max(self.spread) } else { self.window };
        // The goal is a multiple of a READ's size, so that the cache does not send a small READ
        // after each read of the program.
        let goal = self.next + window;
        self.goal = goal - goal % u64::from(options.read_bytes);
    }

    /// Returns the offset at which read-ahead begins.
    pub(super) const fn behind(&self) -> u64 {
        self.next
    }

    /// Stops read-ahead until a program reads.
    pub(super) const fn stop(&mut self) {
        self.goal = 0;
    }

    /// Returns true if the file is read sequentially.
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
    /// Returns the number of bytes, and the number of unsaved bytes.
    pub(super) const fn bytes(&self) -> (u64, u64) {
        (self.extents.bytes(), self.extents.unsaved_bytes())
    }

    /// Returns the number of calls in transit.
    pub(super) fn calls(&self) -> usize {
        let alone = self.altering().is_some_and(|job| !self.writes.contains_key(&job));
        let commit = self.commit.is_some();
        self.fetches.len() + self.writes.len() + usize::from(commit) + usize::from(alone)
    }

    /// Returns the call that carries the attributes that were set here.
    fn altering(&self) -> Option<JobId> {
        self.altered.as_ref().and_then(Altered::sent)
    }

    /// Returns true if the server lacks, or may lose, data or attributes that were written or set
    /// here.
    pub(super) const fn is_unsaved(&self) -> bool {
        self.extents.unsaved_bytes() > 0 || self.altered.is_some()
    }

    /// Returns true if the server lacks, or may lose, data or attributes up to a serial.
    pub(super) fn is_unsaved_since(&self, serial: Serial) -> bool {
        let altered = self.altered.is_some_and(|altered| altered.is_unsaved(serial));
        altered || self.extents.is_unsaved(serial)
    }

    /// Returns true if no program may write: a change of the file is in progress or waits, or a
    /// waiting request needs attributes that were set here, which are sent after all written data.
    pub(super) fn is_closed_to_writes(&self) -> bool {
        let wanted = self.syncs.iter().map(|(_, serial)| *serial).chain(self.background).max();
        let is_wanted = |altered: &Altered| {
            let waits = altered.is_asked_for() && altered.sent().is_none();
            waits && wanted.is_some_and(|serial| altered.is_unsaved(serial))
        };
        !self.holds.is_empty() || self.altered.as_ref().is_some_and(is_wanted)
    }

    /// Returns true if all dirty data must be sent.
    pub(super) fn is_pushing(&self) -> bool {
        !self.syncs.is_empty() || self.background.is_some() || !self.holds.is_empty()
    }

    /// Returns the oldest serial up to which a request needs all data to be saved.
    pub(super) fn wanted_stable(&self) -> Option<Serial> {
        let all = self.awaits_hold().then_some(Serial(u64::MAX));
        self.syncs.iter().map(|(_, serial)| *serial).chain(self.background).chain(all).min()
    }

    /// Returns true if a change of the file waits for earlier data.
    fn awaits_hold(&self) -> bool {
        !self.held && !self.holds.is_empty()
    }

    /// Returns true if the waiting change can begin: all data is on stable storage.
    pub(super) fn can_be_held(&self) -> bool {
        self.altered.is_none() && self.is_at_rest()
    }

    /// Returns true if all data is on stable storage, and no WRITE or COMMIT of the file is in
    /// transit.
    fn is_at_rest(&self) -> bool {
        self.extents.unsaved_bytes() == 0 && self.writes.is_empty() && self.commit.is_none()
    }

    /// Rule 13: returns true if the attributes must be sent by a call of their own: earlier data is
    /// saved and no WRITE is in transit.
    pub(super) fn is_alteration_due(&self) -> bool {
        let waits = self.altered.is_some_and(|altered| altered.sent().is_none());
        waits && self.is_pushing() && !self.held && self.is_at_rest()
    }

    /// Marks the attributes as sent with this call, and returns them.
    pub(super) fn send_alteration(&mut self, job: JobId) -> Option<SetAttributes> {
        self.altered.as_mut().map(|altered| altered.send(job))
    }

    /// Returns true if this cache can set the size of a file that has size `there` at the server:
    /// the server has no data beyond the new size, no WRITE and no other attributes are in transit,
    /// and the owner is not about to change the file.
    pub(super) fn can_resize(&self, there: u64, size: u64) -> bool {
        let is_quiet = self.writes.is_empty() && self.altering().is_none();
        there <= size && is_quiet && self.holds.is_empty()
    }

    /// Sets mode, times or size here.
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

    /// Returns true if the access or modification time that programs see here is an estimate: the
    /// server would choose another time when it receives the unsaved data or attributes.
    pub(super) fn estimates_times(&self) -> bool {
        let altered = self.altered.as_ref();
        let is_fixed = altered.is_some_and(Altered::fixes_modified);
        altered.is_some_and(Altered::leaves_times_open) || (self.is_written() && !is_fixed)
    }

    /// Returns true if the server lacks bytes that programs wrote.
    pub(super) fn is_written(&self) -> bool {
        self.extents.has_dirty() || !self.writes.is_empty()
    }

    /// Records that a program saw the attributes `shown` of a file whose change time at the server
    /// is `there`: the times in `shown` are the file's times from then on.
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

    /// Returns the change time that programs see, of a file with change time `there` at the server.
    pub(super) fn changed(&self, there: FileTime) -> Option<FileTime> {
        self.shown.filter(|shown| shown.there == there).map(|shown| shown.shown)
    }

    /// Records that the server accepted data or attributes of this cache, which moved the change
    /// time from `before` to `after`.
    pub(super) fn took(&mut self, before: FileTime, after: FileTime) {
        if let Some(shown) = self.shown.as_mut().filter(|shown| shown.there == before) {
            shown.there = after;
        }
    }

    /// Ends the call that carried the attributes. They are saved or refused if `is_over`, and sent
    /// again otherwise. Returns the size that the call carried, if any.
    pub(super) fn end_alteration(&mut self, job: JobId, is_over: bool) -> Option<u64> {
        if self.altering() != Some(job) {
            return None;
        }
        let size = self.altered.as_ref().and_then(Altered::sent_size);
        self.altered.take_if(|altered| altered.end(is_over));
        size
    }

    /// Discards all data: no program can read the file again.
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

    /// Returns the end of the bytes that the server lacks or may have lost.
    pub(super) fn unsaved_end(&self) -> u64 {
        self.extents.unsaved_end()
    }

    /// Stores bytes that a program wrote.
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

    /// Rule 14: fills the gap before a write beyond the end of the file with zeros. A gap above
    /// `GAP_BYTES_MAX` stays uncached, and a later read of it sends a READ.
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
        // Rule 14: a gap within a block is sent with the data around it, and does not split a
        // WRITE.
        if options.writes_gaps && length < BLOCK_BYTES {
            self.write(gap.start, &zeros, when, u64::from(options.write_bytes));
        } else {
            self.extents.fill(gap.start, &zeros);
        }
    }

    /// Drops the cached bytes of a range that was changed without the cache.
    pub(super) fn overwrite(&mut self, range: Range<u64>) {
        self.distrust_answers(&range);
        self.extents.remove(range);
        self.end = None;
    }

    /// Drops clean data, because another client changed the file.
    pub(super) fn drop_clean(&mut self) {
        self.distrust_answers(&(0..u64::MAX));
        self.extents.remove_clean();
        self.ahead.stop();
        self.end = None;
        self.dropped += 1;
    }

    /// Rule 11: excludes a range from the replies to the READs in transit, because its bytes have
    /// changed.
    fn distrust_answers(&mut self, range: &Range<u64>) {
        for fetch in self.fetches.values_mut().filter(|fetch| overlap(&fetch.range, range)) {
            fetch.holes.push(range.clone());
            if fetch.holes.len() > HOLES_MAX {
                fetch.holes = vec![fetch.range.clone()];
            }
        }
    }

    /// Stores the data of a READ, except in the holes. The range between the server's end of file
    /// and unsaved bytes reads as zeros.
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

    /// Returns the end of the file for programs here, if its attributes contain `size`.
    pub(super) fn end(&self, size: Option<u64>) -> u64 {
        let there = size.unwrap_or(u64::MAX).min(self.end.unwrap_or(u64::MAX));
        there.max(self.reach())
    }

    /// Returns the larger offset of two: the end of the data, and the file size, that the server
    /// lacks.
    fn reach(&self) -> u64 {
        let set = self.altered.as_ref().map_or(0, Altered::reach);
        self.extents.unsaved_end().max(set)
    }

    /// Returns the first gap of `range` that is neither cached nor requested.
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

    /// Returns the part of `wide` around `at` that is neither cached nor requested.
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

    /// Returns dirty bytes that may be sent now.
    pub(super) fn due_write(&self, chunk: u64) -> Option<Range<u64>> {
        if self.held || self.altering().is_some() {
            return None;
        }
        let mut from = 0;
        loop {
            // Rule 5: dirty data is sent when it fills a WRITE, and otherwise only when all dirty
            // data of the file must be sent.
            let run = self.extents.next_dirty(from, chunk, !self.is_pushing())?;
            // Rule 6: bytes of a WRITE in transit are not sent by another WRITE.
            if !self.writes.values().any(|write| overlap(write, &run)) {
                return Some(run);
            }
            from = run.end;
        }
    }

    pub(super) fn check(&self, options: &Options) {
        self.extents.check();
        assert!(self.calls() <= options.calls_of_file_max, "calls for a file are bounded");
        assert!(!self.held || !self.holds.is_empty(), "a held file has a pending change");
        let is_called = |job: &JobId| {
            self.writes.contains_key(job) || [self.commit, self.altering()].contains(&Some(*job))
        };
        assert!(self.unheeded.iter().all(is_called), "ignored calls are in transit");
        let mut writes: Vec<&Range<u64>> = self.writes.values().collect();
        writes.sort_by_key(|write| write.start);
        let apart = writes.windows(2).all(|pair| pair[0].end <= pair[1].start);
        assert!(apart, "two WRITEs of the same bytes are never in transit at once");
    }
}

/// The maximum length of a gap that is filled with zeros. For a longer gap a READ costs less than
/// the memory for the zeros.
const GAP_BYTES_MAX: u64 = 64 << 10;

/// The usual block size of file systems. A gap that is shorter than a block saves no space at the
/// server, so it may be sent as zeros.
const BLOCK_BYTES: u64 = 4096;

/// The maximum number of changed ranges that are recorded while one READ is in transit. Above this
/// number the whole reply is ignored.
const HOLES_MAX: usize = 64;

pub(super) fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}
