//! All counts since the server started.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_serve::account::{BUCKETS, Counted, Histogram, OUTCOMES, Tally};
use leasehold_serve::{LeaseCounts, Nfs4, ReplyCache, Service};
use leasehold_shell::{Counters, Report, Reporter};
use serde::{Deserialize, Serialize};

use crate::nfs4::Nfs4View;
use crate::volumes::VolumeView;

/// The source of snapshots: a running server.
pub struct Source {
    /// Reports the counts of its event loops.
    pub reporter: Reporter,
    /// The service of the event loops.
    pub service: Arc<Service>,
    /// The front end of NFS version 4, if the server serves the version.
    pub nfs4: Option<Arc<Nfs4>>,
    /// The durability of changes: `disk` or `memory`.
    pub durability: &'static str,
    /// The addresses that it listens on.
    pub addresses: Vec<String>,
    /// Returns the counts of its stores' syncs.
    pub syncs: Box<dyn Fn() -> SyncView + Send + Sync>,
    /// Returns the number of guards of leased files that the stores rejected for lack of a
    /// resource.
    pub guards_refused: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Returns the number of operations for which the stores had no descriptor.
    pub descriptors_lacked: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Returns its state in a group of metaservers.
    pub metaserver: Box<dyn Fn() -> Option<MetaserverView> + Send + Sync>,
    /// Returns the number of open file systems below exports with `cross`.
    pub crossed: Box<dyn Fn() -> usize + Send + Sync>,
    /// Returns the state of its volumes, which queries their iods and metaservers.
    pub volumes: Box<dyn Fn() -> Vec<VolumeView> + Send + Sync>,
}

/// All counts since the server started, and its current state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// The program's version.
    pub version: String,
    /// The process id.
    pub pid: u32,
    /// The time of the snapshot, in seconds since 1970.
    pub at_s: f64,
    /// The time since the start, in seconds.
    pub uptime_s: f64,
    /// The durability of changes: `disk` or `memory`.
    pub durability: String,
    /// The addresses that the server listens on.
    pub addresses: Vec<String>,
    /// All calls.
    pub total: Work,
    /// The exports in the order of their names.
    pub exports: Vec<ExportView>,
    /// The procedures with calls.
    pub procedures: Vec<ProcedureView>,
    /// The clients, in descending order of the server's time.
    pub clients: Vec<ClientView>,
    /// The work of further clients, which are too many to count individually.
    pub others: Work,
    /// The event loops that reported.
    pub loops: Vec<LoopView>,
    /// The number of event loops that did not report in time.
    pub silent_loops: usize,
    /// The number of times that a limit was reached, or that something was rejected or lost, by
    /// name.
    pub events: BTreeMap<String, u64>,
    /// The duplicate request cache.
    pub replies: ReplyView,
    /// The syncs of the store.
    pub syncs: SyncView,
    /// The leases of clients.
    #[serde(default)]
    pub leases: LeaseView,
    /// The clients and operations of NFS version 4, if the server serves the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nfs4: Option<Nfs4View>,
    /// The file systems below exports that are open now.
    #[serde(default)]
    pub crossed: usize,
    /// Its state in a group of metaservers, if it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metaserver: Option<MetaserverView>,
}

/// A metaserver of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetaserverView {
    /// Its number.
    pub number: u32,
    /// The number of metaservers in the group.
    pub of: u32,
    /// True if it serves: at its start it waits for all others.
    pub serves: bool,
    /// Calls that it made to others.
    pub calls: u64,
}

/// Counts of calls. One call in sixteen is timed; the times are sums over the timed calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// All calls.
    pub calls: u64,
    /// Failed calls.
    pub failed: u64,
    /// Bytes of the calls.
    pub bytes_in: u64,
    /// Bytes of the replies.
    pub bytes_out: u64,
    /// Calls that were timed.
    pub timed: u64,
    /// The total time that the timed calls waited behind others before a loop picked them up, in
    /// seconds.
    pub waited_s: f64,
    /// The total time that a loop was busy with the timed calls, in seconds.
    pub busy_s: f64,
    /// The distribution of their durations.
    pub latency: Latency,
}

/// The distribution of the durations of calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latency(pub Histogram);

/// The form of [`Latency`] in JSON: quantiles in seconds, and the non-empty buckets, each with its
/// number and its count. Bucket 0 ends at 1024 ns; four further buckets double the end.
#[derive(Serialize, Deserialize)]
struct LatencyForm {
    p50_s: Option<f64>,
    p95_s: Option<f64>,
    p99_s: Option<f64>,
    buckets: Vec<(usize, u64)>,
}

/// An export and its calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExportView {
    /// The name that clients mount.
    pub name: String,
    /// The path on the server.
    pub path: String,
    /// True if changes are rejected.
    pub read_only: bool,
    /// Its calls.
    #[serde(flatten)]
    pub work: Work,
}

/// A procedure and its calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcedureView {
    /// Its program.
    pub program: String,
    /// The program's version.
    pub version: u32,
    /// Its name.
    pub name: String,
    /// The failed calls, by the name of the status.
    pub errors: BTreeMap<String, u64>,
    /// Its calls.
    #[serde(flatten)]
    pub work: Work,
}

/// A client and its calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClientView {
    /// Its address.
    pub address: IpAddr,
    /// Its open connections.
    pub connections: u32,
    /// The time since its last message, in seconds.
    pub idle_s: f64,
    /// Its calls.
    #[serde(flatten)]
    pub work: Work,
}

/// An event loop: a thread that serves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoopView {
    /// Its open connections.
    pub connections: usize,
    /// Its waiting calls.
    pub parked: usize,
    /// Bytes of memory for calls, replies and parts of them.
    pub held_bytes: usize,
    /// The time that it was awake, in seconds.
    pub awake_s: f64,
}

/// The duplicate request cache.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ReplyView {
    /// Running calls and cached replies.
    pub entries: usize,
    /// Bytes of the replies.
    pub bytes: usize,
    /// Retransmissions of completed calls that received the cached reply.
    pub resent: u64,
    /// Retransmissions of running calls that were dropped.
    pub dropped: u64,
    /// Retransmissions of running calls that waited.
    pub waited: u64,
}

/// The leases of clients.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LeaseView {
    /// The number of leases.
    pub held: usize,
    /// Clients that may hold leases.
    pub clients: usize,
    /// Clients that requested leases and receive none, because the list of clients cannot be
    /// written.
    #[serde(default)]
    pub unlisted: usize,
    /// The number of leases that were not granted, by reason: a call waits for the object, or the
    /// client delayed other clients for too long; and the number of clients that were not admitted,
    /// because there were too many clients.
    #[serde(default)]
    pub refusals: BTreeMap<String, u64>,
    /// Calls and programs that wait for leases to end.
    pub waiting: usize,
    /// The number of grants, by kind: new, renewed, shared with a writer, or not recorded for lack
    /// of space.
    pub grants: BTreeMap<String, u64>,
    /// The number of recalls.
    pub evictions: u64,
    /// The number of recalled leases that the server waited for until they expired.
    pub waited_out: u64,
    /// The number of waits, by requester.
    pub waits: BTreeMap<String, u64>,
}

impl From<LeaseCounts> for LeaseView {
    fn from(told: LeaseCounts) -> Self {
        let LeaseCounts { held, clients, refused_clients, unlisted, waiting, counts, waits } = told;
        let named = |all: &[(&str, u64)]| {
            all.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        Self {
            held,
            clients,
            unlisted,
            refusals: named(&[
                ("wanted", counts.yielded),
                ("slow-client", counts.barred),
                ("clients", refused_clients),
            ]),
            waiting,
            grants: named(&[
                ("anew", counts.granted),
                ("renewed", counts.renewed),
                ("shared", counts.shared),
                ("full", counts.full),
            ]),
            evictions: counts.evicted,
            waited_out: counts.waited_out,
            waits: named(&[
                ("clients", waits.clients),
                ("plain", waits.plain),
                ("programs", waits.programs),
            ]),
        }
    }
}

/// The syncs of a store.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SyncView {
    /// Successful syncs.
    pub done: u64,
    /// Failed syncs.
    pub failed: u64,
    /// The total time of all syncs, in seconds.
    pub time_s: f64,
}

impl Source {
    /// Takes a snapshot of the server.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let report = self.reporter.report();
        let replies = self.service.reply_cache();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let account = &report.account;
        let view = |(program, version, name, counted): (&str, u32, &str, &Counted)| {
            (counted.tally.calls > 0).then(|| procedure(program, version, name, counted))
        };
        Snapshot {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            at_s: now.as_secs_f64(),
            uptime_s: report.age.as_secs_f64(),
            durability: self.durability.to_owned(),
            addresses: self.addresses.clone(),
            total: Work::from(&account.total()),
            exports: self.exports(&report),
            procedures: account.procedures().filter_map(view).collect(),
            clients: clients(&report),
            others: Work::from(account.clients().others()),
            loops: report.loops.iter().map(|one| LoopView::of(one, report.age)).collect(),
            silent_loops: report.silent,
            events: events(
                self.reporter.counters(),
                &replies,
                self.service.metaservers_refused(),
                (self.guards_refused)(),
                (self.descriptors_lacked)(),
            ),
            replies: ReplyView::from(&replies),
            syncs: (self.syncs)(),
            leases: self.service.lease_counts().into(),
            nfs4: self.nfs4.as_deref().map(Nfs4View::of),
            crossed: (self.crossed)(),
            metaserver: (self.metaserver)(),
        }
    }

    fn exports(&self, report: &Report) -> Vec<ExportView> {
        let none = Tally::default();
        let mut exports = self.service.offered(|export| {
            let counted = report.account.exports().find(|(id, _)| *id == export.id.0);
            ExportView {
                name: export.name.clone(),
                path: export.path.clone(),
                read_only: export.read_only,
                work: Work::from(counted.map_or(&none, |(_, tally)| tally)),
            }
        });
        exports.sort_by(|one, other| one.name.cmp(&other.name));
        exports
    }
}

fn procedure(program: &str, version: u32, name: &str, counted: &Counted) -> ProcedureView {
    let errors = OUTCOMES.iter().zip(&counted.failed).filter(|(_, count)| **count > 0);
    ProcedureView {
        program: program.to_owned(),
        version,
        name: name.to_owned(),
        errors: errors.map(|((name, _), count)| ((*name).to_owned(), *count)).collect(),
        work: Work::from(&counted.tally),
    }
}

fn clients(report: &Report) -> Vec<ClientView> {
    let view = |client: &leasehold_serve::account::Client| ClientView {
        address: client.address,
        connections: client.connections,
        idle_s: report.at.since(client.heard).as_secs_f64(),
        work: Work::from(&client.tally),
    };
    let mut clients: Vec<_> = report.account.clients().iter().map(view).collect();
    let busy = |client: &ClientView| client.work.busy_s;
    clients.sort_by(|one, other| busy(other).total_cmp(&busy(one)));
    clients
}

/// Returns the counts of rare events, by name.
fn events(
    counters: &Counters,
    replies: &ReplyCache,
    metaservers_refused: u64,
    guards_refused: u64,
    descriptors_lacked: u64,
) -> BTreeMap<String, u64> {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let named = [
        ("connections-accepted", read(&counters.connections_accepted)),
        ("connections-refused", read(&counters.connections_refused)),
        ("connections-stalled", read(&counters.connections_stalled)),
        ("connections-crowded-out", read(&counters.connections_crowded_out)),
        ("connections-garbled", read(&counters.connections_garbled)),
        ("datagrams-too-large", read(&counters.datagrams_too_large)),
        ("datagrams-dropped", read(&counters.datagrams_dropped)),
        ("guards-refused", guards_refused),
        ("descriptors-lacked", descriptors_lacked),
        ("log-lines-lost", leasehold_shell::log::lost()),
        ("metaservers-refused", metaservers_refused),
        ("panics", read(&counters.panics)),
        ("parked-limit-met", read(&counters.parked_limit_met)),
        ("replies-evicted", replies.counts.evicted),
        ("replies-refused", replies.counts.refused),
    ];
    named.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

impl From<&Tally> for Work {
    fn from(tally: &Tally) -> Self {
        Self {
            calls: tally.calls,
            failed: tally.failed,
            bytes_in: tally.bytes_in,
            bytes_out: tally.bytes_out,
            timed: tally.timed,
            waited_s: tally.waited.as_secs_f64(),
            busy_s: tally.busy.as_secs_f64(),
            latency: Latency(tally.latency.clone()),
        }
    }
}

impl Work {
    /// Returns the total time that loops were busy with all calls, in seconds, estimated from the
    /// timed calls.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn busy_of_all_s(&self) -> f64 {
        if self.timed == 0 { 0.0 } else { self.busy_s * self.calls as f64 / self.timed as f64 }
    }

    /// Returns the mean time that a call waited behind others, in seconds.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a mean")]
    pub fn mean_wait_s(&self) -> f64 {
        if self.timed == 0 { 0.0 } else { self.waited_s / self.timed as f64 }
    }
}

impl From<&ReplyCache> for ReplyView {
    fn from(cache: &ReplyCache) -> Self {
        Self {
            entries: cache.entries,
            bytes: cache.bytes,
            resent: cache.counts.resent,
            dropped: cache.counts.dropped,
            waited: cache.counts.waited,
        }
    }
}

impl LoopView {
    fn of(report: &leasehold_shell::LoopReport, age: Duration) -> Self {
        Self {
            connections: report.connections,
            parked: report.parked,
            held_bytes: report.parked_bytes + report.unsent_bytes + report.held_bytes,
            awake_s: age.saturating_sub(report.slept).as_secs_f64(),
        }
    }
}

impl Latency {
    /// Returns the duration that this share of the calls did not exceed, in seconds.
    #[must_use]
    pub fn quantile_s(&self, share: f64) -> Option<f64> {
        self.0.quantile(share).map(|time| time.as_secs_f64())
    }
}

impl Serialize for Latency {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let counts = self.0.counts().iter().copied().enumerate();
        LatencyForm {
            p50_s: self.quantile_s(0.5),
            p95_s: self.quantile_s(0.95),
            p99_s: self.quantile_s(0.99),
            buckets: counts.filter(|(_, count)| *count > 0).collect(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Latency {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut counts = [0; BUCKETS];
        for (bucket, count) in LatencyForm::deserialize(deserializer)?.buckets {
            // An unknown bucket comes from a later version.
            if let Some(place) = counts.get_mut(bucket) {
                *place = count;
            }
        }
        Ok(Self(Histogram::of(counts)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_survives_json_round_trip() {
        let mut histogram = Histogram::default();
        [1, 900, 5_000, 1_000_000, u64::MAX]
            .map(Duration::from_nanos)
            .into_iter()
            .for_each(|time| histogram.add(time));
        let latency = Latency(histogram);
        let text = serde_json::to_string(&latency).expect("has no maps");
        assert!(text.contains("\"p50_s\":"), "{text}");
        assert_eq!(serde_json::from_str::<Latency>(&text).expect("it was one"), latency);
    }
}
