//! Reports with the combined counters of all loops.

use core::time::Duration;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};

use leasehold_base::limits::durations::LOOP_REPORT_TIMEOUT;
use leasehold_base::units::Time;
use leasehold_serve::account::Account;

use crate::clock;
use crate::counters::Counters;
use crate::server::Shared;

/// The state of one loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopReport {
    /// The number of open connections.
    pub connections: usize,
    /// The number of waiting calls.
    pub parked: usize,
    /// The bytes of memory that waiting calls hold.
    pub parked_bytes: usize,
    /// The bytes of memory for unsent replies.
    pub unsent_bytes: usize,
    /// The bytes of memory for partly received records.
    pub held_bytes: usize,
    /// The time for which the loop has slept since the start.
    pub slept: Duration,
}

/// The reply of a loop to a request for its counters.
pub(crate) struct Told {
    pub(crate) report: LoopReport,
    pub(crate) account: Account,
}

/// The combined replies of all loops.
pub struct Report {
    /// The time of the request, on the clock of the process.
    pub at: Time,
    /// The time since the server started.
    pub age: Duration,
    /// The combined counters.
    pub account: Account,
    /// The states of the loops that replied in time.
    pub loops: Vec<LoopReport>,
    /// The number of loops that did not reply in time.
    pub silent: usize,
}

/// Requests the counters of a server's loops.
#[derive(Clone)]
pub struct Reporter(Arc<Shared>);

impl Reporter {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Requests the counters of all loops, and combines them. Each loop replies between two of its
    /// rounds.
    #[must_use]
    pub fn report(&self) -> Report {
        let at = clock::now();
        let (sender, answers) = mpsc::channel::<Box<Told>>();
        let asked = self.0.remotes.len();
        self.0.remotes.iter().for_each(|remote| remote.tell(Sender::clone(&sender)));
        drop(sender);
        let (mut account, mut loops) = (Account::new(), Vec::new());
        // The wait ends when all loops have replied, or have dropped their sender because they have
        // ended, or at the timeout.
        while loops.len() < asked
            && let left = (at + LOOP_REPORT_TIMEOUT).since(clock::now())
            && let Ok(told) = answers.recv_timeout(left)
        {
            account.fold(&told.account);
            loops.push(told.report);
        }
        let silent = asked - loops.len();
        Report { at, age: at.since(self.0.started), account, loops, silent }
    }

    /// Returns the counters of rare events.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.0.counters
    }
}
