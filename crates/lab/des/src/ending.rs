//! How a study can end otherwise than with narrow intervals.

use crate::engine::Runaway;
use core::fmt;

/// Why a model has no simulated answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StudyError {
    /// Its customers and caches do not fit in memory.
    TooLarge {
        /// What one replication needs at least.
        bytes: u128,
        /// What all replications may take together.
        limit: u128,
    },
    /// It would run for ever.
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

/// What a study that has ended still lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortfall {
    /// The times that the model itself names have not passed often enough.
    OwnTimes,
    /// The last half of the time is unlike the one before.
    Unsteady,
    /// Intervals are wider than wanted.
    Wide,
}

impl Shortfall {
    /// It in a word, for a table.
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
