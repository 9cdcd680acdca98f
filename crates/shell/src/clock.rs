//! The clock.

use std::io;
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

/// How the time of day is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Discipline {
    /// Whether a program keeps it by other clocks.
    pub is_synchronized: bool,
    /// By how much it may be off, in seconds, as far as that program knows.
    pub error_max_s: f64,
    /// How much faster it is made to run, in millionths.
    pub drift_ppm: f64,
}

/// How the kernel says that the time of day is kept.
///
/// # Errors
/// It does not say.
pub fn discipline() -> io::Result<Discipline> {
    let (kept, state) = sys::clock_discipline()?;
    let unsynchronized = state == libc::TIME_ERROR || kept.status & libc::STA_UNSYNC != 0;
    #[allow(clippy::cast_precision_loss, reason = "microseconds of seconds, parts of millionths")]
    let (error, frequency) = (kept.maxerror as f64, kept.freq as f64);
    Ok(Discipline {
        is_synchronized: !unsynchronized,
        error_max_s: error / 1e6,
        // The kernel has it in 65,536ths of a millionth.
        drift_ppm: frequency / 65_536.0,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn never_goes_back() {
        let first = super::now();
        assert!(super::now() >= first && first.as_nanoseconds() > 0);
    }

    #[test]
    fn the_kernel_says_how_it_is_kept() {
        let kept = super::discipline().expect("every kernel of Linux does");
        assert!(kept.error_max_s >= 0.0 && kept.drift_ppm.abs() <= 1000.0, "{kept:?}");
    }
}
