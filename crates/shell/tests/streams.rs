//! The behaviour of stream clients, and their isolation from each other.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::collections::BTreeSet;
use std::io::Write;
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use common::{
    ALONE, Client, ECHO, End, Fixture, LARGE, PANIC, PARK, PARK_AND_PANIC, PARK_LARGE, PARK_TO_END,
    SILENT, TIMEOUT, WAKE_AFTER, WAKES, WHO, as_user, message, pattern, record,
};
use leasehold_base::limits::MESSAGE_BYTES_MAX;
use leasehold_base::units::ConnectionId;
use rustix::net::{self, AddressFamily, SocketType, sockopt};
use rustix::process::geteuid;

#[test]
fn a_record_may_come_in_fragments() {
    let server = Fixture::start();
    let mut client = server.client();
    let whole: Vec<u8> = (0..=255).collect();
    for size in [1, 3, 100, 255] {
        let mut bytes = Vec::new();
        let (last, front) = whole.split_last_chunk::<1>().map(|(a, b)| (b, a)).unwrap();
        for fragment in front.chunks(size) {
            bytes.extend_from_slice(&u32::try_from(fragment.len()).unwrap().to_be_bytes());
            bytes.extend_from_slice(fragment);
        }
        bytes.extend_from_slice(&record(last));
        client.write(&bytes);
        assert_eq!(client.reply(), whole, "in fragments of {size}");
    }
}

/// A complete call precedes the first part of the record. The reply to that call proves that the
/// server has received the first part separately.
#[test]
fn a_record_may_be_cut_anywhere() {
    let server = Fixture::start();
    let mut client = server.client();
    let both = [record(&message(ECHO, 1)), record(&message(ECHO, 2))].concat();
    for cut in 0..=both.len() {
        client.write(&[&record(&message(ECHO, 0)), &both[..cut]].concat());
        assert_eq!(client.reply(), message(ECHO, 0));
        client.write(&both[cut..]);
        assert_eq!(client.reply(), message(ECHO, 1), "cut at {cut}");
        assert_eq!(client.reply(), message(ECHO, 2), "cut at {cut}");
    }
}

#[test]
fn a_large_record_may_be_cut_anywhere() {
    let server = Fixture::start();
    let mut client = server.client();
    let mut large = pattern(u32::try_from(MESSAGE_BYTES_MAX).unwrap());
    large[..4].copy_from_slice(&ECHO.to_be_bytes());
    let bytes = record(&large);
    for cut in [1, 4, 5, 511, 512, 513, 40_000, 70_000, 600_000, bytes.len() - 1, bytes.len()] {
        client.write(&[&record(&message(ECHO, 0)), &bytes[..cut]].concat());
        assert_eq!(client.reply(), message(ECHO, 0));
        client.write(&[&bytes[cut..], &record(&message(ECHO, 1))].concat());
        assert!(client.reply() == large, "cut at {cut}");
        assert_eq!(client.reply(), message(ECHO, 1), "cut at {cut}");
    }
}

#[test]
fn pipelined_calls_are_answered_in_order() {
    let server = Fixture::start();
    let mut client = server.client();
    let calls: Vec<u8> = (0..1000).flat_map(|number| record(&message(ECHO, number))).collect();
    client.write(&calls);
    for number in 0..1000 {
        assert_eq!(client.reply(), message(ECHO, number));
    }
}

#[test]
fn replies_of_all_sizes_keep_their_bytes() {
    let server = Fixture::start();
    let mut client = server.client();
    let sizes = [0, 1, 5, 8_000, 8_191, 8_192, 8_193, 65_536, 262_145, 1 << 20];
    for round in 0..4 {
        for size in sizes {
            client.send(LARGE, size);
            client.send(ECHO, round);
        }
    }
    for round in 0..4 {
        for size in sizes {
            let reply = client.reply();
            let (head, data) = reply.split_at(12);
            assert_eq!(head[..8], message(LARGE, size));
            assert_eq!(head[8..], size.to_be_bytes());
            assert!(data[..size as usize] == pattern(size), "{size} bytes");
            assert!(data.len() % 4 == 0 && data[size as usize..].iter().all(|byte| *byte == 0));
            assert_eq!(client.reply(), message(ECHO, round));
        }
    }
}

/// A client requests 64 MiB and does not read: the server produces no more replies than the socket
/// accepts, and serves other clients meanwhile.
#[test]
fn slow_reader_delays_its_own_replies_only() {
    const REPLIES: usize = 64;
    let server = Fixture::with(|options| options.loops = 1.try_into().unwrap());
    let mut slow = server.client();
    for _ in 0..REPLIES {
        slow.send(LARGE, 1 << 20);
    }
    let mut other = server.client();
    for read in 0..REPLIES {
        other.echo(1);
        let made = server.state.large.load(Ordering::SeqCst);
        assert!(made <= read + 20, "{made} replies were made, {read} were read");
        assert_eq!(slow.reply().len(), 12 + (1 << 20));
    }
    assert_eq!(server.state.large.load(Ordering::SeqCst), REPLIES);
}

#[test]
fn half_sent_record_delays_no_other_client() {
    let server = Fixture::with(|options| options.loops = 1.try_into().unwrap());
    let mut half: Vec<Client> = (0..100).map(|_| server.client()).collect();
    let large = record(&vec![0; MESSAGE_BYTES_MAX]);
    for (at, client) in half.iter_mut().enumerate() {
        client.write(&large[..1 + at * 1000]);
    }
    let mut other = server.client();
    other.echo(7);
    for (at, client) in half.iter_mut().enumerate() {
        client.write(&large[1 + at * 1000..]);
        assert_eq!(client.reply().len(), MESSAGE_BYTES_MAX);
    }
}

/// Clients that stop midway are disconnected; an idle client stays connected.
#[test]
fn a_stalled_connection_is_closed() {
    let server = Fixture::with(|options| options.stall_max = Duration::from_millis(100));
    let mut resting = server.client();
    resting.echo(1);
    let mut silent = server.client();
    silent.write(&record(&message(ECHO, 1))[..6]);
    assert!(silent.is_closed(), "in the middle of a record");
    let mut silent = server.client();
    silent.write(&[0, 0, 0, 1, 7]);
    assert!(silent.is_closed(), "between two fragments of a record");
    let mut deaf = server.client();
    // One write sends all calls, because the server may close the connection before a later write.
    deaf.write(&record(&message(LARGE, 1 << 20)).repeat(32));
    server.state.wait_for_end(deaf.0.local_addr().unwrap());
    resting.echo(2);
    assert_eq!(server.counters().connections_stalled.load(Ordering::Relaxed), 3);
}

#[test]
fn half_sent_large_records_hold_bounded_memory() {
    // The number of large buffers that fit into the memory limit of one loop.
    const LIMIT: u64 = 170;
    let server = Fixture::with(|options| options.loops = 1.try_into().unwrap());
    let large = record(&vec![0; MESSAGE_BYTES_MAX]);
    let mut clients = Vec::new();
    for _ in 0..LIMIT + 20 {
        let mut client = server.client();
        client.write(&large[..400_000]);
        clients.push(client);
    }
    // The receive of the last record takes many turns, between which all other connections have
    // their turns.
    let mut last = server.client();
    last.write(&large);
    assert_eq!(last.reply().len(), MESSAGE_BYTES_MAX);
    let closed = server.counters().connections_crowded_out.load(Ordering::Relaxed);
    assert!((1..=21).contains(&closed), "{closed} were closed");
    let mut finished = 0;
    for mut client in clients {
        if client.0.write_all(&large[400_000..]).is_ok() && !client.is_closed() {
            finished += 1;
        }
    }
    assert!(finished >= LIMIT - 1, "{finished} went on");
}

/// The bytes of a record in fragments must count for the memory limit as well.
#[test]
fn fragments_hold_bounded_memory() {
    let server = Fixture::with(|options| options.loops = 1.try_into().unwrap());
    let fragment = [&1_000_000_u32.to_be_bytes()[..], &[7; 1_000_000]].concat();
    let mut clients = Vec::new();
    for _ in 0..300 {
        let mut client = server.client();
        client.write(&fragment);
        clients.push(client);
    }
    // The server does not close the connection of a client that uses little memory, even if it has
    // been idle for longest.
    let mut small = server.client();
    small.write(&fragment[..1000]);
    let mut last = server.client();
    last.write(&fragment);
    last.write(&record(b""));
    assert_eq!(last.reply().len(), 1_000_000);
    let closed = server.counters().connections_crowded_out.load(Ordering::Relaxed);
    assert!((30..=200).contains(&closed), "{closed} were closed");
    small.write(&fragment[1000..]);
    small.write(&record(b""));
    assert_eq!(small.reply().len(), 1_000_000);
}

#[test]
fn memory_of_waiting_calls_is_bounded() {
    let server = Fixture::with(|options| options.loops = 1.try_into().unwrap());
    let mut client = server.client();
    let writer = client.0.try_clone().unwrap();
    let calls = thread::spawn(move || {
        let mut client = Client::over(writer);
        for number in 0..50 {
            let mut call = vec![0; 1 << 20];
            call[..8].copy_from_slice(&message(PARK, number));
            client.write(&record(&call));
        }
    });
    // The calls have 32 MiB in total. Each call keeps its receive buffer in use, which is a little
    // larger than the call, so fewer calls reach the limit.
    server.state.wait_for(28);
    server.client().echo(1);
    let waited = server.state.waited();
    assert!((29..=32).contains(&waited), "no more than the limit wait, but {waited} do");
    for number in 0..50 {
        server.state.open(number);
        assert_eq!(client.reply().len(), 1 << 20);
    }
    calls.join().unwrap();
}

/// A call may wait long, so a small waiting call must not occupy a large receive buffer.
#[test]
fn a_small_call_holds_no_receive_buffer() {
    let server = Fixture::start();
    let mut client = server.client();
    // The start of a large record makes the server allocate a large buffer, which also receives the
    // small call.
    let large = record(&vec![0; 1 << 20]);
    client.write(&large[..100_000]);
    client.write(&[&large[100_000..], &record(&message(ALONE, 0))].concat());
    assert_eq!(client.reply().len(), 1 << 20);
    assert_eq!(client.reply(), [1]);
    client.send(ALONE, 0);
    assert_eq!(client.reply(), [1]);
}

/// Many waiting calls complete at once, and their clients do not read the replies. The server
/// closes the connections that have been idle for longest until the other connections are within
/// the memory limit, and continues to serve other clients.
#[test]
fn unread_replies_are_bounded() {
    are_bounded(false);
}

#[test]
fn unread_replies_in_turn_are_bounded() {
    are_bounded(true);
}

/// Four clients request more data than the memory limit, and do not read.
fn are_bounded(replies_in_turn: bool) {
    const CALLS: u32 = 128;
    let server = Fixture::with(|options| {
        options.loops = 1.try_into().unwrap();
        options.replies_in_turn = replies_in_turn;
    });
    let mut deaf = Vec::new();
    for client in 0..4 {
        let mut one = server.client();
        (0..CALLS).for_each(|call| one.send(PARK_LARGE, client * CALLS + call));
        deaf.push(one);
    }
    // The server reads no calls from a client with unsent replies, so the clients send all calls
    // before the test opens the gates.
    (0..4 * CALLS).for_each(|number| server.state.wait_for(number));
    (0..4 * CALLS).for_each(|number| server.state.open(number));
    server.client().echo(1);
    let closed = || server.counters().connections_crowded_out.load(Ordering::Relaxed);
    let end = Instant::now() + TIMEOUT;
    while closed() < 2 {
        assert!(Instant::now() < end, "{} were closed", closed());
        thread::yield_now();
    }
    // The four clients have requested 512 MiB. The replies of two clients are within the limit of
    // 256 MiB, so the server must not close all connections.
    server.client().echo(2);
    assert!(closed() < 4, "all were closed");
    let last = deaf.last_mut().unwrap();
    for _ in 0..CALLS {
        assert_eq!(last.reply().len(), 4 + (1 << 20));
    }
}

/// Waits until the given number of large replies was requested.
fn wait_for_large(server: &Fixture, calls: usize) {
    let end = Instant::now() + TIMEOUT;
    while server.state.large.load(Ordering::Relaxed) < calls {
        assert!(Instant::now() < end, "not all were called");
        thread::yield_now();
    }
}

/// Some clients read nothing: one of them has the permission to send and others wait for it, and
/// some of these clients disconnect.
#[test]
fn large_replies_in_turn_are_complete() {
    const BYTES: u32 = 1 << 20;
    for loops in [1, 2] {
        let server = Fixture::with(|options| {
            options.loops = loops.try_into().unwrap();
            options.replies_in_turn = true;
        });
        let mut deaf: Vec<_> = (0..6).map(|_| server.client()).collect();
        for client in &mut deaf {
            (0..3).for_each(|_| client.send(LARGE, BYTES));
        }
        wait_for_large(&server, deaf.len());
        let mut reader = server.client();
        (0..5).for_each(|_| reader.send(LARGE, BYTES));
        // The first two clients disconnect; the first of them has the permission to send.
        deaf.drain(..2);
        for client in [&mut reader].into_iter().chain(&mut deaf[..3]) {
            for _ in 0..3 {
                assert!(client.reply()[12..] == pattern(BYTES), "it has its bytes");
            }
        }
        reader.send(ECHO, 1);
        for _ in 0..2 {
            assert!(reader.reply()[12..] == pattern(BYTES), "it has its bytes");
        }
        assert_eq!(reader.reply(), message(ECHO, 1));
        deaf.drain(..3);
        // The last client receives its reply after all other clients.
        assert!(deaf[0].reply()[12..] == pattern(BYTES), "it has its bytes");
    }
}

#[test]
fn half_closed_connection_receives_all_replies() {
    let server = Fixture::start();
    let mut client = server.client();
    client.send(PARK, 1);
    client.send(LARGE, 1 << 20);
    client.send(ECHO, 2);
    client.0.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.reply().len(), 12 + (1 << 20));
    assert_eq!(client.reply(), message(ECHO, 2));
    server.state.open(1);
    assert_eq!(client.reply(), message(PARK, 1));
    assert!(client.is_closed());
}

/// The end may arrive together with the last call, in a single event.
#[test]
fn end_right_after_a_call_is_detected() {
    let server = Fixture::start();
    for number in 0..500 {
        let mut client = server.client();
        client.send(ECHO, number);
        client.0.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.reply(), message(ECHO, number));
        assert!(client.is_closed(), "connection {number}");
    }
}

/// The loop must inform the service of the end when the end arrives, and not when it reads the end:
/// while a client reads no replies or too many of its calls wait, the loop never reads the end.
/// Otherwise a call that the client retransmits over another connection would run twice.
#[test]
fn end_of_stream_is_reported_before_it_is_read() {
    let server = Fixture::with(|options| options.loops = 1.try_into().unwrap());
    let mut deaf = server.client();
    (0..64).for_each(|_| deaf.send(LARGE, 1 << 20));
    deaf.0.shutdown(Shutdown::Write).unwrap();
    let from = deaf.0.local_addr().unwrap();
    server.state.wait_for_end(from);
    assert!(server.state.large.load(Ordering::SeqCst) < 64, "its calls are not all read");
    (0..32).for_each(|_| assert_eq!(deaf.reply().len(), 12 + (1 << 20)));
    let told = server.state.times_ended(from);
    assert!(server.state.large.load(Ordering::SeqCst) < 64, "its calls are not all read");
    assert!(told > 1, "the end is reported again after later calls");
    (32..64).for_each(|_| assert_eq!(deaf.reply().len(), 12 + (1 << 20)));
    assert!(deaf.is_closed());

    let mut waiting = server.client();
    (0..200).for_each(|number| waiting.send(PARK, number));
    server.state.wait_for(127);
    waiting.0.shutdown(Shutdown::Write).unwrap();
    server.state.wait_for_end(waiting.0.local_addr().unwrap());
    assert_eq!(server.state.waited(), 128, "its calls are not all read");
    for number in 0..200 {
        server.state.open(number);
        assert_eq!(waiting.reply(), message(PARK, number));
    }
    assert!(waiting.is_closed());
}

#[test]
fn invalid_record_mark_closes_only_its_connection() {
    let server = Fixture::with(|options| options.loops = 1.try_into().unwrap());
    let mut other = server.client();
    let too_long = u32::try_from(MESSAGE_BYTES_MAX + 1).unwrap();
    for mark in [u32::MAX, 0x7fff_ffff, 0x8000_0000 | too_long, too_long] {
        let mut hostile = server.client();
        hostile.echo(1);
        hostile.write(&mark.to_be_bytes());
        assert!(hostile.is_closed(), "after a mark of {mark:#x}");
        other.echo(2);
    }
    let mut endless = server.client();
    endless.write(&[0; 4 * 5000]);
    assert!(endless.is_closed(), "after endless empty fragments");
    other.echo(3);
}

#[test]
fn call_without_a_reply_is_skipped() {
    let server = Fixture::start();
    let mut client = server.client();
    client.send(SILENT, 0);
    client.echo(1);
}

#[test]
fn waiting_calls_are_overtaken() {
    let server = Fixture::start();
    let mut client = server.client();
    for number in 0..10 {
        client.send(PARK, number);
    }
    client.echo(99);
    for number in (0..10).rev() {
        server.state.open(number);
        assert_eq!(client.reply(), message(PARK, number));
    }
}

#[test]
fn waiting_calls_are_bounded_and_complete() {
    let server = Fixture::start();
    let mut client = server.client();
    for number in 0..200 {
        client.send(PARK, number);
    }
    let mut other = server.client();
    server.state.wait_for(127);
    other.echo(1);
    assert_eq!(server.state.waited(), 128, "no more than the limit wait");
    for number in 0..200 {
        server.state.open(number);
        assert_eq!(client.reply(), message(PARK, number));
    }
}

/// When a loop has reached its limit of waiting calls and a waiting call ends, the connection that
/// has waited longest may have a further waiting call, and not the oldest connection.
#[test]
fn free_place_goes_to_the_longest_waiting_connection() {
    const LIMIT: u32 = 16_384;
    let server = Fixture::with(|options| options.loops = 1.try_into().unwrap());
    let [mut old, mut young] = [server.client(), server.client()];
    old.echo(1);
    young.echo(1);
    let mut crowd = Vec::new();
    for first in (0..LIMIT).step_by(128) {
        let mut client = server.client();
        let calls = (first..first + 128).flat_map(|number| record(&message(PARK, number)));
        client.write(&calls.collect::<Vec<u8>>());
        crowd.push(client);
    }
    (0..LIMIT).for_each(|number| server.state.wait_for(number));
    let lost = || server.counters().parked_limit_met.load(Ordering::Relaxed);
    for (client, number) in [(&mut young, LIMIT), (&mut old, LIMIT + 1)] {
        let before = lost();
        client.send(PARK, number);
        let end = Instant::now() + TIMEOUT;
        while lost() == before {
            assert!(Instant::now() < end, "call {number} met no limit");
            thread::yield_now();
        }
    }
    server.state.open(0);
    server.state.wait_for(LIMIT);
    server.state.open(LIMIT);
    assert_eq!(young.reply(), message(PARK, LIMIT));
    server.state.open(LIMIT + 1);
    assert_eq!(old.reply(), message(PARK, LIMIT + 1));
}

#[test]
fn reply_of_a_closed_connection_is_dropped() {
    let server = Fixture::with(|options| options.loops = 1.try_into().unwrap());
    let mut gone = server.client();
    gone.send(PARK, 1);
    server.state.wait_for(1);
    let from = gone.0.local_addr().unwrap();
    // The client resets the connection. After a plain close the client might still read, so the
    // server would not drop its calls.
    sockopt::set_socket_linger(&gone.0, Some(Duration::ZERO)).unwrap();
    drop(gone);
    server.state.wait_for_end(from);
    // The next connection uses the same slot, and must not receive the reply to the call of the
    // closed connection.
    let mut next = server.client();
    next.echo(1);
    server.state.open(1);
    next.echo(2);
}

#[test]
fn connection_ids_are_unique() {
    let server = Fixture::start();
    let mut clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
    let names: Vec<ConnectionId> = clients.iter_mut().map(Client::name).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 4);
    let mut gone = clients.remove(0);
    assert_eq!(gone.name(), names[0], "it is kept");
    let from = gone.0.local_addr().unwrap();
    drop(gone);
    assert_eq!(server.state.wait_for_end(from), names[0]);
    // One of the next connections reuses the slot of the closed connection.
    let mut next = [server.client(), server.client()];
    let is_there = |client: &mut Client| {
        let name = client.name();
        assert!(!names.contains(&name));
        (name.event_loop, name.slot) == (names[0].event_loop, names[0].slot)
    };
    assert!(next.iter_mut().any(is_there));
}

/// Without this rule a client that closes many connections with waiting calls could use up the
/// limit of waiting calls until these calls complete.
#[test]
fn calls_of_a_closed_connection_are_dropped_unless_they_must_complete() {
    let server = Fixture::start();
    let mut gone = server.client();
    gone.send(PARK, 1);
    gone.send(PARK_TO_END, 2);
    gone.send(PARK, 3);
    (1..4).for_each(|number| server.state.wait_for(number));
    let mut other = server.client();
    other.send(PARK, 4);
    server.state.wait_for(4);
    // The client resets the connection. After a plain close the client might still read, so the
    // server would not drop its calls.
    sockopt::set_socket_linger(&gone.0, Some(Duration::ZERO)).unwrap();
    drop(gone);
    assert_eq!([1, 3].map(|number| server.state.end_of(number)), [End::LetGo; 2]);
    server.state.open(2);
    server.state.open(4);
    assert_eq!([2, 4].map(|number| server.state.end_of(number)), [End::Done; 2]);
    assert_eq!(other.reply(), message(PARK, 4));
}

#[test]
fn service_is_woken_at_the_requested_time() {
    // The loop also wakes the service at each sweep, which is once a second in this test. A shorter
    // span between two wake-ups proves that the loop wakes the service at the requested time.
    let server = Fixture::with(|options| options.stall_max = Duration::from_secs(1));
    let woken = server.state.wait_for_wakes();
    let spans: Vec<Duration> = woken.windows(2).map(|two| two[1].since(two[0])).collect();
    assert!(spans.iter().take(WAKES - 1).all(|span| *span >= WAKE_AFTER), "{spans:?}");
    assert!(spans.iter().min() < Some(&Duration::from_millis(900)), "{spans:?}");
}

/// A client that reconnects after a failure retransmits its running calls. Before these calls
/// arrive, the service must know that the first connection has ended.
#[test]
fn end_of_stream_is_reported_while_its_calls_wait() {
    let server = Fixture::start();
    let mut gone = server.client();
    gone.send(PARK, 1);
    server.state.wait_for(1);
    let from = gone.0.local_addr().unwrap();
    drop(gone);
    server.state.wait_for_end(from);
    server.state.open(1);
    server.client().echo(2);
}

#[test]
fn panic_closes_only_its_connection() {
    let server = Fixture::with(|options| options.loops = 1.try_into().unwrap());
    let mut other = server.client();
    let mut client = server.client();
    client.send(PANIC, 0);
    assert!(client.is_closed());
    other.echo(1);
    let mut client = server.client();
    client.send(PARK_AND_PANIC, 1);
    server.state.open(1);
    assert!(client.is_closed());
    other.echo(2);
}

#[test]
fn many_connections_are_served() {
    let server = Fixture::start();
    let mut clients: Vec<Client> = (0..400).map(|_| server.client()).collect();
    for (number, client) in (0..).zip(&mut clients) {
        client.send(ECHO, number);
    }
    for (number, client) in (0..).zip(&mut clients) {
        assert_eq!(client.reply(), message(ECHO, number));
    }
}

#[test]
fn connections_beyond_the_limit_are_refused_until_one_ends() {
    let server = Fixture::with(|options| options.connections_max = 2);
    let (mut one, mut two) = (server.client(), server.client());
    one.echo(1);
    two.echo(2);
    assert!(server.client().is_closed());
    let from = one.0.local_addr().unwrap();
    drop(one);
    server.state.wait_for_end(from);
    server.client().echo(3);
    two.echo(4);
}

/// If one address has all connections, the server closes the longest idle connection of that
/// address for a connection from another address.
#[test]
fn one_address_cannot_keep_all_connections() {
    let any = "0.0.0.0:0".parse().unwrap();
    let server = Fixture::with(|options| {
        (options.listen, options.connections_max) = (vec![any], 8);
    });
    let [greedy, other] = [1, 2].map(|last| SocketAddr::from(([127, 0, 0, last], 0)));
    let connect = |host: SocketAddr| {
        // The client binds the loopback address that it also uses as its destination, so that each
        // host has its own source address.
        let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        net::bind(&socket, &host).unwrap();
        let to = SocketAddr::new(host.ip(), server.address.port());
        net::connect(&socket, &to).unwrap();
        Client::over(socket.into())
    };
    let mut all: Vec<Client> = (0..8).map(|_| connect(greedy)).collect();
    all.iter_mut().for_each(|client| client.echo(1));
    all[1..].iter_mut().for_each(|client| client.echo(2));
    connect(other).echo(3);
    let end = Instant::now() + TIMEOUT;
    let is_gone = |client: &mut Client| {
        client.0.set_nonblocking(true).unwrap();
        let closed = client.is_closed();
        client.0.set_nonblocking(false).unwrap();
        closed
    };
    let gone = loop {
        assert!(Instant::now() < end, "none was closed");
        if let Some(gone) = all.iter_mut().position(is_gone) {
            break gone;
        }
        thread::yield_now();
    };
    all.remove(gone);
    all.iter_mut().for_each(|client| client.echo(4));
    assert_eq!(server.counters().connections_crowded_out.load(Ordering::Relaxed), 1);
}

#[test]
fn local_user_is_the_socket_owner_in_the_kernel() {
    let server = Fixture::start();
    let mut root = server.client();
    root.send(WHO, 0);
    if geteuid().is_root() {
        assert_eq!(root.reply(), b"Claimed");
    }
    let address = server.address;
    let (uid, mut user) = as_user(65_533, move || Client::connect(address));
    user.send(WHO, 0);
    let trust = String::from_utf8(user.reply()).unwrap();
    assert!(trust.starts_with(&format!("Pinned {{ uid: {uid}, ")), "is {trust}");
}

#[test]
fn stop_answers_received_calls() {
    let server = Fixture::start();
    let mut client = server.client();
    client.send(PARK, 1);
    server.state.wait_for(1);
    let state = std::sync::Arc::clone(&server.state);
    let opener = std::thread::spawn(move || state.open(1));
    assert!(server.stop(TIMEOUT) < TIMEOUT);
    opener.join().unwrap();
    assert_eq!(client.reply(), message(PARK, 1));
    assert!(client.is_closed());
}

/// A client that reads nothing has the permission to send. At the stop the clients that wait for
/// the permission nevertheless receive their replies.
#[test]
fn stop_answers_connections_that_wait_for_their_turn() {
    const BYTES: u32 = 1 << 20;
    let server = Fixture::with(|options| {
        options.loops = 1.try_into().unwrap();
        options.replies_in_turn = true;
    });
    let mut deaf = server.client();
    (0..3).for_each(|_| deaf.send(LARGE, BYTES));
    let mut readers: Vec<_> = (0..3).map(|_| server.client()).collect();
    readers.iter_mut().for_each(|reader| reader.send(LARGE, BYTES));
    wait_for_large(&server, 1 + readers.len());
    let stopped = thread::spawn(move || server.stop(TIMEOUT));
    for reader in &mut readers {
        assert!(reader.reply()[12..] == pattern(BYTES), "it has its bytes");
    }
    drop(deaf);
    assert!(stopped.join().unwrap() < TIMEOUT);
    assert!(readers.iter_mut().all(Client::is_closed));
}

#[test]
fn stop_waits_at_most_the_grace() {
    let server = Fixture::start();
    let mut client = server.client();
    client.send(PARK, 1);
    server.state.wait_for(1);
    let took = server.stop(Duration::from_millis(50));
    assert!(took < TIMEOUT, "took {took:?}");
    assert!(client.is_closed());
}
