//! Rate limits for log lines.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use leasehold_base::units::Time;

use crate::clock;

/// A rate limit: permits one event in each interval, and counts the events that it suppresses.
#[derive(Debug)]
pub struct Rate {
    interval_ns: u64,
    /// The time at which the next event may pass, on the clock of the process.
    next_ns: AtomicU64,
    held_back: AtomicU64,
}

impl Rate {
    /// Creates a rate limit of one event in each `interval`, which is at most 584 years.
    #[must_use]
    pub const fn one_in(interval: Duration) -> Self {
        let nanoseconds = interval.as_secs() * 1_000_000_000 + interval.subsec_nanos() as u64;
        Self { interval_ns: nanoseconds, next_ns: AtomicU64::new(0), held_back: AtomicU64::new(0) }
    }

    /// If an event may pass now, returns the number of events that were suppressed since the last
    /// event passed. Otherwise counts a suppressed event and returns `None`.
    #[must_use]
    pub fn pass(&self) -> Option<u64> {
        self.pass_at(clock::now())
    }

    fn pass_at(&self, now: Time) -> Option<u64> {
        let next = self.next_ns.load(Ordering::Relaxed);
        let now = now.as_nanoseconds();
        let after = now.saturating_add(self.interval_ns);
        let passes = now >= next
            && self
                .next_ns
                .compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if passes {
            return Some(self.held_back.swap(0, Ordering::Relaxed));
        }
        self.held_back.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_suppressed_and_counted() {
        let rate = Rate::one_in(Duration::from_secs(1));
        let at = |milliseconds: u64| Time::from_nanoseconds(milliseconds * 1_000_000);
        let passed: Vec<_> = [10, 20, 1009, 1010, 5000].map(|ms| rate.pass_at(at(ms))).into();
        assert_eq!(passed, [Some(0), None, None, Some(2), Some(0)]);
    }
}
