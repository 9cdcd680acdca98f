//! All that was counted since the server was started.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_serve::account::{BUCKETS, Counted, Histogram, OUTCOMES, Tally};
use leasehold_serve::{LeaseCounts, ReplyCache, Service};
use leasehold_shell::{Counters, Report, Reporter};
use serde::{Deserialize, Serialize};

use crate::volumes::VolumeView;

/// Where a snapshot comes from: a running server.
pub struct Source {
    /// Asks its loops.
    pub reporter: Reporter,
    /// What they serve.
    pub service: Arc<Service>,
    /// When a change counts as safe: `disk` or `memory`.
    pub durability: &'static str,
    /// Where it listens.
    pub addresses: Vec<String>,
    /// What its store's syncs came to.
    pub syncs: Box<dyn Fn() -> SyncView + Send + Sync>,
    /// The number of guards of leased files that the stores refused for want of a resource.
    pub guards_refused: Box<dyn Fn() -> u64 + Send + Sync>,
    /// The number of operations for which the stores had no descriptor.
    pub descriptors_lacked: Box<dyn Fn() -> u64 + Send + Sync>,
    /// What it is among several metaservers.
    pub metaserver: Box<dyn Fn() -> Option<MetaserverView> + Send + Sync>,
    /// The number of file systems below exports that are open, where exports cross to them.
    pub crossed: Box<dyn Fn() -> usize + Send + Sync>,
    /// How its volumes are, which those who have a part in them are asked.
    pub volumes: Box<dyn Fn() -> Vec<VolumeView> + Send + Sync>,
}

/// All that was counted since the server was started, and how it is now.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// The program's version.
    pub version: String,
    /// The number of the process.
    pub pid: u32,
    /// When it was asked, in seconds since 1970.
    pub at_s: f64,
    /// How long it runs, in seconds.
    pub uptime_s: f64,
    /// When a change counts as safe: `disk` or `memory`.
    pub durability: String,
    /// Where it listens.
    pub addresses: Vec<String>,
    /// All calls.
    pub total: Work,
    /// The exports in the order of their names.
    pub exports: Vec<ExportView>,
    /// The procedures that were called.
    pub procedures: Vec<ProcedureView>,
    /// The clients that keep the server most busy first.
    pub clients: Vec<ClientView>,
    /// What all further clients did, of which there are too many to tell apart.
    pub others: Work,
    /// The loops that answered.
    pub loops: Vec<LoopView>,
    /// How many loops did not answer in time.
    pub silent_loops: usize,
    /// How often a limit was met, or something was refused or lost, by name.
    pub events: BTreeMap<String, u64>,
    /// The reply cache.
    pub replies: ReplyView,
    /// The syncs of the store.
    pub syncs: SyncView,
    /// The leases of clients.
    #[serde(default)]
    pub leases: LeaseView,
    /// The file systems below exports that are open now.
    #[serde(default)]
    pub crossed: usize,
    /// What it is among several metaservers, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metaserver: Option<MetaserverView>,
}

/// A metaserver among several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetaserverView {
    /// Its number.
    pub number: u32,
    /// How many there are.
    pub of: u32,
    /// Whether it serves: it waits for all others at its start.
    pub serves: bool,
    /// Calls that it made to others.
    pub calls: u64,
}

/// Calls that were counted. One in sixteen is timed: the times are theirs alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// All calls.
    pub calls: u64,
    /// Those that did not succeed.
    pub failed: u64,
    /// Bytes of the calls.
    pub bytes_in: u64,
    /// Bytes of the replies.
    pub bytes_out: u64,
    /// Calls that were timed.
    pub timed: u64,
    /// How long those stood behind others before a loop took them up, together, in seconds.
    pub waited_s: f64,
    /// How long a loop was busy with those, together, in seconds.
    pub busy_s: f64,
    /// How long they took.
    pub latency: Latency,
}

/// How long calls took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latency(pub Histogram);

/// The form of [`Latency`] in JSON: quantiles in seconds, and the buckets that are not empty, each
/// by its number and its count. Bucket 0 ends at 1024 ns, each four further ones double that.
#[derive(Serialize, Deserialize)]
struct LatencyForm {
    p50_s: Option<f64>,
    p95_s: Option<f64>,
    p99_s: Option<f64>,
    buckets: Vec<(usize, u64)>,
}

/// An export and what was done in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExportView {
    /// As clients mount it.
    pub name: String,
    /// As it is on the server.
    pub path: String,
    /// Whether changes are refused.
    pub read_only: bool,
    /// What was done in it.
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
    /// How its calls failed, by the name of the status.
    pub errors: BTreeMap<String, u64>,
    /// Its calls.
    #[serde(flatten)]
    pub work: Work,
}

/// A client and its calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClientView {
    /// Where it is.
    pub address: IpAddr,
    /// Its open connections.
    pub connections: u32,
    /// How long it was not heard, in seconds.
    pub idle_s: f64,
    /// Its calls.
    #[serde(flatten)]
    pub work: Work,
}

/// A loop: a thread that serves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoopView {
    /// Its open connections.
    pub connections: usize,
    /// Its calls that wait.
    pub parked: usize,
    /// Bytes of memory that it holds for calls, replies and parts of them.
    pub held_bytes: usize,
    /// How long it was not asleep, in seconds.
    pub awake_s: f64,
}

/// The reply cache.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ReplyView {
    /// Calls that run and replies that are kept.
    pub entries: usize,
    /// Bytes of the replies.
    pub bytes: usize,
    /// Copies of finished calls that were answered by what was kept.
    pub resent: u64,
    /// Copies of running calls that were dropped.
    pub dropped: u64,
    /// Copies of running calls that were made to wait.
    pub waited: u64,
}

/// The leases of clients.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LeaseView {
    /// Leases that there are.
    pub held: usize,
    /// Clients that may hold some.
    pub clients: usize,
    /// Clients that asked for leases and get none, because the list of clients cannot be written.
    #[serde(default)]
    pub unlisted: usize,
    /// The number of leases that were not granted, by reason: a call waits for the object, or the
    /// client held other clients up for too long; and the number of clients that were not taken up,
    /// as there were too many clients.
    #[serde(default)]
    pub refusals: BTreeMap<String, u64>,
    /// Calls and programs that wait for leases to end.
    pub waiting: usize,
    /// How often one was granted, by how: anew, renewed, shared with a writer, or not kept for want
    /// of room.
    pub grants: BTreeMap<String, u64>,
    /// How often one was wanted back.
    pub evictions: u64,
    /// How often its holder did not vacate, so that its end was waited for.
    pub waited_out: u64,
    /// Who had to wait, and how often.
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
    /// Those that succeeded.
    pub done: u64,
    /// Those that failed.
    pub failed: u64,
    /// How long all took, together, in seconds.
    pub time_s: f64,
}

impl Source {
    /// Asks the server.
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

/// What seldom happens, by name.
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
    /// How long loops were busy with all calls, in seconds: estimated from those that were timed.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn busy_of_all_s(&self) -> f64 {
        if self.timed == 0 { 0.0 } else { self.busy_s * self.calls as f64 / self.timed as f64 }
    }

    /// How long a call stood behind others in the mean, in seconds.
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
    /// The time below which this share of the calls stayed, in seconds.
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
            // One that is not known here comes from a later version.
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
    fn times_come_back_from_json_as_they_were() {
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
