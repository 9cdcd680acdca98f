//! Counts bytes that were written recently, for a file system that does not subtract them from its
//! free space yet.
//!
//! Btrfs subtracts written data from the available bytes of statvfs only after a transaction has
//! committed the data, some ten seconds after the write. Until then the reported free space is too
//! large: the server would offer the same free bytes to a second writer. So the store subtracts the
//! bytes that were written recently.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::locks::lock;

/// The maximum time between a write and the moment at which the file system counts the data. The
/// kernel writes dirty pages after 30 s, looks for such pages every 5 s, and btrfs commits every 30
/// s.
const SETTLES_IN: Duration = Duration::from_secs(70);

/// Counts written bytes in spans of [`SETTLES_IN`]: the bytes of the current span, and of the span
/// before.
#[derive(Default)]
pub(crate) struct Unsettled {
    spans: Mutex<Spans>,
}

#[derive(Default)]
struct Spans {
    began: Option<Instant>,
    now: u64,
    before: u64,
}

impl Spans {
    /// Starts another span if the current span has ended.
    fn go_on(&mut self, now: Instant) {
        let began = *self.began.get_or_insert(now);
        let age = now.saturating_duration_since(began);
        if age >= SETTLES_IN {
            self.before = if age < SETTLES_IN * 2 { self.now } else { 0 };
            (self.began, self.now) = (Some(now), 0);
        }
    }
}

impl Unsettled {
    /// Counts written bytes.
    pub(crate) fn wrote(&self, now: Instant, bytes: u64) {
        let mut spans = lock(&self.spans);
        spans.go_on(now);
        spans.now = spans.now.saturating_add(bytes);
    }

    /// Returns the number of bytes that the file system may not count yet.
    pub(crate) fn bytes(&self, now: Instant) -> u64 {
        let mut spans = lock(&self.spans);
        spans.go_on(now);
        spans.now.saturating_add(spans.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_bytes_count_for_one_span_at_least_and_two_at_most() {
        let unsettled = Unsettled::default();
        let start = Instant::now();
        unsettled.wrote(start, 5);
        unsettled.wrote(start + SETTLES_IN / 2, 7);
        assert_eq!(unsettled.bytes(start + SETTLES_IN / 2), 12);
        assert_eq!(unsettled.bytes(start + SETTLES_IN * 3 / 2), 12);
        unsettled.wrote(start + SETTLES_IN * 3 / 2, 1);
        assert_eq!(unsettled.bytes(start + SETTLES_IN * 5 / 2), 1);
        assert_eq!(unsettled.bytes(start + SETTLES_IN * 5), 0);
    }
}
