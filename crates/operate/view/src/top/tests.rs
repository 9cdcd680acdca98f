use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_serve::account::Histogram;

use super::*;
use crate::nfs4::OperationView;
use crate::snapshot::{
    ClientView, Latency, LeaseView, LoopView, ProcedureView, ReplyView, SyncView,
};

/// Builds the work of `calls` calls, each of which kept a loop busy for `busy`.
fn work(calls: u64, busy: Duration, latency: Duration) -> Work {
    let mut histogram = Histogram::default();
    (0..calls).for_each(|_| histogram.add(latency));
    let timed = calls;
    let busy_s = busy.as_secs_f64() * f64::from(u32::try_from(calls).expect("is small"));
    let latency = Latency(histogram);
    Work {
        calls,
        bytes_in: calls * 100,
        timed,
        busy_s,
        waited_s: busy_s,
        latency,
        ..Work::default()
    }
}

/// Builds a snapshot with a client of many calls and a client of few.
fn snapshot(uptime_s: f64, greedy: u64, modest: u64) -> Snapshot {
    let (us, ms) = (Duration::from_micros(100), Duration::from_millis(2));
    let client = |address: &str, work| ClientView {
        address: address.parse().expect("an address"),
        connections: 1,
        idle_s: 0.0,
        work,
    };
    let procedure = |name: &str, work| ProcedureView {
        program: "NFS".to_owned(),
        version: 3,
        name: name.to_owned(),
        errors: BTreeMap::new(),
        work,
    };
    let one = LoopView { connections: 2, parked: 3, held_bytes: 0, awake_s: uptime_s / 2.0 };
    Snapshot {
        version: "0".to_owned(),
        pid: 7,
        at_s: 0.0,
        uptime_s,
        durability: "memory".to_owned(),
        addresses: Vec::new(),
        total: work(greedy + modest, us, us),
        exports: Vec::new(),
        procedures: vec![
            procedure("READ", work(greedy, us, us)),
            procedure("GETATTR", work(modest, us, ms)),
        ],
        clients: vec![
            client("192.0.2.1", work(greedy, us, us)),
            client("192.0.2.2", work(modest, us, ms)),
        ],
        others: Work::default(),
        loops: vec![one],
        silent_loops: 0,
        events: BTreeMap::from([("parked-limit-met".to_owned(), modest)]),
        replies: ReplyView::default(),
        syncs: SyncView::default(),
        leases: LeaseView::default(),
        nfs4: None,
        crossed: 0,
        metaserver: None,
    }
}

fn happened() -> Span {
    Span::between(&snapshot(10.0, 1_000, 10), &snapshot(12.0, 11_000, 30))
}

fn names(view: &View) -> Vec<String> {
    let lines = view.lines(&happened(), 200, 40);
    let rows = lines[7..lines.len() - 1].iter().filter(|line| !line.is_empty());
    rows.map(|line| line[..26].trim().to_owned()).collect()
}

#[test]
fn view_shows_activity_between_snapshots() {
    let lines = View::default().lines(&happened(), 200, 40).join("\n");
    for part in [
        "durability memory",
        "50% awake",
        "calls 5.01 k/s",
        "met: parked limit met 20",
        "192.0.2.1 keeps 50% of the threads busy",
        "by busy",
    ] {
        assert!(lines.contains(part), "no {part} in\n{lines}");
    }
    let small = View::default().lines(&happened(), 30, 9);
    assert_eq!(small.len(), 9);
    assert!(small.iter().all(|line| line.len() <= 30) && small[8].starts_with("by busy"));
}

#[test]
fn keys_select_rows_and_order() {
    let mut view = View::default();
    assert_eq!(names(&view), ["192.0.2.1", "192.0.2.2"]);
    let press = |view: &mut View, keys: &str| {
        keys.chars().for_each(|key| assert!(view.press(Key::Sign(key))));
    };
    // By p99, the client of few calls comes first.
    press(&mut view, "ssss");
    assert_eq!(names(&view), ["192.0.2.2", "192.0.2.1"]);
    press(&mut view, "o");
    assert_eq!(names(&view), ["NFS 3 GETATTR", "NFS 3 READ"]);
    press(&mut view, "/REq");
    assert!(names(&view).is_empty(), "while a filter is typed, letters have no other effect");
    view.press(Key::Back);
    view.press(Key::Enter);
    assert_eq!(names(&view), ["NFS 3 READ"]);
    view.press(Key::Escape);
    assert_eq!(names(&view).len(), 2);
    press(&mut view, "p");
    assert!(view.is_paused());
    assert!(!view.press(Key::Sign('q')));
}

#[test]
fn restarted_server_counts_from_zero() {
    let span = Span::between(&snapshot(100.0, 1_000, 10), &snapshot(2.0, 50, 0));
    assert_eq!((span.added.total.calls, span.rate(span.added.total.calls)), (50, 25.0));
}

#[test]
fn operations_of_version_4_are_lines_with_increases() {
    let with = |before: Snapshot, calls| {
        let (us, ms) = (Duration::from_micros(100), Duration::from_millis(2));
        let operation = OperationView {
            name: "LOOKUP".to_owned(),
            changes: false,
            errors: BTreeMap::from([("noent".to_owned(), calls)]),
            unlisted: 0,
            work: work(calls, us, ms),
        };
        let operations = vec![operation];
        let nfs4 = Nfs4View { clients: 3, opens: 5, operations, ..Nfs4View::default() };
        Snapshot { nfs4: Some(nfs4), ..before }
    };
    let (before, after) = (with(snapshot(10.0, 0, 0), 10), with(snapshot(12.0, 0, 0), 30));
    let span = Span::between(&before, &after);
    let added = span.added.nfs4.as_ref().expect("both have version 4");
    assert_eq!((added.operations[0].work.calls, added.operations[0].errors["noent"]), (20, 20));
    let mut view = View::default();
    view.press(Key::Sign('o'));
    let lines = view.lines(&span, 120, 20).join("\n");
    assert!(lines.contains("NFS 4: 3 clients, 0 sessions, 0 busy slots, 5 opens"), "{lines}");
    assert!(lines.contains("\nNFS 4 LOOKUP"), "{lines}");
}
