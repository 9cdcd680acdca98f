//! The consequences of each event: replies to programs, and calls to the server.

use core::ops::Range;
use std::collections::btree_map::Entry;

use bytes::Bytes;
use leasehold_base::attributes::{SetAttributes, Wcc};
use leasehold_base::units::{FileTime, Time};

use super::extents::Outcome;
use super::file::{Fetch, Reader};
use super::{
    Cache, Committed, Effect, Fetched, HeldWrite, JobId, Object, ObjectKey, Stored, Ticket,
};

/// Small reads request whole pages, so that the next small read finds its bytes in the cache.
const PAGE_BYTES: u64 = 4096;

impl<E: Clone> Cache<E> {
    pub(super) fn read(
        &mut self,
        ticket: Ticket,
        key: ObjectKey,
        offset: u64,
        count: u32,
        effects: &mut Vec<Effect<E>>,
    ) {
        let options = self.options;
        let file = &mut self.object(key).file;
        let range = offset..offset.saturating_add(u64::from(count));
        file.ahead.read(&range, &options);
        file.readers.push(Reader { ticket, range });
        self.answer_readers(key, effects);
        self.touch(key);
    }

    /// Answers the reads whose bytes are cached.
    fn answer_readers(&mut self, key: ObjectKey, effects: &mut Vec<Effect<E>>) {
        let Some(object) = self.objects.get_mut(&key) else { return };
        let file = &mut object.file;
        let end = file.end(object.known.attributes().map(|attributes| attributes.size));
        let extents = &mut file.extents;
        file.readers.retain(|reader| {
            let range = reader.range.start..reader.range.end.min(end).max(reader.range.start);
            if !extents.missing(range.clone()).is_empty() {
                return true;
            }
            let parts = extents.read(&range);
            effects.push(Effect::Read { ticket: reader.ticket, result: Ok(parts) });
            false
        });
    }

    pub(super) fn fetched(
        &mut self,
        now: Time,
        job: JobId,
        result: Result<Fetched, E>,
        effects: &mut Vec<Effect<E>>,
    ) {
        let Some(key) = self.end_job(job) else { return };
        let object = self.object(key);
        let asked = object.file.fetches.remove(&job).expect("a READ was sent under this number");
        match result {
            Ok(Fetched { data, end, attributes }) => {
                if let Some(attributes) = attributes {
                    self.observed(key, asked.asked, &attributes, effects);
                }
                let object = self.object(key);
                // A change of our own may have moved the end of the file after the READ was sent.
                // The end in the reply then does not count.
                let end = end && !object.known.is_outdated(asked.asked);
                object.file.fill(&asked, &data, end);
            }
            Err(error) => {
                let file = &mut self.object(key).file;
                // Rule 10: the file is not read ahead after a READ has failed.
                file.ahead.stop();
                file.readers.retain(|reader| {
                    let failed = super::file::overlap(&reader.range, &asked.range);
                    if failed {
                        let result = Err(error.clone());
                        effects.push(Effect::Read { ticket: reader.ticket, result });
                    }
                    !failed
                });
            }
        }
        self.recount(now, key);
    }

    /// Handles the report that a file is striped over many servers.
    pub(super) fn spread(&mut self, key: ObjectKey, ahead: u64) {
        let options = self.options;
        self.object(key).file.ahead.spread(ahead.min(options.bytes_max / 8), &options);
        self.touch(key);
    }

    /// Handles a program's write, which may have to wait.
    pub(super) fn write(&mut self, now: Time, write: HeldWrite, effects: &mut Vec<Effect<E>>) {
        let (ticket, file) = (write.ticket, write.file);
        self.held.push_back(write);
        self.touch(file);
        self.take_writes(now, effects);
        let waits = self.held.back().is_some_and(|write| write.ticket == ticket);
        self.counters.held_writes += u64::from(waits);
    }

    /// Returns true if the size of a file can be set here ([`super::Event::Alter`]): the server has
    /// no data beyond it, and no WRITE in transit reaches beyond it.
    #[must_use]
    pub fn can_resize(&self, file: ObjectKey, size: u64) -> bool {
        self.objects.get(&file).is_some_and(|Object { known, file }| {
            let there = known.attributes().filter(|_| !known.is_changing());
            there.is_some_and(|there| file.can_resize(there.size, size))
        })
    }

    /// Returns the number of bytes of a file that the server lacks or may lose.
    #[must_use]
    pub fn unsaved_bytes(&self, file: ObjectKey) -> u64 {
        let waits = self.held.iter().filter(|write| write.file == file);
        let waiting: u64 = waits.map(|write| write.data.len() as u64).sum();
        self.objects.get(&file).map_or(0, |object| object.file.bytes().1) + waiting
    }

    /// Sets mode, times or size for a program.
    pub(super) fn alter_here(
        &mut self,
        now: Time,
        file: ObjectKey,
        set: &SetAttributes,
        at: FileTime,
    ) {
        let serial = self.tick_serial();
        self.object(file).file.alter(set, at, serial);
        self.recount(now, file);
        self.touch(file);
    }

    /// Registers a request that waits until all earlier writes and attributes are saved.
    pub(super) fn sync(&mut self, ticket: Ticket, file: ObjectKey) {
        let serial = self.tick_serial();
        self.object(file).file.syncs.push((ticket, serial));
        self.touch(file);
    }

    /// Handles a truncation or an extension of a file.
    pub(super) fn resized(&mut self, file: ObjectKey, size: u64) {
        self.change_file(file, |file| file.overwrite(size..u64::MAX));
        if let Some(object) = self.objects.get_mut(&file) {
            object.known.resize(size);
        }
    }

    pub(super) fn stored(
        &mut self,
        now: Time,
        job: JobId,
        result: Result<Stored, E>,
        effects: &mut Vec<Effect<E>>,
    ) {
        let Some(key) = self.end_job(job) else { return };
        let object = self.object(key);
        let range = object.file.writes.remove(&job).expect("a WRITE was sent under this number");
        let length = range.end - range.start;
        let is_unheeded = object.file.unheeded.remove(&job);
        match result {
            Ok(Stored { count, unstable, wcc, set }) => {
                let count = u64::from(count).min(length);
                let outcome = unstable.map_or(Outcome::Stable, Outcome::Unstable);
                object.file.extents.end_write(&range, job, count, outcome);
                // After a partial WRITE, the WRITE of the rest changes the times again, so the
                // attributes must then be sent again.
                let size = object.file.end_alteration(job, set && count == length);
                let size = size.filter(|_| set).unwrap_or(0);
                object.known.reaches(size.max(range.start + count));
                self.learn_write_bytes(count, length);
                self.end_job_change(now, key, &wcc, effects);
            }
            Err(error) => {
                let lost = object.file.extents.fail_write(&range, job);
                object.file.end_alteration(job, is_unheeded);
                // Rule 9: no error is recorded for data that was discarded while its WRITE was in
                // transit.
                if !is_unheeded {
                    self.refused(key, length, lost, error, effects);
                }
                self.end_job_change(now, key, &Wcc::default(), effects);
            }
        }
        self.recount(now, key);
    }

    /// After a partial WRITE, the next WRITEs are no longer than the accepted length. The limit
    /// doubles after each complete WRITE of the maximum length.
    fn learn_write_bytes(&mut self, count: u64, length: u64) {
        let most = u64::from(self.options.write_bytes);
        if count < length {
            self.write_bytes = count.clamp(1, most);
        } else if length == self.write_bytes {
            self.write_bytes = (self.write_bytes * 2).min(most);
        }
    }

    /// Rule 9: records that the server refused data, and reports the bytes that the cache has
    /// dropped ([`Effect::Refused`]).
    fn refused(
        &mut self,
        key: ObjectKey,
        bytes: u64,
        lost: Vec<(u64, Bytes)>,
        error: E,
        effects: &mut Vec<Effect<E>>,
    ) {
        for (offset, data) in lost {
            effects.push(Effect::Refused { file: key, offset, data, error: error.clone() });
        }
        self.failed(key, bytes, error);
    }

    fn failed(&mut self, key: ObjectKey, bytes: u64, error: E) {
        self.counters.refused_bytes += bytes;
        let failures = &mut self.object(key).file.failures;
        *failures = (failures.0 + 1, Some(error));
    }

    pub(super) fn committed(
        &mut self,
        now: Time,
        job: JobId,
        result: Result<Committed, E>,
        effects: &mut Vec<Effect<E>>,
    ) {
        let Some(key) = self.end_job(job) else { return };
        let file = &mut self.object(key).file;
        assert_eq!(file.commit.take(), Some(job), "a COMMIT was sent under this number");
        let is_unheeded = file.unheeded.remove(&job);
        match result {
            Ok(Committed { verifier, wcc }) => {
                self.counters.rewritten_bytes +=
                    self.object(key).file.extents.end_commit(job, verifier);
                self.end_job_change(now, key, &wcc, effects);
            }
            Err(error) => {
                let lost = file.extents.fail_commit(job);
                if !is_unheeded {
                    let bytes = lost.iter().map(|(_, data)| data.len() as u64).sum();
                    self.refused(key, bytes, lost, error, effects);
                }
                self.end_job_change(now, key, &Wcc::default(), effects);
            }
        }
        self.recount(now, key);
    }

    pub(super) fn altered(
        &mut self,
        now: Time,
        job: JobId,
        result: Result<Wcc, E>,
        effects: &mut Vec<Effect<E>>,
    ) {
        let Some(key) = self.end_job(job) else { return };
        let object = self.object(key);
        let is_asked_for = object.file.altered.is_some_and(|altered| altered.is_asked_for());
        let size = object.file.end_alteration(job, true);
        let is_unheeded = object.file.unheeded.remove(&job);
        let wcc = match result {
            Ok(wcc) => {
                object.known.reaches(size.unwrap_or(0));
                wcc
            }
            Err(error) => {
                // If programs only saw the time and no program set it, a refusal is no failure,
                // because the server's time is as good. No error is recorded then.
                if !is_unheeded && is_asked_for {
                    self.failed(key, 0, error);
                }
                Wcc::default()
            }
        };
        self.end_job_change(now, key, &wcc, effects);
        self.recount(now, key);
    }

    fn end_job(&mut self, job: JobId) -> Option<ObjectKey> {
        // If the file was forgotten after the call was sent, the reply is ignored.
        let key = self.jobs.remove(&job).expect("an answered call was asked for")?;
        self.touch(key);
        Some(key)
    }

    /// Performs the actions that may follow from any event: accepts writes, answers programs, sends
    /// calls, and evicts clean data.
    pub(super) fn go_on(&mut self, now: Time, effects: &mut Vec<Effect<E>>) {
        self.take_writes(now, effects);
        self.push_old(now);
        for key in core::mem::take(&mut self.touched) {
            self.settle(now, key, effects);
        }
        self.call_in_turn(now, effects);
        self.evict();
    }

    /// Answers the requests that wait for a state of a file.
    fn settle(&mut self, now: Time, key: ObjectKey, effects: &mut Vec<Effect<E>>) {
        self.answer_readers(key, effects);
        self.recount(now, key);
        let Some(object) = self.objects.get_mut(&key) else { return };
        let file = &mut object.file;
        let mut syncs = core::mem::take(&mut file.syncs);
        syncs.retain(|(ticket, serial)| {
            let waits = file.is_unsaved_since(*serial);
            if !waits {
                effects.push(Effect::Synced { ticket: *ticket });
            }
            waits
        });
        file.syncs = syncs;
        if file.background.is_some_and(|serial| !file.is_unsaved_since(serial)) {
            file.background = None;
            self.delayed.extend(self.unsaved.get(&key).map(|since| (*since, key)));
        }
        if let Some(ticket) = file.holds.front().filter(|_| !file.held)
            && file.can_be_held()
        {
            effects.push(Effect::Held { ticket: *ticket, file: key });
            file.held = true;
        }
    }

    /// Rule 8: accepts waiting writes, in order for each file, while the limit on unsaved data
    /// permits.
    pub(super) fn take_writes(&mut self, now: Time, effects: &mut Vec<Effect<E>>) {
        let mut at = 0;
        let mut passed = Vec::new();
        while let Some(write) = self.held.get(at) {
            let key = write.file;
            let room = self.unsaved_bytes == 0
                || self.unsaved_bytes + write.data.len() as u64 <= self.options.unsaved_bytes_max;
            if !room {
                break;
            }
            // Rule 8: the writes of a file wait while the owner changes the file.
            if passed.contains(&key) || self.object(key).file.is_closed_to_writes() {
                passed.push(key);
                at += 1;
                continue;
            }
            let write = self.held.remove(at).expect("the index was just found");
            let when = (self.tick_serial(), write.at);
            let options = self.options;
            let object = self.object(key);
            let is_trusted = !object.known.trusted_for(now).is_zero();
            let known = object.known.attributes().filter(|_| is_trusted);
            let end = known.map(|known| object.file.end(Some(known.size)));
            if let Some(end) = end.filter(|end| *end < write.offset) {
                object.file.fill_gap(end..write.offset, when, &options);
            }
            let chunk = u64::from(options.write_bytes);
            object.file.write(write.offset, &write.data, when, chunk);
            self.touch(key);
            self.recount(now, key);
            effects.push(Effect::Wrote { ticket: write.ticket });
        }
    }

    /// Rule 5: marks old data to be sent, together with data that is at least half as old. If there
    /// is much unsaved data, all data is marked.
    fn push_old(&mut self, now: Time) {
        let crowded =
            self.unsaved_bytes > self.options.unsaved_bytes_max / 2 || !self.held.is_empty();
        let delay = self.options.write_delay;
        let is_due = self.delayed.first().is_some_and(|(since, _)| *since + delay <= now);
        while let Some((since, key)) = self.delayed.first().copied()
            && (crowded || is_due && since + delay / 2 <= now)
        {
            self.delayed.remove(&(since, key));
            let serial = self.tick_serial();
            self.object(key).file.background = Some(serial);
            self.unsaved.insert(key, now);
            self.touch(key);
        }
    }

    /// Rule 12: sends the calls that files need, one call for each file in round-robin order.
    fn call_in_turn(&mut self, now: Time, effects: &mut Vec<Effect<E>>) {
        while self.jobs.len() < self.options.calls_max {
            let after = self
                .hungry
                .range((core::ops::Bound::Excluded(self.turn), core::ops::Bound::Unbounded));
            let Some(key) = after.chain(self.hungry.range(..=self.turn)).next().copied() else {
                return;
            };
            self.turn = key;
            if !self.call_for(now, key, effects) {
                self.hungry.remove(&key);
            }
        }
    }

    /// Sends the next call that a file needs; returns false if it needs none.
    fn call_for(&mut self, now: Time, key: ObjectKey, effects: &mut Vec<Effect<E>>) -> bool {
        let options = self.options;
        let Some(object) = self.objects.get(&key) else { return false };
        let file = &object.file;
        // Rule 12: the number of calls in transit for one file is bounded.
        if file.calls() >= options.calls_of_file_max {
            return false;
        }
        let size = object.known.attributes().map(|attributes| attributes.size);
        if let Some(range) = self.wanted(key, size) {
            self.fetch(now, key, range, effects);
            return true;
        }
        if let Some(range) = file.due_write(self.write_bytes) {
            self.store(key, &range, effects);
            return true;
        }
        if let Some(serial) = file.wanted_stable()
            && file.commit.is_none()
            && file.extents.has_uncommitted()
            && !file.extents.is_unwritten(serial)
        {
            self.commit(key, effects);
            return true;
        }
        if file.is_alteration_due() {
            self.alter(key, effects);
            return true;
        }
        // Read-ahead leaves one of the file's calls free, so that a call for a waiting request can
        // be sent at once.
        let room = file.calls() + 1 < options.calls_of_file_max;
        let end = size.unwrap_or(0).min(file.ahead.goal);
        let start = file.ahead.behind();
        if let Some(range) = file.unasked(&(start..end.max(start))).filter(|_| room) {
            let end = range.end.min(range.start + u64::from(options.read_bytes));
            self.fetch(now, key, range.start..end, effects);
            return true;
        }
        false
    }

    /// Returns the next bytes that a reader waits for and that are not requested yet.
    fn wanted(&self, key: ObjectKey, size: Option<u64>) -> Option<Range<u64>> {
        let file = &self.objects[&key].file;
        let (most, end) = (u64::from(self.options.read_bytes), file.end(size));
        let unasked = file.readers.iter().find_map(|reader| {
            file.unasked(&(reader.range.start..reader.range.end.min(end).max(reader.range.start)))
        })?;
        let page = PAGE_BYTES.min(most);
        let pages = unasked.end.div_ceil(page).saturating_mul(page);
        let wish = if file.ahead.is_in_order() { (unasked.start / most + 1) * most } else { pages };
        let start = unasked.start - unasked.start % page;
        let start = if file.ahead.is_in_order() { unasked.start } else { start };
        // The range excludes bytes beyond the end, and bytes that are cached or in transit.
        let wide = start..wish.max(unasked.end).min(end).max(unasked.end);
        let around = file.unasked_around(&wide, unasked.start);
        Some(around.start..around.end.min(around.start + most))
    }

    fn fetch(
        &mut self,
        now: Time,
        key: ObjectKey,
        range: Range<u64>,
        effects: &mut Vec<Effect<E>>,
    ) {
        let job = self.begin_job(key);
        let asked = self.ask(now);
        let (offset, length) = (range.start, range.end - range.start);
        self.object(key).file.fetches.insert(job, Fetch { range, asked, holes: Vec::new() });
        let count = u32::try_from(length).expect("a READ is no larger than the limit");
        effects.push(Effect::Fetch { job, file: key, offset, count });
    }

    fn store(&mut self, key: ObjectKey, range: &Range<u64>, effects: &mut Vec<Effect<E>>) {
        let job = self.begin_job(key);
        let always = self.options.always_stable;
        let object = self.object(key);
        let file = &mut object.file;
        let alone = file.extents.unsaved_bytes() == range.end - range.start;
        // Rule 7: a WRITE that contains all unsaved data of a file is sent as stable if the data
        // must be saved.
        let stable = always || (alone && file.wanted_stable().is_some());
        // Rule 13: the WRITE that saves all earlier data also carries the attributes that were set
        // here.
        let set = if alone && stable { file.send_alteration(job) } else { None };
        let data = file.extents.begin_write(range, job);
        file.writes.insert(job, range.clone());
        object.known.begin_change();
        effects.push(Effect::Store { job, file: key, offset: range.start, data, stable, set });
    }

    fn alter(&mut self, key: ObjectKey, effects: &mut Vec<Effect<E>>) {
        let job = self.begin_job(key);
        let object = self.object(key);
        let set = object.file.send_alteration(job).expect("there are attributes to send");
        object.known.begin_change();
        effects.push(Effect::Alter { job, file: key, set });
    }

    fn commit(&mut self, key: ObjectKey, effects: &mut Vec<Effect<E>>) {
        let job = self.begin_job(key);
        let object = self.object(key);
        object.file.extents.begin_commit(job);
        object.file.commit = Some(job);
        object.known.begin_change();
        effects.push(Effect::Commit { job, file: key });
    }

    fn begin_job(&mut self, key: ObjectKey) -> JobId {
        let job = JobId(self.next_job);
        self.next_job += 1;
        self.jobs.insert(job, Some(key));
        job
    }

    /// Updates the totals for the bytes of a file.
    pub(super) fn recount(&mut self, now: Time, key: ObjectKey) {
        let Some(object) = self.objects.get_mut(&key) else { return };
        let (bytes, unsaved) = object.file.bytes();
        let (bytes_before, unsaved_before) =
            core::mem::replace(&mut object.file.counted, (bytes, unsaved));
        self.bytes = self.bytes + bytes - bytes_before;
        self.unsaved_bytes = self.unsaved_bytes + unsaved - unsaved_before;
        if bytes > 0 {
            self.filled.insert(key);
        } else {
            self.filled.remove(&key);
        }
        let is_pushed = object.file.background.is_some();
        if !object.file.is_unsaved() {
            if let Some(since) = self.unsaved.remove(&key) {
                self.delayed.remove(&(since, key));
            }
        } else if let Entry::Vacant(entry) = self.unsaved.entry(key) {
            entry.insert(now);
            self.delayed.extend((!is_pushed).then_some((now, key)));
        }
    }

    /// Evicts clean data, approximately in the order of its last use: the second round of the clock
    /// algorithm drops data that was not read since the first round.
    fn evict(&mut self) {
        let mut rounds = 0;
        while self.bytes > self.options.bytes_max && self.bytes > self.unsaved_bytes && rounds < 3 {
            let (key, offset) = self.hand;
            let Some(key) = self.filled.range(key..).next().copied() else {
                self.hand = (ObjectKey(0), 0);
                rounds += 1;
                continue;
            };
            let offset = if key == self.hand.0 { offset } else { 0 };
            let file = &mut self.object(key).file;
            let pinned: Vec<Range<u64>> =
                file.readers.iter().map(|reader| reader.range.clone()).collect();
            match file.extents.evict(offset, &pinned) {
                Some((next, dropped)) => {
                    self.hand = (key, next);
                    self.counters.evicted_bytes += dropped;
                }
                None => self.hand = (ObjectKey(key.0 + 1), 0),
            }
            self.recount(Time::ZERO, key);
        }
    }
}
