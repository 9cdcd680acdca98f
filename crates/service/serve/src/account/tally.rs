//! Counters of calls.

use core::time::Duration;

use super::Histogram;
use super::streak::Calls;

/// The durations of a timed call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// The time for which the call waited before its loop started to process the call.
    pub waited: Duration,
    /// The time for which the loop then processed the call.
    pub busy: Duration,
    /// The time from the beginning of that wait to the reply, including all waits of the call.
    pub latency: Duration,
}

/// Counters of calls, with the durations of timed calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of calls.
    pub calls: u64,
    /// The number of calls that failed.
    pub failed: u64,
    /// The number of bytes of the calls.
    pub bytes_in: u64,
    /// The number of bytes of the replies.
    pub bytes_out: u64,
    /// The number of timed calls.
    pub timed: u64,
    /// The total queueing time of timed calls.
    pub waited: Duration,
    /// The total working time of timed calls.
    pub busy: Duration,
    /// The latencies of timed calls.
    pub latency: Histogram,
}

impl Tally {
    /// Adds counters of calls.
    pub(super) fn add(&mut self, calls: &Calls) {
        self.calls += calls.calls;
        self.failed += calls.failed;
        self.bytes_in += calls.bytes_in;
        self.bytes_out += calls.bytes_out;
    }

    /// Adds the durations of a timed call.
    pub(crate) fn time(&mut self, timing: &Timing) {
        self.timed += 1;
        self.waited += timing.waited;
        self.busy += timing.busy;
        self.latency.add(timing.latency);
    }

    /// Adds the counters of `other`.
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
