//! The decision of a loop to poll for events for a short time before it sleeps.
//!
//! A sleep and a wake-up cost more than a short poll. If the next call arrives within microseconds,
//! polling more than doubles the rate of a client with one call in flight. If other threads need
//! the processor, polling takes processor time from these threads. A loop therefore polls only
//! after recent traffic, only while polls find events often enough, and only while no other threads
//! wait to run.

use core::time::Duration;

/// The maximum time for which a loop polls before it sleeps. The value is the time in which a
/// client on a nearby machine typically sends its next call.
pub(crate) const LOOK_MAX: Duration = Duration::from_micros(25);

/// If a yield of the processor takes longer than this time, another thread has run during the
/// yield.
pub(crate) const CROWD_MIN: Duration = Duration::from_micros(5);

/// After a wait longer than this time the traffic does not count as recent, and the loop sleeps
/// without a poll.
const RECENT_MAX: Duration = Duration::from_micros(500);

const CREDIT_MAX: u32 = 64;
/// The number of successful polls that balance one poll without an event.
const MISS_COST: u32 = 4;
/// The number of successful polls that balance one poll during which other threads needed the
/// processor.
const CROWD_COST: u32 = 16;
/// The number of waits without a poll after polls have failed too often. While other threads need
/// the processor, the number doubles with each attempt up to a limit, because an attempt may give
/// the processor to these threads for a millisecond. `CREDIT_ANEW` is the credit at the start of an
/// attempt.
const PAUSE: u32 = 512;
const DOUBLINGS_MAX: u32 = 6;
const CREDIT_ANEW: u32 = 16;

/// The result of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// An event arrived.
    Found,
    /// No event arrived.
    Missed,
    /// Other threads need the processor.
    Crowded,
}

/// The record of successful and failed polls, from which the loop decides whether it polls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spin {
    credit: u32,
    pause: u32,
    /// The number of doublings of the next pause.
    doublings: u32,
}

impl Spin {
    /// Returns true if the loop should poll before the next sleep, given the length of the last
    /// wait.
    pub(crate) fn should_look(&mut self, last_wait: Duration) -> bool {
        if last_wait > RECENT_MAX {
            return false;
        }
        if self.credit == 0 {
            if self.pause > 0 {
                self.pause -= 1;
                return false;
            }
            self.credit = CREDIT_ANEW;
        }
        true
    }

    /// Records the result of a poll.
    pub(crate) fn looked(&mut self, look: Look) {
        self.credit = match look {
            Look::Found => CREDIT_MAX.min(self.credit + 1),
            Look::Missed => self.credit.saturating_sub(MISS_COST),
            Look::Crowded => self.credit.saturating_sub(CROWD_COST),
        };
        if look == Look::Found {
            self.doublings = 0;
        }
        if self.credit == 0 {
            self.pause = PAUSE << self.doublings;
            if look == Look::Crowded {
                self.doublings = DOUBLINGS_MAX.min(self.doublings + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(20);

    /// Returns the number of waits, among the given number, that begin with a poll if every poll
    /// has this result.
    fn looks(spin: &mut Spin, waits: u32, look: Look) -> u32 {
        let mut count = 0;
        for _ in 0..waits {
            if spin.should_look(SHORT) {
                count += 1;
                spin.looked(look);
            }
        }
        count
    }

    #[test]
    fn polls_while_polling_pays() {
        let mut spin = Spin::default();
        assert_eq!(looks(&mut spin, 10_000, Look::Found), 10_000);
    }

    #[test]
    fn stops_soon_without_success_and_retries() {
        let mut spin = Spin::default();
        looks(&mut spin, 1000, Look::Found);
        assert_eq!(looks(&mut spin, PAUSE, Look::Missed), CREDIT_MAX / MISS_COST);
        assert!(looks(&mut spin, 100_000, Look::Missed) < 1000);
        assert!(looks(&mut spin, 100_000, Look::Crowded) < 20);
        looks(&mut spin, (PAUSE << DOUBLINGS_MAX) + 1, Look::Found);
        assert_eq!(looks(&mut spin, 10_000, Look::Found), 10_000);
    }

    #[test]
    fn never_polls_when_idle() {
        let mut spin = Spin::default();
        looks(&mut spin, 1000, Look::Found);
        assert!(!spin.should_look(Duration::from_millis(1)));
    }
}
