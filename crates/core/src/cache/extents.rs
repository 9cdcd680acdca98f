//! The cached bytes of one file and their states. An extent corresponds to a page in figure 1 of
//! the NFS version 3 paper, but may have any length.

mod buffer;

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};

use super::{JobId, Serial, Verifier};
use buffer::Buffer;

/// The state of bytes with respect to the server's stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The bytes are equal to the server's bytes, so the cache may drop them.
    Clean,
    /// A program wrote the bytes here, and the server lacks them.
    Dirty,
    /// The bytes are in transit to the server in this WRITE.
    Writing(JobId),
    /// The server has the bytes but may lose them. If the server loses them, it changes its
    /// verifier.
    Written {
        /// The verifier in the reply to the WRITE.
        verifier: Verifier,
        /// The COMMIT in transit for the bytes.
        commit: Option<JobId>,
    },
}

/// The outcome of a WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The bytes are on stable storage.
    Stable,
    /// The bytes are not on stable storage yet; the reply contained this verifier.
    Unstable(Verifier),
}

/// A range of cached bytes in one state.
#[derive(Clone, Debug)]
struct Extent {
    data: Buffer,
    state: State,
    /// The serial of the oldest write in the extent; without meaning for clean extents.
    serial: Serial,
    /// True if the extent was read since the last round of eviction.
    used: bool,
}

/// The cached extents of one file. Extents do not overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct Extents {
    /// The extents by start offset.
    extents: BTreeMap<u64, Extent>,
    /// The start offsets of the dirty extents.
    dirty: BTreeSet<u64>,
    /// The start offsets of the extents that are not clean.
    unsaved: BTreeSet<u64>,
    bytes: u64,
    unsaved_bytes: u64,
}

/// The maximum length of a write that is appended to the previous write; longer writes keep their
/// own buffers.
const JOINED_BYTES_MAX: usize = 16 << 10;

/// Converts the length of cached bytes to `usize`.
pub(super) fn in_memory(length: u64) -> usize {
    usize::try_from(length).expect("a length in memory fits usize")
}

impl Extents {
    /// Returns the number of bytes.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of bytes that are not clean.
    pub(super) const fn unsaved_bytes(&self) -> u64 {
        self.unsaved_bytes
    }

    /// Returns true if a write of this serial or an older one is not on stable storage.
    pub(super) fn is_unsaved(&self, serial: Serial) -> bool {
        self.unsaved.iter().any(|start| self.extents[start].serial <= serial)
    }

    /// Returns true if the server lacks a write of this serial or an older one.
    pub(super) fn is_unwritten(&self, serial: Serial) -> bool {
        let unsaved = self.unsaved.iter().map(|start| &self.extents[start]);
        let mut old = unsaved.filter(|extent| extent.serial <= serial);
        old.any(|extent| matches!(extent.state, State::Dirty | State::Writing(_)))
    }

    /// Returns true if there are bytes that no WRITE carries yet.
    pub(super) fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Returns the end of the last bytes that the server lacks or may have lost.
    pub(super) fn unsaved_end(&self) -> u64 {
        self.unsaved.last().map_or(0, |start| self.end(*start))
    }

    fn end(&self, start: u64) -> u64 {
        start + self.extents[&start].data.len() as u64
    }

    /// Returns the start of the first extent that reaches past `offset`.
    fn first_from(&self, offset: u64) -> Option<u64> {
        let before = self.extents.range(..=offset).next_back().map(|(start, _)| *start);
        let reaches = before.filter(|start| self.end(*start) > offset);
        reaches.or_else(|| self.extents.range(offset..).next().map(|(start, _)| *start))
    }

    /// Lists the starts of the extents that overlap `range`.
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

    /// Splits an extent that contains `at` in its interior.
    fn cut(&mut self, at: u64) {
        let Some(start) = self.first_from(at).filter(|start| *start < at) else { return };
        let mut first = self.take(start);
        let length = in_memory(at - start);
        let data = first.data.split_off(length);
        let second = Extent { data, ..first };
        self.put(start, first);
        self.put(at, second);
    }

    /// Drops bytes in any state.
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

    /// Drops clean bytes.
    pub(super) fn remove_clean(&mut self) {
        let all: Vec<u64> = self.extents.keys().copied().collect();
        for start in all {
            if self.extents[&start].state == State::Clean {
                self.take(start);
            }
        }
    }

    /// Stores bytes that a program wrote. A small write that continues the previous write is
    /// appended to its extent, up to the next multiple of `chunk`.
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
                // Bytes within the extent are overwritten in place, so only the cached bytes behind
                // the end of the extent are removed.
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

    /// Stores bytes from the server, only where no bytes are cached.
    pub(super) fn fill(&mut self, offset: u64, data: &Bytes) {
        for gap in self.missing(offset..offset + data.len() as u64) {
            let (from, to) = (in_memory(gap.start - offset), in_memory(gap.end - offset));
            let data = Buffer::Whole(data.slice(from..to));
            let extent = Extent { data, state: State::Clean, serial: Serial(0), used: false };
            self.put(gap.start, extent);
        }
    }

    /// Returns the parts of `range` that are not cached.
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

    /// Returns the bytes of `range`, all of which are cached.
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

    /// Returns the next run of dirty bytes from `from` on, within one chunk; with `full`, only a
    /// run that reaches the end of the chunk.
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

    /// Marks dirty bytes as sent with a WRITE, and returns them.
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

    /// Ends a WRITE of `range` of which the server accepted the first `count` bytes. The other
    /// bytes become dirty again.
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

    /// Drops and returns the bytes of a failed WRITE.
    pub(super) fn fail_write(&mut self, range: &Range<u64>, job: JobId) -> Vec<(u64, Bytes)> {
        let starts = self.of_write(range, job).into_iter();
        starts.map(|start| (start, self.take(start).data.freeze())).collect()
    }

    /// Returns the start offsets of the extents that still belong to a WRITE. Other bytes of the
    /// WRITE were overwritten after it was sent.
    fn of_write(&self, range: &Range<u64>, job: JobId) -> Vec<u64> {
        let starts = self.within(range.clone());
        starts.filter(|start| self.extents[start].state == State::Writing(job)).collect()
    }

    /// Returns true if there are written bytes for which no COMMIT is in transit.
    pub(super) fn has_uncommitted(&self) -> bool {
        let mut states = self.unsaved.iter().map(|start| self.extents[start].state);
        states.any(|state| matches!(state, State::Written { commit: None, .. }))
    }

    /// Assigns all written bytes to a COMMIT.
    pub(super) fn begin_commit(&mut self, job: JobId) {
        for start in self.unsaved.clone() {
            if let State::Written { verifier, commit: None } = self.extents[&start].state {
                self.set_state(start, State::Written { verifier, commit: Some(job) });
            }
        }
    }

    /// Rule 4: ends a COMMIT. The server may have lost bytes that were written under another
    /// verifier, so these bytes become dirty again. Returns the number of lost bytes.
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

    /// Drops and returns the bytes of a failed COMMIT.
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

    /// Continues a round of eviction at `from` with one extent: drops it if it is clean, was not
    /// read since the last round and does not overlap `pinned`. Returns the offset at which to
    /// continue, and the number of dropped bytes.
    pub(super) fn evict(&mut self, from: u64, pinned: &[Range<u64>]) -> Option<(u64, u64)> {
        let start = *self.extents.range(from..).next()?.0;
        let end = self.end(start);
        let extent = self.extents.get_mut(&start).expect("it was just found");
        // Rule 4: only clean data is evicted, because the server may lack the other data.
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
