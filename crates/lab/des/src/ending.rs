//! The endings of a study without narrow intervals.

use crate::engine::Runaway;
use core::fmt;

/// The reasons for which a model cannot be simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StudyError {
    /// Its customers and caches exceed the memory limit.
    TooLarge {
        /// The minimum for one replication, in bytes.
        bytes: u128,
        /// The limit for all replications together, in bytes.
        limit: u128,
    },
    /// It would never end.
    Runaway(Runaway),
}

impl fmt::Display for StudyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { bytes, limit } => write!(
                f,
                "the customers and caches of one replication take {} MiB, all replications \
                 together may take {} MiB; simulate fewer customers, smaller caches or fewer \
                 replications",
                bytes >> 20,
                limit >> 20
            ),
            Self::Runaway(runaway) => runaway.fmt(f),
        }
    }
}

impl core::error::Error for StudyError {}

/// The shortfall of a finished study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// The simulated time covers too few of the time constants in the model.
    OwnTimes,
    /// The last half of the time differs from the part before.
    Unsteady,
    /// Intervals are wider than requested.
    Wide,
}

impl Shortfall {
    /// Returns the shortfall as a word, for a table.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::OwnTimes => "time",
            Self::Unsteady => "steadiness",
            Self::Wide => "width",
        }
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OwnTimes => {
                "the longest time that the model names (a lease, a phase, a crash) has not passed \
                 eight times"
            }
            Self::Unsteady => {
                "the second half is still unlike the first: queues grow without end or caches fill"
            }
            Self::Wide => "intervals are wider than wanted",
        })
    }
}
