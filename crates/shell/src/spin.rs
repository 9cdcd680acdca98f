//! Whether to look for events for a moment before sleeping.
//!
//! To sleep and be woken costs more than a short look, so where the next call comes within
//! microseconds, looking more than doubles the rate of a client with one call in flight. Where
//! other threads want the processor it takes it from them. So: only after recent traffic, only
//! while it pays, and not while others wait to run.

use core::time::Duration;

/// How long a loop looks for events before it sleeps: as long as a close client takes.
pub(crate) const LOOK_MAX: Duration = Duration::from_micros(25);

/// A turn of the processor given away for longer than this was taken by somebody else.
pub(crate) const CROWD_MIN: Duration = Duration::from_micros(5);

/// A longer wait than this ends what counts as recent traffic.
const RECENT_MAX: Duration = Duration::from_micros(500);

const CREDIT_MAX: u32 = 64;
/// What a look that found nothing costs, in looks that found something.
const MISS_COST: u32 = 4;
/// What it costs to meet others who want the processor.
const CROWD_COST: u32 = 16;
/// After how many waits it is tried again, and with which credit; after ever more, so many
/// times double, while others want the processor: to find out gives it to them for a millisecond.
const PAUSE: u32 = 512;
const DOUBLINGS_MAX: u32 = 6;
const CREDIT_ANEW: u32 = 16;

/// What a look came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// An event came.
    Found,
    /// Nothing came.
    Missed,
    /// Others want the processor.
    Crowded,
}

/// Keeps account of whether looking pays.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spin {
    credit: u32,
    pause: u32,
    /// How often the next pause is doubled.
    doublings: u32,
}

impl Spin {
    /// Whether to look before the next sleep, where the last wait took so long.
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

    /// Takes what a look came to into account.
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

    /// Of so many waits, how many begin with a look, when every look comes to this.
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
    fn looks_while_it_pays() {
        let mut spin = Spin::default();
        assert_eq!(looks(&mut spin, 10_000, Look::Found), 10_000);
    }

    #[test]
    fn ends_soon_when_it_does_not_pay_and_tries_again() {
        let mut spin = Spin::default();
        looks(&mut spin, 1000, Look::Found);
        assert_eq!(looks(&mut spin, PAUSE, Look::Missed), CREDIT_MAX / MISS_COST);
        assert!(looks(&mut spin, 100_000, Look::Missed) < 1000);
        assert!(looks(&mut spin, 100_000, Look::Crowded) < 20);
        looks(&mut spin, (PAUSE << DOUBLINGS_MAX) + 1, Look::Found);
        assert_eq!(looks(&mut spin, 10_000, Look::Found), 10_000);
    }

    #[test]
    fn never_looks_when_idle() {
        let mut spin = Spin::default();
        looks(&mut spin, 1000, Look::Found);
        assert!(!spin.should_look(Duration::from_millis(1)));
    }
}
