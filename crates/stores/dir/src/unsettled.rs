//! Bytes that were written recently, on a file system that does not count them yet.
//!
//! Btrfs subtracts written data from the available bytes of statvfs only when a transaction has
//! committed the data, some ten seconds after the write. Until then the server would promise the
//! bytes twice.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::locks::lock;

/// The longest time for which the file system may not count written data: the kernel writes dirty
/// pages after 30 s and looks for them every 5 s, and btrfs commits every 30 s.
const SETTLES_IN: Duration = Duration::from_secs(70);

/// Counts written bytes in spans of [`SETTLES_IN`]: the bytes of the current span and of the last.
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
    /// Starts another span when the current one is over.
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

    /// Returns the bytes that the file system may not count yet.
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
