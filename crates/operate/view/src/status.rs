//! `leasehold status`: a page of text.

use std::fmt::Write as _;

use crate::snapshot::{Snapshot, Work};
use crate::units::{bytes, count, span, time};

/// The maximum number of lines for clients and procedures.
const LINES_MAX: usize = 10;

/// Formats the state and the activity of a server since its start.
#[must_use]
pub fn page(told: &Snapshot) -> String {
    let mut page = String::new();
    let Snapshot { version, pid, .. } = told;
    let up = span(told.uptime_s);
    let addresses = told.addresses.join(", ");
    let _ = writeln!(page, "leasehold {version}, pid {pid}, up {up}, on {addresses}");
    let _ = writeln!(page, "durability: {}", durability(&told.durability));
    for export in &told.exports {
        let how = if export.read_only { ", read-only" } else { "" };
        let _ = writeln!(page, "export {} is {}{how}", export.name, export.path);
    }
    if told.crossed > 0 {
        let _ = writeln!(page, "open file systems below exports: {}", told.crossed);
    }
    if let Some(of) = &told.metaserver {
        let how = if of.serves { "" } else { ", waiting for others" };
        let _ = writeln!(
            page,
            "metaserver {} of {}{how}; {} calls to others",
            of.number, of.of, of.calls
        );
    }
    page.push('\n');
    page += &loops(told);
    if let Some(nfs4) = &told.nfs4 {
        let _ = writeln!(page, "{}", nfs4.line());
    }
    page += &title("");
    page += &line("all calls", &told.total);
    page += &title("procedures");
    let mut procedures: Vec<_> = told.procedures.iter().collect();
    procedures.sort_by_key(|one| std::cmp::Reverse(one.work.calls));
    for one in procedures.iter().take(LINES_MAX) {
        page += &line(&name(&one.program, one.version, &one.name), &one.work);
    }
    page += &more(procedures.len());
    if let Some(nfs4) = &told.nfs4 {
        page += &title("operations of NFS 4");
        let mut operations: Vec<_> = nfs4.operations.iter().collect();
        operations.sort_by_key(|one| std::cmp::Reverse(one.work.calls));
        for one in operations.iter().take(LINES_MAX) {
            page += &line(&one.name, &one.work);
        }
        page += &more(operations.len());
    }
    page += &title("exports");
    told.exports.iter().take(LINES_MAX).for_each(|one| page += &line(&one.name, &one.work));
    page += &more(told.exports.len());
    page += &title("clients");
    for one in told.clients.iter().take(LINES_MAX) {
        page += &line(&one.address.to_string(), &one.work);
    }
    page += &more(told.clients.len());
    page.push('\n');
    page += &errors(told);
    page += &events(told);
    page
}

/// Describes the durability of an acknowledged change.
fn durability(word: &str) -> &str {
    match word {
        "memory" => "memory. A crash of this machine loses changes.",
        word => word,
    }
}

/// Returns the name of a procedure with its program's version.
pub(crate) fn name(program: &str, version: u32, name: &str) -> String {
    match version {
        0 => name.to_owned(),
        version => format!("{program} {version} {name}"),
    }
}

#[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
fn loops(told: &Snapshot) -> String {
    let sum = |of: fn(&crate::LoopView) -> usize| told.loops.iter().map(of).sum::<usize>();
    let (connections, parked) = (sum(|one| one.connections), sum(|one| one.parked));
    let held = bytes(sum(|one| one.held_bytes) as f64);
    let awake: f64 = told.loops.iter().map(|one| one.awake_s).sum();
    let share = 100.0 * awake / (told.uptime_s * told.loops.len().max(1) as f64).max(1e-9);
    let mut text = format!(
        "{connections} connections, {parked} calls wait, {held} held, {} threads {share:.1}% awake\n",
        told.loops.len()
    );
    if told.silent_loops > 0 {
        let _ =
            writeln!(text, "{} threads do not report: their counts are missing", told.silent_loops);
    }
    let (replies, syncs) = (&told.replies, &told.syncs);
    let _ = writeln!(
        text,
        "reply cache: {} entries, {}, {} retransmissions answered",
        replies.entries,
        bytes(replies.bytes as f64),
        replies.resent
    );
    let mean = (syncs.done > 0).then(|| syncs.time_s / (syncs.done + syncs.failed) as f64);
    let _ = writeln!(text, "syncs: {}, {} failed, {} each", syncs.done, syncs.failed, time(mean));
    text
}

fn title(what: &str) -> String {
    format!(
        "\n{what:<24} {:>8} {:>8} {:>10} {:>10} {:>8} {:>8} {:>8}\n",
        "calls", "failed", "in", "out", "p50", "p95", "p99"
    )
}

#[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
fn line(name: &str, work: &Work) -> String {
    let quantile = |share| time(work.latency.quantile_s(share));
    format!(
        "{name:<24} {:>8} {:>8} {:>10} {:>10} {:>8} {:>8} {:>8}\n",
        count(work.calls as f64),
        count(work.failed as f64),
        bytes(work.bytes_in as f64),
        bytes(work.bytes_out as f64),
        quantile(0.5),
        quantile(0.95),
        quantile(0.99)
    )
}

fn more(lines: usize) -> String {
    match lines.saturating_sub(LINES_MAX) {
        0 => String::new(),
        more => format!("({more} more: see --json)\n"),
    }
}

fn errors(told: &Snapshot) -> String {
    let mut text = String::new();
    for one in &told.procedures {
        for (error, count) in &one.errors {
            let name = name(&one.program, one.version, &one.name);
            let _ = writeln!(text, "{name}: {error} {count} times");
        }
    }
    for one in told.nfs4.iter().flat_map(|nfs4| &nfs4.operations) {
        for (error, count) in &one.errors {
            let _ = writeln!(text, "NFS 4 {}: {error} {count} times", one.name);
        }
    }
    text
}

fn events(told: &Snapshot) -> String {
    let met = told.events.iter().filter(|(_, count)| **count > 0);
    met.fold(String::new(), |mut text, (name, count)| {
        let _ = writeln!(text, "{}: {count}", name.replace('-', " "));
        text
    })
}
