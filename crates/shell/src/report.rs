//! What the loops have counted, put together when somebody asks.

use core::time::Duration;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};

use leasehold_base::units::Time;
use leasehold_serve::account::Account;

use crate::clock;
use crate::counters::Counters;
use crate::server::Shared;

/// How long a loop may take to answer. Nothing that it does takes long, but it may be kept from a
/// processor.
const PATIENCE: Duration = Duration::from_secs(2);

/// How one loop is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopReport {
    /// Its open connections.
    pub connections: usize,
    /// Its calls that wait.
    pub parked: usize,
    /// Bytes of memory that those hold.
    pub parked_bytes: usize,
    /// Bytes of memory for replies that are not all sent.
    pub unsent_bytes: usize,
    /// Bytes of memory for records of which a part has come.
    pub held_bytes: usize,
    /// How long it had nothing to do since it was started.
    pub slept: Duration,
}

/// What a loop tells.
pub(crate) struct Told {
    pub(crate) report: LoopReport,
    pub(crate) account: Account,
}

/// What all loops tell.
pub struct Report {
    /// When they were asked, on the clock of the process.
    pub at: Time,
    /// How long the server runs.
    pub age: Duration,
    /// What they have counted, together.
    pub account: Account,
    /// How each of those is that answered in time.
    pub loops: Vec<LoopReport>,
    /// How many did not.
    pub silent: usize,
}

/// Asks the loops of a server.
#[derive(Clone)]
pub struct Reporter(Arc<Shared>);

impl Reporter {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Asks all loops; each answers between two of its rounds.
    #[must_use]
    pub fn report(&self) -> Report {
        let at = clock::now();
        let (sender, answers) = mpsc::channel::<Box<Told>>();
        let asked = self.0.remotes.len();
        self.0.remotes.iter().for_each(|remote| remote.tell(Sender::clone(&sender)));
        drop(sender);
        let (mut account, mut loops) = (Account::new(), Vec::new());
        // A loop that has ended has dropped its way to answer.
        while loops.len() < asked
            && let left = (at + PATIENCE).since(clock::now())
            && let Ok(told) = answers.recv_timeout(left)
        {
            account.fold(&told.account);
            loops.push(told.report);
        }
        let silent = asked - loops.len();
        Report { at, age: at.since(self.0.started), account, loops, silent }
    }

    /// How often what happened so far that seldom happens.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.0.counters
    }
}
