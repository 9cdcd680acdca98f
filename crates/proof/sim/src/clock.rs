//! The simulated clock of a host: it starts at a random time, and runs slightly fast or slow.

use core::time::Duration;

use leasehold_base::random::Random;
use leasehold_base::units::Time;

const MILLION: u128 = 1_000_000;

/// The maximum drift of a clock, in millionths: far more than the drift of any quartz clock.
const DRIFT_PPM_MAX: u64 = 1000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    offset: u64,
    /// The number of nanoseconds that this clock advances in a true millisecond.
    rate: u128,
}

impl Clock {
    pub(crate) fn draw(random: &mut Random) -> Self {
        Self::drifting(random, DRIFT_PPM_MAX)
    }

    /// Creates a clock with a drift of at most `drift_ppm_max` millionths.
    pub(crate) fn drifting(random: &mut Random, drift_ppm_max: u64) -> Self {
        let drift = random.below(2 * drift_ppm_max + 1);
        let offset = Duration::from_secs(random.below(1_000_000));
        Self {
            offset: u64::try_from(offset.as_nanos()).expect("a million seconds fit 64 bits"),
            rate: MILLION - u128::from(drift_ppm_max) + u128::from(drift),
        }
    }

    /// Converts true time to the time of this clock.
    pub(crate) fn local(self, now: Time) -> Time {
        let run = u128::from(now.as_nanoseconds()) * self.rate / MILLION;
        Time::from_nanoseconds(self.offset + u64::try_from(run).expect("worlds are short"))
    }

    /// Returns the first true time at which the clock shows `local` or a later time.
    pub(crate) fn moment(self, local: Time) -> Time {
        let run = u128::from(local.as_nanoseconds().saturating_sub(self.offset));
        let moment = (run * MILLION).div_ceil(self.rate);
        Time::from_nanoseconds(u64::try_from(moment).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_rings_at_its_time() {
        let mut random = Random::from_seed(1);
        for _ in 0..1000 {
            let clock = Clock::draw(&mut random);
            let alarm = clock.local(Time::from_nanoseconds(random.below(1 << 50)));
            let rings = clock.moment(alarm);
            assert!(clock.local(rings) >= alarm);
            let before = Time::from_nanoseconds(rings.as_nanoseconds().saturating_sub(1));
            assert!(clock.local(before) < alarm || before == rings);
        }
    }
}
