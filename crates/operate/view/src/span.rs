//! The activity between two snapshots.

use std::collections::BTreeMap;

use leasehold_serve::account::{BUCKETS, Histogram};
use serde::Serialize;

use crate::nfs4::Nfs4View;
use crate::snapshot::{Latency, LoopView, Snapshot, Work};

/// The activity between two snapshots: each count since the start is replaced by its increase.
/// Current values, such as open connections, come from the second snapshot.
#[derive(Clone, Debug, Serialize)]
pub struct Span {
    /// The length of the span, in seconds.
    pub seconds: f64,
    /// The increases.
    pub added: Snapshot,
}

impl Span {
    /// Returns the activity between two snapshots of one server; if the server restarted, all its
    /// activity since the start.
    #[must_use]
    pub fn between(before: &Snapshot, after: &Snapshot) -> Self {
        if before.pid != after.pid || before.uptime_s > after.uptime_s {
            return Self::since_start(after);
        }
        let mut added = after.clone();
        added.total.take(&before.total);
        added.others.take(&before.others);
        let exports: BTreeMap<_, _> = before.exports.iter().map(|one| (&one.name, one)).collect();
        for export in &mut added.exports {
            if let Some(before) = exports.get(&export.name) {
                export.work.take(&before.work);
            }
        }
        let clients: BTreeMap<_, _> = before.clients.iter().map(|one| (one.address, one)).collect();
        for client in &mut added.clients {
            if let Some(before) = clients.get(&client.address) {
                client.work.take(&before.work);
            }
        }
        for procedure in &mut added.procedures {
            let is_it = |one: &&crate::ProcedureView| {
                (&one.program, one.version, &one.name)
                    == (&procedure.program, procedure.version, &procedure.name)
            };
            if let Some(before) = before.procedures.iter().find(is_it) {
                procedure.work.take(&before.work);
                take_counts(&mut procedure.errors, &before.errors);
            }
        }
        if let (Some(added), Some(before)) = (&mut added.nfs4, &before.nfs4) {
            added.take(before);
        }
        for (one, before) in added.loops.iter_mut().zip(&before.loops) {
            one.take(before);
        }
        take_counts(&mut added.events, &before.events);
        added.replies.resent = added.replies.resent.saturating_sub(before.replies.resent);
        added.syncs.done = added.syncs.done.saturating_sub(before.syncs.done);
        added.syncs.failed = added.syncs.failed.saturating_sub(before.syncs.failed);
        added.syncs.time_s = (added.syncs.time_s - before.syncs.time_s).max(0.0);
        Self { seconds: after.uptime_s - before.uptime_s, added }
    }

    /// Returns all activity since the start of the server.
    #[must_use]
    pub fn since_start(snapshot: &Snapshot) -> Self {
        Self { seconds: snapshot.uptime_s, added: snapshot.clone() }
    }

    /// Returns a count per second.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a rate")]
    pub fn rate(&self, count: u64) -> f64 {
        if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 }
    }

    /// Returns the share of the serving processors that calls kept busy: 1.0 means all of them.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a share")]
    pub fn share(&self, work: &Work) -> f64 {
        let all = self.seconds * self.added.loops.len().max(1) as f64;
        if all > 0.0 { (work.busy_of_all_s() / all).min(1.0) } else { 0.0 }
    }
}

impl Work {
    fn take(&mut self, before: &Self) {
        self.calls = self.calls.saturating_sub(before.calls);
        self.failed = self.failed.saturating_sub(before.failed);
        self.bytes_in = self.bytes_in.saturating_sub(before.bytes_in);
        self.bytes_out = self.bytes_out.saturating_sub(before.bytes_out);
        self.timed = self.timed.saturating_sub(before.timed);
        self.waited_s = (self.waited_s - before.waited_s).max(0.0);
        self.busy_s = (self.busy_s - before.busy_s).max(0.0);
        let mut counts = [0; BUCKETS];
        let pairs = self.latency.0.counts().iter().zip(before.latency.0.counts());
        for (left, (after, before)) in counts.iter_mut().zip(pairs) {
            *left = after.saturating_sub(*before);
        }
        self.latency = Latency(Histogram::of(counts));
    }
}

impl Nfs4View {
    fn take(&mut self, before: &Self) {
        for operation in &mut self.operations {
            if let Some(before) = before.operations.iter().find(|one| one.name == operation.name) {
                operation.work.take(&before.work);
                take_counts(&mut operation.errors, &before.errors);
                operation.unlisted = operation.unlisted.saturating_sub(before.unlisted);
            }
        }
    }
}

impl LoopView {
    fn take(&mut self, before: &Self) {
        self.awake_s = (self.awake_s - before.awake_s).max(0.0);
    }
}

fn take_counts(counts: &mut BTreeMap<String, u64>, before: &BTreeMap<String, u64>) {
    for (name, count) in counts {
        *count = count.saturating_sub(before.get(name).copied().unwrap_or(0));
    }
}
