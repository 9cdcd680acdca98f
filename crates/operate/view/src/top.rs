//! `leasehold top`: the current activity, as lines for a terminal, and the keys that change the
//! view.

mod terminal;

use std::cmp::Ordering;
use std::fmt::Write as _;

pub use terminal::watch;

use crate::nfs4::Nfs4View;
use crate::snapshot::{Snapshot, Work};
use crate::span::Span;
use crate::status::name;
use crate::units::{bytes, count, span, time};

/// A pressed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A letter, digit or other character.
    Sign(char),
    /// The enter key.
    Enter,
    /// The backspace key.
    Back,
    /// The escape key.
    Escape,
}

/// The subject of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rows {
    #[default]
    Clients,
    Exports,
    Operations,
}

/// A sort order, largest first: its name and its value.
type Order = (&'static str, fn(&Line<'_>) -> f64);

const ORDERS: &[Order] = &[
    ("busy", |line| line.share),
    ("calls", |line| line.calls),
    ("bytes", |line| line.bytes_in + line.bytes_out),
    ("wait", |line| line.work.mean_wait_s()),
    ("p99", |line| line.work.latency.quantile_s(0.99).unwrap_or(0.0)),
    ("failed", |line| line.failed),
];

/// The state of the view.
#[derive(Clone, Debug, Default)]
pub struct View {
    rows: Rows,
    order: usize,
    /// A filter: lines without this text in their name are hidden.
    filter: String,
    /// True while the user types the filter.
    typing: bool,
    paused: bool,
}

/// One line: a name, and its activity per second.
struct Line<'a> {
    name: String,
    work: &'a Work,
    share: f64,
    calls: f64,
    failed: f64,
    bytes_in: f64,
    bytes_out: f64,
}

impl View {
    /// Handles a key; returns false if the view ends.
    pub fn press(&mut self, key: Key) -> bool {
        if self.typing {
            match key {
                Key::Sign(sign) => self.filter.push(sign),
                Key::Back => drop(self.filter.pop()),
                Key::Enter => self.typing = false,
                Key::Escape => (self.typing, self.filter) = (false, String::new()),
            }
            return true;
        }
        match key {
            Key::Sign('q') => return false,
            Key::Sign('c') => self.rows = Rows::Clients,
            Key::Sign('e') => self.rows = Rows::Exports,
            Key::Sign('o') => self.rows = Rows::Operations,
            Key::Sign('s') => self.order = (self.order + 1) % ORDERS.len(),
            Key::Sign('/') => self.typing = true,
            Key::Sign(' ' | 'p') => self.paused = !self.paused,
            Key::Escape => self.filter.clear(),
            Key::Sign(_) | Key::Enter | Key::Back => {}
        }
        true
    }

    /// Returns true while the view is paused.
    #[must_use]
    pub const fn is_paused(&self) -> bool {
        self.paused
    }

    /// Returns the lines for a terminal of this size.
    #[must_use]
    pub fn lines(&self, happened: &Span, columns: usize, rows: usize) -> Vec<String> {
        let mut lines = head(happened);
        lines.push(String::new());
        let what = match self.rows {
            Rows::Clients => "client",
            Rows::Exports => "export",
            Rows::Operations => "operation",
        };
        lines.push(title(what));
        let mut things = things(self.rows, happened);
        things.retain(|line| line.name.contains(&self.filter));
        let (_, value) = ORDERS[self.order];
        things
            .sort_by(|one, other| value(other).partial_cmp(&value(one)).unwrap_or(Ordering::Equal));
        let room = rows.saturating_sub(lines.len() + 1);
        lines.extend(things.iter().take(room).map(Line::text));
        lines.resize(rows.saturating_sub(1).max(lines.len()), String::new());
        lines.push(self.foot());
        lines.truncate(rows);
        for line in &mut lines {
            *line = line.chars().take(columns).collect();
        }
        lines
    }

    fn foot(&self) -> String {
        let (order, _) = ORDERS[self.order];
        let paused = if self.paused { "PAUSED  " } else { "" };
        let cursor = if self.typing { "_" } else { "" };
        let filter = match (self.typing, self.filter.as_str()) {
            (false, "") => String::new(),
            (_, filter) => format!("  only /{filter}{cursor}"),
        };
        format!(
            "{paused}by {order}{filter}   c clients  e exports  o operations  s sort  / filter  \
             p pause  q quit"
        )
    }
}

/// Returns the state of the server, its total work, and the clients that cause and suffer delays.
#[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
fn head(happened: &Span) -> Vec<String> {
    let added = &happened.added;
    let Snapshot { total, loops, .. } = added;
    let awake: f64 = loops.iter().map(|one| one.awake_s).sum();
    let all = (happened.seconds * loops.len().max(1) as f64).max(1e-9);
    let connections: usize = loops.iter().map(|one| one.connections).sum();
    let parked: usize = loops.iter().map(|one| one.parked).sum();
    let rate = |number| count(happened.rate(number));
    let quantile = |share| time(total.latency.quantile_s(share));
    let mut lines = vec![
        format!(
            "leasehold pid {}  up {}  durability {}  {} threads {:.0}% awake",
            added.pid,
            span(added.uptime_s),
            added.durability,
            loops.len(),
            100.0 * awake / all
        ),
        format!(
            "calls {}/s  failed {}/s  in {}/s  out {}/s  p50 {}  p95 {}  p99 {}",
            rate(total.calls),
            rate(total.failed),
            bytes(happened.rate(total.bytes_in)),
            bytes(happened.rate(total.bytes_out)),
            quantile(0.5),
            quantile(0.95),
            quantile(0.99)
        ),
        format!(
            "connections {connections}  waiting calls {parked}  cached replies {} ({} resent)  \
             syncs {}/s",
            added.replies.entries,
            added.replies.resent,
            rate(added.syncs.done)
        ),
        limits(added),
    ];
    lines.extend(added.nfs4.as_ref().map(Nfs4View::line));
    lines.push(blame(happened));
    lines
}

/// Lists the limits that were reached.
fn limits(added: &Snapshot) -> String {
    let met = added
        .events
        .iter()
        .filter(|(name, count)| **count > 0 && name.as_str() != "connections-accepted");
    let mut text = met.fold(String::new(), |mut text, (name, count)| {
        let _ = write!(text, "{} {count}  ", name.replace('-', " "));
        text
    });
    if added.syncs.failed > 0 {
        let _ = write!(text, "failed syncs {}  ", added.syncs.failed);
    }
    if text.is_empty() { "no limit was reached".to_owned() } else { format!("met: {text}") }
}

/// Names the client that keeps the server most busy, and the client that waits longest.
fn blame(happened: &Span) -> String {
    let clients = &happened.added.clients;
    let share = |one: &&crate::ClientView| happened.share(&one.work);
    let busiest = clients.iter().max_by(|one, other| share(one).total_cmp(&share(other)));
    let waits = clients
        .iter()
        .max_by(|one, other| one.work.mean_wait_s().total_cmp(&other.work.mean_wait_s()));
    match (busiest, waits) {
        (Some(busiest), Some(waits)) if busiest.work.calls > 0 => format!(
            "{} keeps {:.0}% of the threads busy; {} waits longest: {} before a call",
            busiest.address,
            100.0 * happened.share(&busiest.work),
            waits.address,
            time(Some(waits.work.mean_wait_s()))
        ),
        _ => "no client sends calls".to_owned(),
    }
}

fn things(rows: Rows, happened: &Span) -> Vec<Line<'_>> {
    let line = |name: String, work| Line::new(name, work, happened);
    let added = &happened.added;
    match rows {
        Rows::Clients => {
            let clients = added.clients.iter();
            let mut lines: Vec<_> =
                clients.map(|one| line(one.address.to_string(), &one.work)).collect();
            if added.others.calls > 0 {
                lines.push(line("others".to_owned(), &added.others));
            }
            lines
        }
        Rows::Exports => {
            added.exports.iter().map(|one| line(one.name.clone(), &one.work)).collect()
        }
        Rows::Operations => {
            let of = |one: &crate::ProcedureView| name(&one.program, one.version, &one.name);
            let procedures = added.procedures.iter().map(|one| line(of(one), &one.work));
            let operations = added.nfs4.iter().flat_map(|nfs4| &nfs4.operations);
            let operations = operations.map(|one| line(name("NFS", 4, &one.name), &one.work));
            procedures.chain(operations).collect()
        }
    }
}

fn title(what: &str) -> String {
    format!(
        "{what:<26} {:>5} {:>8} {:>8} {:>10} {:>10} {:>8} {:>8} {:>8} {:>8}",
        "busy", "calls/s", "failed/s", "in/s", "out/s", "wait", "p50", "p95", "p99"
    )
}

impl<'a> Line<'a> {
    fn new(name: String, work: &'a Work, happened: &Span) -> Self {
        Self {
            name,
            work,
            share: happened.share(work),
            calls: happened.rate(work.calls),
            failed: happened.rate(work.failed),
            bytes_in: happened.rate(work.bytes_in),
            bytes_out: happened.rate(work.bytes_out),
        }
    }

    fn text(&self) -> String {
        let quantile = |share| time(self.work.latency.quantile_s(share));
        let wait = (self.work.timed > 0).then(|| self.work.mean_wait_s());
        format!(
            "{:<26} {:>4.0}% {:>8} {:>8} {:>10} {:>10} {:>8} {:>8} {:>8} {:>8}",
            self.name,
            100.0 * self.share,
            count(self.calls),
            count(self.failed),
            bytes(self.bytes_in),
            bytes(self.bytes_out),
            time(wait),
            quantile(0.5),
            quantile(0.95),
            quantile(0.99)
        )
    }
}

#[cfg(test)]
mod tests;
