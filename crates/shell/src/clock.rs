//! The clock.

use std::time::SystemTime;

use leasehold_base::units::{FileTime, Time};

use crate::sys;

/// Reads the clock: it never goes back, and goes on in suspend.
#[must_use]
pub fn now() -> Time {
    let now = sys::time_since_boot();
    let seconds = u64::try_from(now.tv_sec).expect("the time since boot is not negative");
    let nanoseconds = u64::try_from(now.tv_nsec).expect("a part of a second is not negative");
    Time::from_nanoseconds(seconds * 1_000_000_000 + nanoseconds)
}

/// The time of day.
#[must_use]
pub fn time_of_day() -> FileTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    FileTime { seconds, nanoseconds: since.subsec_nanos() }
}

/// The time of day: seconds since 1970, for whoever asks for it.
#[must_use]
pub fn seconds_since_1970() -> u32 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // Its clients have no more bits for it either.
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    #[test]
    fn never_goes_back() {
        let first = super::now();
        assert!(super::now() >= first && first.as_nanoseconds() > 0);
    }
}
