//! The clock.

use leasehold_base::units::Time;

use crate::sys;

/// Reads the clock: it never goes back, and goes on in suspend.
#[must_use]
pub fn now() -> Time {
    let now = sys::time_since_boot();
    let seconds = u64::try_from(now.tv_sec).expect("the time since boot is not negative");
    let nanoseconds = u64::try_from(now.tv_nsec).expect("a part of a second is not negative");
    Time::from_nanoseconds(seconds * 1_000_000_000 + nanoseconds)
}

#[cfg(test)]
mod tests {
    #[test]
    fn never_goes_back() {
        let first = super::now();
        assert!(super::now() >= first && first.as_nanoseconds() > 0);
    }
}
