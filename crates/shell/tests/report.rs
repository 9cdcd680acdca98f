//! The counters of the loops.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::{Client, Fixture, LARGE, PARK, SILENT, TIMEOUT, record};
use leasehold_shell::{LoopReport, Report};
use rustix::net::sockopt;

/// Sums a value over all loops.
fn sum(report: &Report, of: fn(&LoopReport) -> usize) -> usize {
    report.loops.iter().map(of).sum()
}

/// Waits for a report that satisfies a condition.
fn report_when(server: &Fixture, is_so: impl Fn(&Report) -> bool) -> Report {
    let end = Instant::now() + TIMEOUT;
    loop {
        let report = server.report();
        if is_so(&report) {
            return report;
        }
        assert!(Instant::now() < end, "the condition was not reached");
    }
}

#[test]
fn every_call_is_counted_once_and_at_its_end() {
    let server = Fixture::start();
    let mut clients: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for client in &mut clients {
        client.echo(1);
        client.send(LARGE, 100_000);
        client.reply();
        client.send(SILENT, 0);
        client.echo(2);
    }
    clients[0].send(PARK, 7);
    server.state.wait_for(7);
    let report = server.report();
    assert_eq!((report.loops.len(), report.silent), (2, 0));
    let total = report.account.total();
    assert_eq!((total.calls, total.failed), (12, 12), "none of them is a call of RPC");
    assert_eq!((total.bytes_in, total.bytes_out), (12 * 8, 3 * (100_012 + 16)));
    assert_eq!((sum(&report, |one| one.connections), sum(&report, |one| one.parked)), (3, 1));
    let of_clients: Vec<_> = report.account.clients().iter().collect();
    assert_eq!(of_clients.len(), 1, "they have one address");
    assert_eq!((of_clients[0].connections, &of_clients[0].tally), (3, &total));

    server.state.open(7);
    clients[0].reply();
    assert_eq!(server.report().account.total().calls, 13);
    // The counters also include a call that is dropped with its connection.
    let stream = TcpStream::connect(server.address).unwrap();
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    let mut leaves = Client::over(stream);
    leaves.send(PARK, 8);
    server.state.wait_for(8);
    drop((leaves, clients));
    let report = report_when(&server, |report| sum(report, |one| one.connections) == 0);
    assert_eq!((report.account.total().calls, sum(&report, |one| one.parked)), (14, 0));
    assert!(report.account.clients().iter().all(|client| client.connections == 0));
}

/// The kernel reports the arrival of a large call only in large parts. The server checks for
/// smaller parts every few seconds, so that a client that sends slowly does not count as stalled.
#[test]
fn slowly_sent_large_call_is_received() {
    let server = Fixture::start();
    let mut client = server.client();
    let large = record(&vec![0; 1 << 20]);
    let held = |report: &Report| sum(report, |one| one.held_bytes);
    client.write(&large[..60_000]);
    report_when(&server, |report| held(report) > 0);
    client.write(&large[60_000..200_000]);
    report_when(&server, |report| held(report) > 1 << 20);
    client.write(&large[200_000..]);
    assert_eq!(client.reply().len(), 1 << 20);
}

#[test]
fn duration_of_a_call_includes_its_waits() {
    let server = Fixture::start();
    let mut client = server.client();
    // The first call of each loop is timed.
    client.send(PARK, 0);
    server.state.wait_for(0);
    let start = Instant::now();
    (1..64).for_each(|number| client.echo(number));
    let waited = start.elapsed();
    server.state.open(0);
    client.reply();
    let asked = Instant::now();
    let report = server.report();
    // The counters are from the time of the loop's reply, which is later than the request. The
    // report's age must not exceed the time since that request.
    let age = report.age + asked.elapsed();
    let total = report.account.total();
    assert!(total.timed > 0 && total.timed == total.latency.count());
    assert!(total.latency.quantile(1.0).unwrap() >= waited);
    assert!(total.busy + total.waited <= age * 2, "there are two loops");
    assert!(report.loops.iter().all(|one| one.slept <= age));
}
