//! The metrics of a scrape, in the text format of Prometheus.
//!
//! Labels are bounded: procedures, statuses and events are of the program, exports of the
//! configuration. No client has a series of its own; the live view shows them. METRICS.md lists
//! every metric, and a test compares it with what running servers give.

mod volumes;

use std::fmt::Write as _;

use leasehold_serve::account::{BUCKETS, Histogram};

use crate::snapshot::{ProcedureView, Snapshot, Work};
use crate::volumes::VolumeView;

/// The type of what [`text`] gives.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Every this many buckets of ours end at one of a scrape: where the time doubles.
const BUCKETS_OF_ONE: usize = 4;

/// All metrics of a server, and of the volumes that it serves.
#[must_use]
pub fn text(told: &Snapshot, volumes: &[VolumeView]) -> String {
    let mut page = Page(String::new());
    about(&mut page, told);
    calls(&mut page, told);
    exports(&mut page, told);
    threads(&mut page, told);
    rest(&mut page, told);
    leases(&mut page, told);
    volumes::this_one(&mut page, told);
    volumes::volumes(&mut page, volumes);
    page.0
}

/// A page of metrics that is being written.
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

    /// A value, if there is one.
    fn told(&mut self, name: &str, labels: &[(&str, &str)], value: Option<f64>) {
        if let Some(value) = value {
            self.value(name, labels, value);
        }
    }

    /// A metric with one value.
    fn single(&mut self, (name, kind, help): (&str, &str, &str), value: f64) {
        self.begin(name, kind, help);
        self.value(name, &[], value);
    }
}

/// The value of a label between its quotes.
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
        "The version, and whether changes are safe on disk or in memory only.",
    );
    let labels = [("version", &told.version[..]), ("durability", &told.durability)];
    page.value(name, &labels, 1.0);
    let help = "How long the server runs.";
    page.single(("leasehold_uptime_seconds", "gauge", help), told.uptime_s);
}

/// What is counted of each procedure or export, with its help, and how it is read.
type Counted<'a> = (&'a str, &'a str, fn(&Work) -> f64);

fn calls(page: &mut Page, told: &Snapshot) {
    let counted: [Counted<'_>; 4] = [
        ("leasehold_calls_total", "Calls that came to their end.", |work| number(work.calls)),
        ("leasehold_received_bytes_total", "Bytes of calls.", |work| number(work.bytes_in)),
        ("leasehold_sent_bytes_total", "Bytes of replies.", |work| number(work.bytes_out)),
        (
            "leasehold_busy_seconds_total",
            "How long threads were busy with calls, estimated from one call in sixteen.",
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
    page.begin(name, "counter", "Calls that did not succeed, by how they ended.");
    for one in &told.procedures {
        let version = one.version.to_string();
        for (status, count) in &one.errors {
            let labels = [&labels(one, &version)[..], &[("status", status)]].concat();
            page.value(name, &labels, number(*count));
        }
    }
    let name = "leasehold_duration_seconds";
    let help = "How long calls took, of one call in sixteen: from when they could be taken up to \
                when the reply was there.";
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
        // A sum is part of the format; the middles of the buckets are near enough.
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
        ("leasehold_export_failed_total", "Those that did not succeed.", |work| {
            number(work.failed)
        }),
        ("leasehold_export_received_bytes_total", "Bytes of those calls.", |work| {
            number(work.bytes_in)
        }),
        ("leasehold_export_sent_bytes_total", "Bytes of the replies to them.", |work| {
            number(work.bytes_out)
        }),
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
        ("leasehold_threads", "Threads that serve and answer.", size(told.loops.len())),
        (
            "leasehold_threads_silent",
            "Threads that did not answer in time: what they did is missing from this scrape.",
            size(told.silent_loops),
        ),
        ("leasehold_clients", "Clients that are told apart.", size(told.clients.len())),
        ("leasehold_connections", "Open connections.", sum(|one| one.connections)),
        ("leasehold_parked_calls", "Calls that wait.", sum(|one| one.parked)),
        (
            "leasehold_held_bytes",
            "Memory held for calls that wait or are not whole, and for replies not yet sent.",
            sum(|one| one.held_bytes),
        ),
    ];
    for (name, help, value) in gauges {
        page.single((name, "gauge", help), value);
    }
    let help = "How long those threads were not asleep, together.";
    page.single(("leasehold_threads_awake_seconds_total", "counter", help), awake);
}

fn rest(page: &mut Page, told: &Snapshot) {
    let name = "leasehold_events_total";
    page.begin(name, "counter", "How often a limit was met, or something was refused or lost.");
    for (event, count) in &told.events {
        page.value(name, &[("event", event)], number(*count));
    }
    let replies = &told.replies;
    let help = "Calls that run and replies that are kept.";
    page.single(("leasehold_reply_cache_entries", "gauge", help), size(replies.entries));
    let help = "Bytes of the replies that are kept.";
    page.single(("leasehold_reply_cache_bytes", "gauge", help), size(replies.bytes));
    let name = "leasehold_reply_cache_copies_total";
    page.begin(name, "counter", "Copies of calls, by what became of them.");
    let fates =
        [("resent", replies.resent), ("dropped", replies.dropped), ("waited", replies.waited)];
    for (fate, count) in fates {
        page.value(name, &[("fate", fate)], number(count));
    }
    let (name, syncs) = ("leasehold_syncs_total", &told.syncs);
    page.begin(name, "counter", "Syncs to stable storage; one that failed lost data.");
    page.value(name, &[("result", "done")], number(syncs.done));
    page.value(name, &[("result", "failed")], number(syncs.failed));
    let help = "How long syncs took, together.";
    page.single(("leasehold_sync_seconds_total", "counter", help), syncs.time_s);
    let help = "File systems that exports cross to and that are open.";
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
        ("leasehold_lease_grants_total", "Leases granted, by how.", "how", &leases.grants),
        (
            "leasehold_lease_refusals_total",
            "Leases that were not granted, and clients that were not taken up, by why.",
            "why",
            &leases.refusals,
        ),
        (
            "leasehold_lease_waits_total",
            "Who had to wait for leases of others.",
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
    let help = "Leases that were wanted back.";
    page.single(("leasehold_lease_evictions_total", "counter", help), number(leases.evictions));
    let help = "Evicted leases that were not vacated before they ran out.";
    page.single(("leasehold_lease_waited_out_total", "counter", help), number(leases.waited_out));
}
