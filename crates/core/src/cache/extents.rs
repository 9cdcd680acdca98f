//! The bytes of one file that are here, and the state of each: the pages of the NFS version 3
//! paper's figure 1, as ranges of any length.

mod buffer;

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};

use super::{JobId, Serial, Verifier};
use buffer::Buffer;

/// Where bytes stand between here and the server's stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// As the server has them: they can be dropped.
    Clean,
    /// Written here; the server does not have them.
    Dirty,
    /// On their way to the server.
    Writing(JobId),
    /// The server has them, but may lose them, and then has another verifier.
    Written {
        /// What came with the answer to the WRITE.
        verifier: Verifier,
        /// The COMMIT that is on its way for them.
        commit: Option<JobId>,
    },
}

/// What became of a WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// On stable storage.
    Stable,
    /// Not yet so, under this verifier.
    Unstable(Verifier),
}

#[derive(Clone, Debug)]
struct Extent {
    data: Buffer,
    state: State,
    /// The oldest write that is in it; of no meaning for clean ones.
    serial: Serial,
    /// Whether it was read since the last round of eviction.
    used: bool,
}

/// Ranges that do not overlap, by where they begin.
#[derive(Clone, Debug, Default)]
pub(super) struct Extents {
    extents: BTreeMap<u64, Extent>,
    /// Those that are dirty.
    dirty: BTreeSet<u64>,
    /// Those that are not clean.
    unsaved: BTreeSet<u64>,
    bytes: u64,
    unsaved_bytes: u64,
}

/// Up to this length a write is added to the one before it; longer ones are kept as they came.
const JOINED_BYTES_MAX: usize = 16 << 10;

/// A length of bytes that lie here.
pub(super) fn in_memory(length: u64) -> usize {
    usize::try_from(length).expect("what lies in memory has a length")
}

impl Extents {
    /// All bytes.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that are not clean.
    pub(super) const fn unsaved_bytes(&self) -> u64 {
        self.unsaved_bytes
    }

    /// Whether a write of this serial or an older one is not on stable storage.
    pub(super) fn is_unsaved(&self, serial: Serial) -> bool {
        self.unsaved.iter().any(|start| self.extents[start].serial <= serial)
    }

    /// Whether the server does not have a write of this serial or an older one.
    pub(super) fn is_unwritten(&self, serial: Serial) -> bool {
        let unsaved = self.unsaved.iter().map(|start| &self.extents[start]);
        let mut old = unsaved.filter(|extent| extent.serial <= serial);
        old.any(|extent| matches!(extent.state, State::Dirty | State::Writing(_)))
    }

    /// True if there are bytes that no WRITE carries yet.
    pub(super) fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Where the last bytes end that the server does not have, or may have lost.
    pub(super) fn unsaved_end(&self) -> u64 {
        self.unsaved.last().map_or(0, |start| self.end(*start))
    }

    fn end(&self, start: u64) -> u64 {
        start + self.extents[&start].data.len() as u64
    }

    /// The first extent that reaches past `offset`, by where it begins.
    fn first_from(&self, offset: u64) -> Option<u64> {
        let before = self.extents.range(..=offset).next_back().map(|(start, _)| *start);
        let reaches = before.filter(|start| self.end(*start) > offset);
        reaches.or_else(|| self.extents.range(offset..).next().map(|(start, _)| *start))
    }

    /// Where the extents begin that share bytes with `range`.
    fn within(&self, range: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        let first = self.first_from(range.start).unwrap_or(u64::MAX).min(range.end);
        self.extents.range(first..range.end).map(|(start, _)| *start)
    }

    fn put(&mut self, start: u64, extent: Extent) {
        let length = extent.data.len() as u64;
        if length == 0 {
            return;
        }
        self.bytes += length;
        if extent.state != State::Clean {
            self.unsaved_bytes += length;
            self.unsaved.insert(start);
        }
        if extent.state == State::Dirty {
            self.dirty.insert(start);
        }
        let old = self.extents.insert(start, extent);
        assert!(old.is_none(), "extents do not overlap");
    }

    fn take(&mut self, start: u64) -> Extent {
        let extent = self.extents.remove(&start).expect("an extent begins here");
        self.bytes -= extent.data.len() as u64;
        if self.unsaved.remove(&start) {
            self.unsaved_bytes -= extent.data.len() as u64;
        }
        self.dirty.remove(&start);
        extent
    }

    fn set_state(&mut self, start: u64, state: State) {
        let extent = self.take(start);
        self.put(start, Extent { state, ..extent });
    }

    /// Has an extent begin at `at` when one lies across it.
    fn cut(&mut self, at: u64) {
        let Some(start) = self.first_from(at).filter(|start| *start < at) else { return };
        let mut first = self.take(start);
        let length = in_memory(at - start);
        let data = first.data.split_off(length);
        let second = Extent { data, ..first };
        self.put(start, first);
        self.put(at, second);
    }

    /// Drops bytes, whatever their state.
    pub(super) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.cut(range.start);
        self.cut(range.end);
        let starts: Vec<u64> = self.within(range).collect();
        for start in starts {
            self.take(start);
        }
    }

    /// Drops what is clean.
    pub(super) fn remove_clean(&mut self) {
        let all: Vec<u64> = self.extents.keys().copied().collect();
        for start in all {
            if self.extents[&start].state == State::Clean {
                self.take(start);
            }
        }
    }

    /// Bytes that a program wrote. A small write that goes on where another ended is joined with
    /// it, up to the next multiple of `chunk`.
    pub(super) fn write(&mut self, offset: u64, data: &Bytes, serial: Serial, chunk: u64) {
        let mut data = data.clone();
        let mut offset = offset;
        while !data.is_empty() {
            let room = usize::try_from(chunk - offset % chunk).unwrap_or(usize::MAX);
            let part = data.split_to(room.min(data.len()));
            let end = offset + part.len() as u64;
            self.write_in_chunk(offset, part, serial, chunk);
            offset = end;
        }
    }

    fn write_in_chunk(&mut self, offset: u64, data: Bytes, serial: Serial, chunk: u64) {
        if data.len() <= JOINED_BYTES_MAX {
            let target = self.extents.range(..=offset).next_back().map(|(start, _)| *start);
            let joins = target.filter(|start| {
                *start / chunk == offset / chunk
                    && self.dirty.contains(start)
                    && self.extents[start].data.grows()
                    && self.end(*start) >= offset
            });
            if let Some(start) = joins {
                // Only what lies behind the extent that takes the data is in the way.
                let end = offset + data.len() as u64;
                self.remove(self.end(start)..end.max(self.end(start)));
                let mut extent = self.take(start);
                extent.data.write(in_memory(offset - start), &data);
                return self.put(start, extent);
            }
        }
        self.remove(offset..offset + data.len() as u64);
        let data = if data.len() <= JOINED_BYTES_MAX {
            Buffer::Growing(BytesMut::from(&data[..]))
        } else {
            Buffer::Whole(data)
        };
        self.put(offset, Extent { data, state: State::Dirty, serial, used: true });
    }

    /// Bytes that came from the server; they go where there are none.
    pub(super) fn fill(&mut self, offset: u64, data: &Bytes) {
        for gap in self.missing(offset..offset + data.len() as u64) {
            let (from, to) = (in_memory(gap.start - offset), in_memory(gap.end - offset));
            let data = Buffer::Whole(data.slice(from..to));
            let extent = Extent { data, state: State::Clean, serial: Serial(0), used: false };
            self.put(gap.start, extent);
        }
    }

    /// The parts of `range` that are not here.
    pub(super) fn missing(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = range.start;
        for start in self.within(range.clone()) {
            if at < start {
                gaps.push(at..start);
            }
            at = at.max(self.end(start));
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        gaps
    }

    /// The bytes of `range`, all of which are here.
    pub(super) fn read(&mut self, range: &Range<u64>) -> Vec<Bytes> {
        let starts: Vec<u64> = self.within(range.clone()).collect();
        let mut parts = Vec::with_capacity(starts.len());
        for start in starts {
            let end = self.end(start).min(range.end);
            let from = range.start.max(start) - start;
            let extent = self.extents.get_mut(&start).expect("it was just found");
            extent.used = true;
            parts.push(extent.data.slice(in_memory(from)..in_memory(end - start)));
        }
        parts
    }

    /// The next dirty bytes in a row from `from` on, within one chunk; with `full`, only such as
    /// reach the chunk's end.
    pub(super) fn next_dirty(&self, from: u64, chunk: u64, full: bool) -> Option<Range<u64>> {
        let mut from = from;
        loop {
            let start = *self.dirty.range(from..).next()?;
            let chunk_end = (start / chunk + 1) * chunk;
            let mut end = self.end(start);
            while end < chunk_end && self.dirty.contains(&end) {
                end = self.end(end);
            }
            let end = end.min(chunk_end);
            if end == chunk_end || !full {
                return Some(start..end);
            }
            from = end;
        }
    }

    /// Takes dirty bytes for a WRITE.
    pub(super) fn begin_write(&mut self, range: &Range<u64>, job: JobId) -> Bytes {
        self.cut(range.start);
        self.cut(range.end);
        let starts: Vec<u64> = self.within(range.clone()).collect();
        let mut taken: Vec<Extent> = starts.iter().map(|start| self.take(*start)).collect();
        let serial = taken.iter().map(|extent| extent.serial).min().expect("a run has bytes");
        let data = if taken.len() == 1 {
            taken.remove(0).data.freeze()
        } else {
            let mut joined = BytesMut::with_capacity(in_memory(range.end - range.start));
            for extent in &taken {
                joined.extend_from_slice(extent.data.as_slice());
            }
            joined.freeze()
        };
        let state = State::Writing(job);
        self.put(
            range.start,
            Extent { data: Buffer::Whole(data.clone()), state, serial, used: true },
        );
        data
    }

    /// A WRITE of `range` took the first `count` bytes. What it did not take, and what failed, is
    /// given up or dirty again.
    pub(super) fn end_write(
        &mut self,
        range: &Range<u64>,
        job: JobId,
        count: u64,
        outcome: Outcome,
    ) {
        let end = (range.start + count).min(range.end);
        self.cut(end);
        for start in self.of_write(range, job) {
            let state = match outcome {
                _ if start >= end => State::Dirty,
                Outcome::Stable => State::Clean,
                Outcome::Unstable(verifier) => State::Written { verifier, commit: None },
            };
            self.set_state(start, state);
        }
    }

    /// A WRITE failed: gives up and returns the bytes that the WRITE carried.
    pub(super) fn fail_write(&mut self, range: &Range<u64>, job: JobId) -> Vec<(u64, Bytes)> {
        let starts = self.of_write(range, job).into_iter();
        starts.map(|start| (start, self.take(start).data.freeze())).collect()
    }

    /// What is left of the bytes that a WRITE took; others were written over since.
    fn of_write(&self, range: &Range<u64>, job: JobId) -> Vec<u64> {
        let starts = self.within(range.clone());
        starts.filter(|start| self.extents[start].state == State::Writing(job)).collect()
    }

    /// Whether something is written and no COMMIT is on its way for it.
    pub(super) fn has_uncommitted(&self) -> bool {
        let mut states = self.unsaved.iter().map(|start| self.extents[start].state);
        states.any(|state| matches!(state, State::Written { commit: None, .. }))
    }

    /// Takes all that is written for a COMMIT.
    pub(super) fn begin_commit(&mut self, job: JobId) {
        for start in self.unsaved.clone() {
            if let State::Written { verifier, commit: None } = self.extents[&start].state {
                self.set_state(start, State::Written { verifier, commit: Some(job) });
            }
        }
    }

    /// A COMMIT was answered. What was written under another verifier is lost there, and dirty
    /// again: says how many bytes.
    pub(super) fn end_commit(&mut self, job: JobId, now: Verifier) -> u64 {
        let mut lost = 0;
        for (start, verifier) in self.of_commit(job) {
            if verifier == now {
                self.set_state(start, State::Clean);
            } else {
                lost += self.extents[&start].data.len() as u64;
                self.set_state(start, State::Dirty);
            }
        }
        lost
    }

    /// A COMMIT failed: gives up and returns the bytes that the COMMIT was for.
    pub(super) fn fail_commit(&mut self, job: JobId) -> Vec<(u64, Bytes)> {
        let starts = self.of_commit(job).into_iter();
        starts.map(|(start, _)| (start, self.take(start).data.freeze())).collect()
    }

    fn of_commit(&self, job: JobId) -> Vec<(u64, Verifier)> {
        let states = self.unsaved.iter().map(|start| (*start, self.extents[start].state));
        let of_job = states.filter_map(|(start, state)| match state {
            State::Written { verifier, commit } if commit == Some(job) => Some((start, verifier)),
            State::Clean | State::Dirty | State::Writing(_) | State::Written { .. } => None,
        });
        of_job.collect()
    }

    /// Goes on with a round of eviction behind `from` and looks at one extent: drops it when it is
    /// clean, was not read since the last round and is not among `pinned`. Says where to go on,
    /// and how many bytes were dropped.
    pub(super) fn evict(&mut self, from: u64, pinned: &[Range<u64>]) -> Option<(u64, u64)> {
        let start = *self.extents.range(from..).next()?.0;
        let end = self.end(start);
        let extent = self.extents.get_mut(&start).expect("it was just found");
        let spared = core::mem::take(&mut extent.used)
            || extent.state != State::Clean
            || pinned.iter().any(|pin| pin.start < end && start < pin.end);
        if spared {
            return Some((end, 0));
        }
        self.take(start);
        Some((end, end - start))
    }

    /// Audits the whole state.
    pub(super) fn check(&self) {
        let mut at = 0;
        let (mut bytes, mut unsaved_bytes) = (0, 0);
        for (start, extent) in &self.extents {
            assert!(*start >= at, "extents do not overlap");
            assert_ne!(extent.data.len(), 0, "an extent has bytes");
            at = self.end(*start);
            bytes += at - start;
            if extent.state != State::Clean {
                unsaved_bytes += at - start;
            }
            assert_eq!(self.dirty.contains(start), extent.state == State::Dirty);
            assert_eq!(self.unsaved.contains(start), extent.state != State::Clean);
        }
        assert_eq!((bytes, unsaved_bytes), (self.bytes, self.unsaved_bytes));
        assert!(self.dirty.iter().all(|start| self.extents.contains_key(start)));
        assert!(self.unsaved.iter().all(|start| self.extents.contains_key(start)));
    }
}
