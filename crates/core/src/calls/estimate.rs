//! The timeout of a reply to a datagram (RFC 6298 section 2).

use core::time::Duration;

/// The timeout before any measurement (RFC 6298 2.1).
const INITIAL: Duration = Duration::from_secs(1);

/// The shortest timeout, equal to the shortest timeout of RPC in Linux. RFC 6298 2.4 requires one
/// second, for the internet; a local server answers within about a millisecond, and a disk within
/// about ten.
const MIN: Duration = Duration::from_millis(100);

/// The longest timeout (RFC 6298 2.5 permits no shorter maximum).
pub(super) const MAX: Duration = Duration::from_secs(60);

/// The round trips of one kind of call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Estimate {
    /// SRTT and RTTVAR, after the first measurement.
    measured: Option<(Duration, Duration)>,
    timeout: Duration,
}

impl Default for Estimate {
    fn default() -> Self {
        Self { measured: None, timeout: INITIAL }
    }
}

impl Estimate {
    /// Returns the timeout for the first copy of a call.
    pub(super) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Records the round trip of a call that was sent once.
    pub(super) fn measured(&mut self, round_trip: Duration) {
        let (smoothed, variation) = match self.measured {
            None => (round_trip, round_trip / 2),
            Some((smoothed, variation)) => {
                let variation = variation * 3 / 4 + smoothed.abs_diff(round_trip) / 4;
                (smoothed * 7 / 8 + round_trip / 8, variation)
            }
        };
        self.measured = Some((smoothed, variation));
        self.timeout = (smoothed + variation * 4).clamp(MIN, MAX);
    }

    /// Applies the timeout of a repeated call until the next measurement.
    pub(super) fn back_off(&mut self, patience: Duration) {
        self.timeout = self.timeout.max(patience).min(MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn follows_the_rfc() {
        let mut estimate = Estimate::default();
        assert_eq!(estimate.timeout(), ms(1000), "2.1");
        estimate.measured(ms(400));
        assert_eq!(estimate.timeout(), ms(400 + 4 * 200), "2.2");
        estimate.measured(ms(800));
        assert_eq!(estimate.timeout(), ms(450 + 4 * 250), "2.3, the variation before the mean");
    }

    #[test]
    fn is_bounded_and_backs_off_until_measured() {
        let mut estimate = Estimate::default();
        estimate.measured(ms(1));
        assert_eq!(estimate.timeout(), MIN);
        estimate.back_off(ms(800));
        estimate.back_off(ms(400));
        assert_eq!(estimate.timeout(), ms(800), "a shorter time does not undo a longer");
        estimate.back_off(ms(600_000));
        assert_eq!(estimate.timeout(), MAX);
        estimate.measured(ms(1));
        assert_eq!(estimate.timeout(), MIN);
    }
}
