//! Calls, counted.

use core::time::Duration;

use super::Histogram;
use super::streak::Calls;

/// How long a call took that was timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// How long it stood behind others before its loop took it up.
    pub waited: Duration,
    /// How long the loop was busy with it when it did.
    pub busy: Duration,
    /// From when it could be taken up to when its reply was there, what it slept included.
    pub latency: Duration,
}

/// Calls, counted; of those that were timed, the times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All calls.
    pub calls: u64,
    /// Those that did not succeed.
    pub failed: u64,
    /// The bytes of the calls.
    pub bytes_in: u64,
    /// The bytes of the replies.
    pub bytes_out: u64,
    /// Calls that were timed.
    pub timed: u64,
    /// How long those stood behind others, together.
    pub waited: Duration,
    /// How long a loop was busy with those, together.
    pub busy: Duration,
    /// How long those took.
    pub latency: Histogram,
}

impl Tally {
    /// Adds calls that were counted.
    pub(super) fn add(&mut self, calls: &Calls) {
        self.calls += calls.calls;
        self.failed += calls.failed;
        self.bytes_in += calls.bytes_in;
        self.bytes_out += calls.bytes_out;
    }

    /// Adds how long a call took.
    pub(super) fn time(&mut self, timing: &Timing) {
        self.timed += 1;
        self.waited += timing.waited;
        self.busy += timing.busy;
        self.latency.add(timing.latency);
    }

    /// Adds another.
    pub fn fold(&mut self, other: &Self) {
        self.calls += other.calls;
        self.failed += other.failed;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.timed += other.timed;
        self.waited += other.waited;
        self.busy += other.busy;
        self.latency.fold(&other.latency);
    }
}
