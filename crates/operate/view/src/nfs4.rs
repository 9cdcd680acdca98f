//! The clients, sessions, states and operations of NFS version 4.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use leasehold_serve::{Nfs4, Nfs4Totals, OperationCounts};
use leasehold_shell::clock;
use serde::{Deserialize, Serialize};

use crate::snapshot::Work;

/// The clients and states of version 4, and the counts of its operations.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Nfs4View {
    /// The clients.
    pub clients: usize,
    /// The clients that keep their state as a courtesy after their lease has expired.
    pub courteous: usize,
    /// The sessions.
    pub sessions: usize,
    /// The slots in which requests run.
    pub busy_slots: usize,
    /// The opens.
    pub opens: usize,
    /// The locked ranges.
    pub locks: usize,
    /// The requests that wait for a lock.
    pub waiters: usize,
    /// The operations that clients have sent.
    pub operations: Vec<OperationView>,
}

/// An operation and its runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OperationView {
    /// Its name.
    pub name: String,
    /// True if the operation changes something.
    pub changes: bool,
    /// The failed runs, by the name of the status.
    pub errors: BTreeMap<String, u64>,
    /// The failed runs with a status that the RFCs do not list for the operation.
    pub unlisted: u64,
    /// Its runs.
    #[serde(flatten)]
    pub work: Work,
}

impl Nfs4View {
    /// Reads the front end of version 4.
    #[must_use]
    pub fn of(nfs4: &Nfs4) -> Self {
        let Nfs4Totals { clients, courteous, sessions, busy_slots, opens, locks, waiters } =
            nfs4.totals(clock::now());
        let operations = nfs4.operations().into_iter().map(OperationView::from).collect();
        Self { clients, courteous, sessions, busy_slots, opens, locks, waiters, operations }
    }

    /// Formats the numbers as a line.
    pub(crate) fn line(&self) -> String {
        let mut line = format!("NFS 4: {} clients", self.clients);
        if self.courteous > 0 {
            let _ = write!(line, " ({} expired)", self.courteous);
        }
        let Self { sessions, busy_slots, opens, locks, waiters, .. } = self;
        let _ = write!(
            line,
            ", {sessions} sessions, {busy_slots} busy slots, {opens} opens, {locks} locks, \
             {waiters} waiters"
        );
        line
    }
}

impl From<OperationCounts> for OperationView {
    fn from(counts: OperationCounts) -> Self {
        Self {
            name: counts.name.to_owned(),
            changes: counts.changes,
            errors: counts.failed,
            unlisted: counts.unlisted,
            work: Work::from(&counts.tally),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_counts_expired_clients_only_if_there_are_any() {
        let view = Nfs4View { clients: 2, sessions: 3, opens: 4, ..Nfs4View::default() };
        let rest = ", 3 sessions, 0 busy slots, 4 opens, 0 locks, 0 waiters";
        assert_eq!(view.line(), format!("NFS 4: 2 clients{rest}"));
        let view = Nfs4View { courteous: 1, ..view };
        assert_eq!(view.line(), format!("NFS 4: 2 clients (1 expired){rest}"));
    }
}
