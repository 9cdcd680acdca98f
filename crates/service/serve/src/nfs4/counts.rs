//! The counters of operations.
//!
//! The counters are always on. Each event loop has counters of its own, whose mutex only a reader
//! contends for. One compound in sixteen is timed: the digest of its bytes decides, because
//! compounds arrive in patterns.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use leasehold_base::units::Time;
use leasehold_wire::nfs4::{Operation, Status};

use super::operations;
use crate::account::{TIMED_ONE_IN, Tally, Timing};

/// The number of event loops with counters of their own; further loops share counters.
const SHARDS: usize = 16;

/// A function that returns the current time.
pub(super) type Clock = fn() -> Time;

/// The counters of all operations.
pub(super) struct Counts {
    shards: Vec<Mutex<BTreeMap<Named, Counted>>>,
    clock: OnceLock<Clock>,
}

/// The operation of counters; None for a number that the minor version does not have.
type Named = Option<Operation>;

#[derive(Clone, Default)]
struct Counted {
    tally: Tally,
    failed: BTreeMap<Status, u64>,
}

/// The counters of an operation.
#[derive(Clone, Debug)]
pub struct OperationCounts {
    /// The name in the RFC; `ILLEGAL` for numbers that the minor version does not have.
    pub name: &'static str,
    /// The counters of its runs. The bytes are the bytes of its arguments and results.
    pub tally: Tally,
    /// The numbers of failed runs by status, in small letters without the prefix of the RFC.
    pub failed: BTreeMap<String, u64>,
    /// True if the operation changes something.
    pub changes: bool,
    /// The number of failed runs whose status the RFCs do not list for the operation.
    pub unlisted: u64,
}

/// A run of an operation.
pub(super) struct Ran {
    pub(super) operation: Named,
    pub(super) failed: Option<Status>,
    /// The sizes of arguments and results.
    pub(super) bytes_in: usize,
    pub(super) bytes_out: usize,
    pub(super) timing: Option<Timing>,
}

impl Counts {
    pub(super) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), clock: OnceLock::new() }
    }

    /// Sets the clock; without a clock the durations of operations are not measured.
    pub(super) fn time_by(&self, clock: Clock) {
        // A second clock is never set: a service has one shell.
        let _ = self.clock.set(clock);
    }

    /// Returns the clock if a compound with this digest is timed.
    pub(super) fn clock(&self, digest: u64) -> Option<Clock> {
        let is_timed = digest.is_multiple_of(u64::from(TIMED_ONE_IN));
        self.clock.get().copied().filter(|_| is_timed)
    }

    /// Counts a run of an operation in the counters of an event loop.
    pub(super) fn add(&self, event_loop: u32, ran: &Ran) {
        let shard = usize::try_from(event_loop).unwrap_or_default() % SHARDS;
        let mut shard = self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner);
        let counted = shard.entry(ran.operation).or_default();
        counted.tally.calls += 1;
        counted.tally.bytes_in += ran.bytes_in as u64;
        counted.tally.bytes_out += ran.bytes_out as u64;
        if let Some(status) = ran.failed {
            counted.tally.failed += 1;
            *counted.failed.entry(status).or_default() += 1;
        }
        if let Some(timing) = &ran.timing {
            counted.tally.time(timing);
        }
    }

    /// Returns the counters of the operations that clients have sent.
    pub(super) fn all(&self) -> Vec<OperationCounts> {
        let mut sum: BTreeMap<Named, Counted> = BTreeMap::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for (operation, counted) in shard {
                let all = sum.entry(operation).or_default();
                all.tally.fold(&counted.tally);
                for (status, count) in counted.failed {
                    *all.failed.entry(status).or_default() += count;
                }
            }
        }
        sum.into_iter().map(|(operation, counted)| counted.view(operation)).collect()
    }
}

impl Counted {
    fn view(self, operation: Named) -> OperationCounts {
        let row = operation.and_then(operations::row);
        let is_unlisted = |status: Status| row.is_some_and(|row| !row.permits(status));
        let unlisted = self.failed.iter().filter(|(status, _)| is_unlisted(**status));
        OperationCounts {
            name: operation.map_or("ILLEGAL", Operation::name),
            unlisted: unlisted.map(|(_, count)| count).sum(),
            tally: self.tally,
            failed: self.failed.iter().map(|(one, count)| (label(*one), *count)).collect(),
            changes: row.is_some_and(operations::Row::changes),
        }
    }
}

/// Returns a status in the form of the statuses of procedures.
fn label(status: Status) -> String {
    let name = status.name();
    name.strip_prefix("NFS4ERR_").unwrap_or(name).to_ascii_lowercase().replace('_', "-")
}

/// Runs an operation, and measures its duration and the time in which it kept its loop busy.
pub(super) async fn timed<T>(clock: Clock, running: impl Future<Output = T>) -> (T, Timing) {
    let (began, mut busy) = (clock(), Duration::ZERO);
    let mut running = pin!(running);
    let result = poll_fn(|context| {
        let before = clock();
        let polled = running.as_mut().poll(context);
        busy += clock().since(before);
        polled
    })
    .await;
    (result, Timing { waited: Duration::ZERO, busy, latency: clock().since(began) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(failed: Option<Status>) -> Ran {
        let timing = Timing { latency: Duration::from_millis(2), ..Timing::default() };
        let operation = Some(Operation::Lookup);
        Ran { operation, failed, bytes_in: 12, bytes_out: 8, timing: Some(timing) }
    }

    #[test]
    fn counters_of_loops_are_summed() {
        let counts = Counts::new();
        counts.add(0, &ran(None));
        counts.add(1, &ran(Some(Status::NotFound)));
        counts.add(1, &Ran { operation: None, ..ran(Some(Status::IllegalOperation)) });
        let all = counts.all();
        let names: Vec<_> = all.iter().map(|one| (one.name, one.tally.calls)).collect();
        assert_eq!(names, [("ILLEGAL", 1), ("LOOKUP", 2)]);
        assert_eq!((all[1].unlisted, all[1].changes), (0, false));
        assert_eq!((all[1].tally.failed, all[1].tally.bytes_in, all[1].tally.timed), (1, 24, 2));
        assert_eq!(all[1].failed, BTreeMap::from([("noent".to_owned(), 1)]));
        assert_eq!(all[0].failed, BTreeMap::from([("op-illegal".to_owned(), 1)]));
    }

    #[test]
    fn compounds_are_timed_with_a_clock_only() {
        let counts = Counts::new();
        assert!(counts.clock(0).is_none());
        counts.time_by(|| Time::ZERO);
        assert!(counts.clock(0).is_some() && counts.clock(1).is_none());
    }
}
