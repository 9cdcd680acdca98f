//! A file's attributes as programs see them, and the source of their times.

use core::time::Duration;

use leasehold_base::attributes::{Attributes, Wcc};
use leasehold_base::units::{FileTime, Time};

use super::{Cache, Effect, ObjectKey};

/// The source of the access and modification times that programs on this client see for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// The times come from the server, or from a program that set the times here.
    Known,
    /// The times come from the clock of this client when programs wrote. The server will choose
    /// later times, unless a program is shown these times ([`super::Event::Show`]).
    Estimated,
    /// The times have no reliable source, because the modification time at the server is later than
    /// the time of day here.
    Unclear,
}

/// The unit of the space that a file occupies.
const BLOCK_BYTES: u64 = 4096;

impl<E: Clone> Cache<E> {
    /// Returns the attributes of an object as programs here see them, and how long the cache still
    /// trusts them: zero if the owner must ask the server.
    #[must_use]
    pub fn attributes(&self, now: Time, object: ObjectKey) -> Option<(Attributes, Duration)> {
        let object = self.objects.get(&object)?;
        let known = object.known.attributes()?;
        let (file, mut attributes) = (&object.file, *known);
        attributes.size = attributes.size.max(file.unsaved_end());
        if file.is_written() {
            attributes.modified = attributes.modified.max(file.modified);
            attributes.changed = attributes.changed.max(file.modified);
            // Programs treat a file without allocated space as a file without data, so the unsaved
            // bytes count as allocated.
            let blocks = attributes.size.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(u64::MAX);
            let (_, unsaved) = file.bytes();
            attributes.used = known.used.max(blocks.min(known.used.saturating_add(unsaved)));
        }
        if let Some(altered) = &file.altered {
            altered.show(&mut attributes);
        }
        attributes.changed = file.changed(known.changed).unwrap_or(attributes.changed);
        Some((attributes, object.known.trusted_for(now)))
    }

    /// Returns the source of the access and modification times that programs on this client see for
    /// a file. `at` is the current time of day.
    #[must_use]
    pub fn times(&self, file: ObjectKey, at: FileTime) -> Times {
        let Some(object) = self.objects.get(&file) else { return Times::Known };
        // The time at the server is in the future, probably because a program set it. The next
        // WRITE replaces it at the server, so neither time is reliable.
        let is_ahead = object.known.attributes().is_none_or(|known| at < known.modified);
        match object.file.estimates_times() {
            false => Times::Known,
            true if is_ahead => Times::Unclear,
            true => Times::Estimated,
        }
    }

    /// Records that a program saw the attributes.
    pub(super) fn show(&mut self, now: Time, file: ObjectKey) {
        let serial = self.tick_serial();
        let Some((shown, _)) = self.attributes(now, file) else { return };
        let object = self.object(file);
        let there = object.known.attributes().map_or(shown.changed, |known| known.changed);
        object.file.show(&shown, there, serial);
        self.recount(now, file);
        self.touch(file);
    }

    /// Handles the end of a call of the cache that has changed the file, or has failed to change
    /// it.
    pub(super) fn end_job_change(
        &mut self,
        now: Time,
        key: ObjectKey,
        wcc: &Wcc,
        effects: &mut Vec<Effect<E>>,
    ) {
        let changed = |cache: &Self| {
            let known = cache.objects.get(&key)?.known.attributes()?;
            Some(known.changed)
        };
        let before = changed(self);
        self.end_change(now, key, wcc, effects);
        if let Some((before, after)) = before.zip(changed(self)) {
            self.object(key).file.took(before, after);
        }
    }
}
