//! Quantities that must not be mixed up.

use core::fmt;
use core::time::Duration;

/// A moment on a clock that never goes back and goes on in suspend, in nanoseconds from an
/// arbitrary start. Only the shell and the simulator make one; all others are handed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The start of the clock.
    pub const ZERO: Self = Self(0);

    /// The moment `nanoseconds` after the start of the clock.
    #[must_use]
    pub const fn from_nanoseconds(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the start of the clock.
    #[must_use]
    pub const fn as_nanoseconds(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this moment; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl core::ops::Add<Duration> for Time {
    type Output = Self;

    /// Stops at the end of the clock, 584 years after its start.
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// A time of day as files carry it: seconds since 1970 in UTC, negative before, and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileTime {
    /// Whole seconds since 1970-01-01 00:00 UTC.
    pub seconds: i64,
    /// Nanoseconds within the second, below 1,000,000,000.
    pub nanoseconds: u32,
}

/// Names a connection: no two that were ever open in one process have the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    /// The loop that serves it.
    pub event_loop: u32,
    /// Its place in the loop.
    pub slot: u32,
    /// How many connections had that place before.
    pub generation: u32,
}

/// The number of a file within its file system; never reused together with a generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

/// The number that tells one file system of a server from another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileSystemId(pub u64);

/// A position in a directory that stays good while names come and go; zero is the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cookie(pub u64);

/// The number by which an RPC reply finds its call (RFC 5531 section 9).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xid(pub u32);

impl fmt::Debug for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Xid({:#010x})", self.0)
    }
}
