//! The metrics of a scrape, in the text format of Prometheus.
//!
//! Labels are bounded: the program defines procedures, statuses and events, and the configuration
//! defines exports. Clients have no series; the live view shows them. METRICS.md lists every
//! metric, and a test compares it with the output of running servers.

mod nfs4;
mod volumes;

use std::fmt::Write as _;

use leasehold_serve::account::{BUCKETS, Histogram};

use crate::snapshot::{ProcedureView, Snapshot, Work};
use crate::volumes::VolumeView;

/// The content type of [`text`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Each bucket of a scrape has this many of our buckets: its end is twice the end of the previous
/// one.
const BUCKETS_OF_ONE: usize = 4;

/// Formats all metrics of a server and of its volumes.
#[must_use]
pub fn text(told: &Snapshot, volumes: &[VolumeView]) -> String {
    let mut page = Page(String::new());
    about(&mut page, told);
    calls(&mut page, told);
    exports(&mut page, told);
    threads(&mut page, told);
    rest(&mut page, told);
    leases(&mut page, told);
    nfs4::nfs4(&mut page, told);
    volumes::this_one(&mut page, told);
    volumes::volumes(&mut page, volumes);
    page.0
}

/// A page of metrics under construction.
struct Page(String);

impl Page {
    fn begin(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.0.push_str(name);
        if !labels.is_empty() {
            let quoted = |(label, value): &(&str, &str)| format!("{label}=\"{}\"", escaped(value));
            let labels: Vec<_> = labels.iter().map(quoted).collect();
            let _ = write!(self.0, "{{{}}}", labels.join(","));
        }
        let _ = writeln!(self.0, " {value}");
    }

    /// Writes a value, if there is one.
    fn told(&mut self, name: &str, labels: &[(&str, &str)], value: Option<f64>) {
        if let Some(value) = value {
            self.value(name, labels, value);
        }
    }

    /// Writes a metric with one value.
    fn single(&mut self, (name, kind, help): (&str, &str, &str), value: f64) {
        self.begin(name, kind, help);
        self.value(name, &[], value);
    }
}

/// Escapes the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[allow(clippy::cast_precision_loss, reason = "the format has floating point numbers")]
const fn number(count: u64) -> f64 {
    count as f64
}

#[allow(clippy::cast_precision_loss, reason = "the format has floating point numbers")]
const fn size(count: usize) -> f64 {
    count as f64
}

fn about(page: &mut Page, told: &Snapshot) {
    let name = "leasehold_info";
    page.begin(
        name,
        "gauge",
        "The version, and the durability of changes: on disk or in memory only.",
    );
    let labels = [("version", &told.version[..]), ("durability", &told.durability)];
    page.value(name, &labels, 1.0);
    let help = "The time since the start of the server.";
    page.single(("leasehold_uptime_seconds", "gauge", help), told.uptime_s);
}

/// A count of each procedure or export: its name, its help and its value.
type Counted<'a> = (&'a str, &'a str, fn(&Work) -> f64);

fn calls(page: &mut Page, told: &Snapshot) {
    let counted: [Counted<'_>; 4] = [
        ("leasehold_calls_total", "Completed calls.", |work| number(work.calls)),
        ("leasehold_received_bytes_total", "Bytes of calls.", |work| number(work.bytes_in)),
        ("leasehold_sent_bytes_total", "Bytes of replies.", |work| number(work.bytes_out)),
        (
            "leasehold_busy_seconds_total",
            "The time that threads spent on calls, estimated from one call in sixteen.",
            Work::busy_of_all_s,
        ),
    ];
    for (name, help, read) in counted {
        page.begin(name, "counter", help);
        for one in &told.procedures {
            page.value(name, &labels(one, &one.version.to_string()), read(&one.work));
        }
    }
    let name = "leasehold_errors_total";
    page.begin(name, "counter", "Failed calls, by status.");
    for one in &told.procedures {
        let version = one.version.to_string();
        for (status, count) in &one.errors {
            let labels = [&labels(one, &version)[..], &[("status", status)]].concat();
            page.value(name, &labels, number(*count));
        }
    }
    let name = "leasehold_duration_seconds";
    let help = "The duration of calls, of one call in sixteen: from the event-loop iteration that \
                picked the call up until its reply was ready.";
    page.begin(name, "histogram", help);
    for one in &told.procedures {
        histogram(page, name, &labels(one, &one.version.to_string()), &one.work.latency.0);
    }
}

fn labels<'a>(one: &'a ProcedureView, version: &'a str) -> [(&'a str, &'a str); 3] {
    [("program", &one.program), ("version", version), ("procedure", &one.name)]
}

fn histogram(page: &mut Page, name: &str, labels: &[(&str, &str)], counted: &Histogram) {
    let bucket_name = format!("{name}_bucket");
    let (mut below, mut sum, mut begin) = (0, 0.0, 0);
    for (bucket, &count) in counted.counts().iter().enumerate() {
        let end = Histogram::end_of(bucket).unwrap_or(begin);
        below += count;
        // The format requires a sum; the middles of the buckets approximate it.
        #[allow(clippy::cast_precision_loss, reason = "an estimate")]
        let middle = (begin + end) as f64 / 2e9;
        sum += middle * number(count);
        begin = end;
        let end = match bucket {
            bucket if bucket == BUCKETS - 1 => "+Inf".to_owned(),
            bucket if bucket.is_multiple_of(BUCKETS_OF_ONE) => seconds(end).to_string(),
            _ => continue,
        };
        page.value(&bucket_name, &[labels, &[("le", &end)]].concat(), number(below));
    }
    page.value(&format!("{name}_sum"), labels, sum);
    page.value(&format!("{name}_count"), labels, number(below));
}

#[allow(clippy::cast_precision_loss, reason = "a power of two")]
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn exports(page: &mut Page, told: &Snapshot) {
    let counted: [Counted<'_>; 4] = [
        ("leasehold_export_calls_total", "Calls with a handle of the export.", |work| {
            number(work.calls)
        }),
        ("leasehold_export_failed_total", "Failed calls with a handle of the export.", |work| {
            number(work.failed)
        }),
        (
            "leasehold_export_received_bytes_total",
            "Bytes of calls with a handle of the export.",
            |work| number(work.bytes_in),
        ),
        (
            "leasehold_export_sent_bytes_total",
            "Bytes of the replies to calls with a handle of the export.",
            |work| number(work.bytes_out),
        ),
    ];
    for (name, help, read) in counted {
        page.begin(name, "counter", help);
        for one in &told.exports {
            page.value(name, &[("export", &one.name)], read(&one.work));
        }
    }
}

fn threads(page: &mut Page, told: &Snapshot) {
    let sum = |of: fn(&crate::LoopView) -> usize| size(told.loops.iter().map(of).sum());
    let awake = told.loops.iter().map(|one| one.awake_s).sum();
    let gauges = [
        ("leasehold_threads", "Threads that serve and report.", size(told.loops.len())),
        (
            "leasehold_threads_silent",
            "Threads that did not report in time: their counts are missing from this scrape.",
            size(told.silent_loops),
        ),
        ("leasehold_clients", "Clients that are counted individually.", size(told.clients.len())),
        ("leasehold_connections", "Open connections.", sum(|one| one.connections)),
        ("leasehold_parked_calls", "Calls that wait.", sum(|one| one.parked)),
        (
            "leasehold_held_bytes",
            "Memory for waiting or incomplete calls, and for replies not yet sent.",
            sum(|one| one.held_bytes),
        ),
    ];
    for (name, help, value) in gauges {
        page.single((name, "gauge", help), value);
    }
    let help = "The total time that these threads were awake.";
    page.single(("leasehold_threads_awake_seconds_total", "counter", help), awake);
}

fn rest(page: &mut Page, told: &Snapshot) {
    let name = "leasehold_events_total";
    page.begin(
        name,
        "counter",
        "The number of times that a limit was reached, or that something was rejected or lost.",
    );
    for (event, count) in &told.events {
        page.value(name, &[("event", event)], number(*count));
    }
    let replies = &told.replies;
    let help = "Running calls and cached replies.";
    page.single(("leasehold_reply_cache_entries", "gauge", help), size(replies.entries));
    let help = "Bytes of the cached replies.";
    page.single(("leasehold_reply_cache_bytes", "gauge", help), size(replies.bytes));
    let name = "leasehold_reply_cache_copies_total";
    page.begin(name, "counter", "Retransmitted calls, by their treatment.");
    let fates =
        [("resent", replies.resent), ("dropped", replies.dropped), ("waited", replies.waited)];
    for (fate, count) in fates {
        page.value(name, &[("fate", fate)], number(count));
    }
    let (name, syncs) = ("leasehold_syncs_total", &told.syncs);
    page.begin(name, "counter", "Syncs to stable storage; a failed sync lost data.");
    page.value(name, &[("result", "done")], number(syncs.done));
    page.value(name, &[("result", "failed")], number(syncs.failed));
    let help = "The total time of syncs.";
    page.single(("leasehold_sync_seconds_total", "counter", help), syncs.time_s);
    let help = "Open file systems below exports with the option cross.";
    page.single(("leasehold_crossed_file_systems", "gauge", help), size(told.crossed));
}

fn leases(page: &mut Page, told: &Snapshot) {
    let leases = &told.leases;
    let gauges = [
        ("leasehold_leases", "Leases that clients hold.", leases.held),
        ("leasehold_lease_clients", "Clients that may hold leases.", leases.clients),
        (
            "leasehold_lease_unlisted_clients",
            "Clients without leases because the list of clients cannot be written.",
            leases.unlisted,
        ),
        (
            "leasehold_lease_waiting",
            "Calls and programs that wait for leases to end.",
            leases.waiting,
        ),
    ];
    for (name, help, value) in gauges {
        page.single((name, "gauge", help), size(value));
    }
    let by_name = [
        ("leasehold_lease_grants_total", "Leases granted, by kind.", "how", &leases.grants),
        (
            "leasehold_lease_refusals_total",
            "Leases that were not granted, and clients that were not admitted, by reason.",
            "why",
            &leases.refusals,
        ),
        (
            "leasehold_lease_waits_total",
            "Requests that waited for leases of others, by requester.",
            "who",
            &leases.waits,
        ),
    ];
    for (name, help, label, counts) in by_name {
        page.begin(name, "counter", help);
        for (value, count) in counts {
            page.value(name, &[(label, value)], number(*count));
        }
    }
    let help = "Leases that the server recalled.";
    page.single(("leasehold_lease_evictions_total", "counter", help), number(leases.evictions));
    let help = "Recalled leases that expired before they were returned.";
    page.single(("leasehold_lease_waited_out_total", "counter", help), number(leases.waited_out));
}
