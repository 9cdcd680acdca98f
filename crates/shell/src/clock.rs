//! The clocks of the machine.

use std::io;
use std::time::SystemTime;

use leasehold_base::units::{FileTime, Time};

use crate::sys;

/// Reads the monotonic clock, which includes suspended time.
#[must_use]
pub fn now() -> Time {
    let now = sys::time_since_boot();
    let seconds = u64::try_from(now.tv_sec).expect("the time since boot is not negative");
    let nanoseconds = u64::try_from(now.tv_nsec).expect("a part of a second is not negative");
    Time::from_nanoseconds(seconds * 1_000_000_000 + nanoseconds)
}

/// Returns the time of day.
#[must_use]
pub fn time_of_day() -> FileTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    FileTime { seconds, nanoseconds: since.subsec_nanos() }
}

/// Returns the time of day in seconds since 1970, for clients of the time protocol.
#[must_use]
pub fn seconds_since_1970() -> u32 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // The time protocol has 32 bits as well, so a later time becomes the greatest value.
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

/// The synchronization state of the time of day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Discipline {
    /// True if a program synchronizes the clock.
    pub is_synchronized: bool,
    /// The maximum error in seconds, as reported by that program.
    pub error_max_s: f64,
    /// The frequency correction, in parts per million.
    pub drift_ppm: f64,
}

/// Returns the kernel's synchronization state of the time of day.
///
/// # Errors
/// The kernel does not report the state.
pub fn discipline() -> io::Result<Discipline> {
    let (kept, state) = sys::clock_discipline()?;
    let unsynchronized = state == libc::TIME_ERROR || kept.status & libc::STA_UNSYNC != 0;
    #[allow(clippy::cast_precision_loss, reason = "microseconds of seconds, parts of millionths")]
    let (error, frequency) = (kept.maxerror as f64, kept.freq as f64);
    Ok(Discipline {
        is_synchronized: !unsynchronized,
        error_max_s: error / 1e6,
        // The kernel reports the frequency in units of 1/65,536 part per million.
        drift_ppm: frequency / 65_536.0,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn clock_never_goes_back() {
        let first = super::now();
        assert!(super::now() >= first && first.as_nanoseconds() > 0);
    }

    #[test]
    fn kernel_reports_the_synchronization_state() {
        let kept = super::discipline().expect("every kernel of Linux does");
        assert!(kept.error_max_s >= 0.0 && kept.drift_ppm.abs() <= 1000.0, "{kept:?}");
    }
}
