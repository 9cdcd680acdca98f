//! The service of datagram clients.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::{
    Client, ECHO, Fixture, LARGE, PANIC, PARK, SILENT, TIMEOUT, WHO, as_user, message, pattern,
};
use rustix::process::geteuid;

/// A client that accepts replies only from the address of its requests.
struct Caller(UdpSocket);

impl Caller {
    fn of(server: SocketAddr) -> Self {
        let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket.connect(server).unwrap();
        Self(socket)
    }

    fn send(&self, what: u32, number: u32) {
        self.0.send(&message(what, number)).unwrap();
    }

    fn reply(&self) -> Vec<u8> {
        let mut reply = vec![0; 1 << 16];
        let length = self.0.recv(&mut reply).unwrap();
        reply.truncate(length);
        reply
    }

    fn echo(&self, number: u32) {
        self.send(ECHO, number);
        assert_eq!(self.reply(), message(ECHO, number));
    }
}

#[test]
fn datagram_receives_one_reply() {
    let server = Fixture::start();
    let caller = Caller::of(server.address);
    for size in [0, 1, 4, 100, 8_191, 8_192, 33_000, 65_507] {
        let mut call = pattern(size);
        call.iter_mut().take(4).for_each(|byte| *byte = 0);
        caller.0.send(&call).unwrap();
        assert!(caller.reply() == call, "{size} bytes");
    }
    caller.send(SILENT, 0);
    caller.echo(1);
    caller.send(PANIC, 0);
    caller.echo(2);
    // The server also accepts streams on the same port.
    Client::connect(server.address).echo(3);
}

#[test]
fn many_datagrams_are_answered() {
    let server = Fixture::start();
    let callers: Vec<Caller> = (0..10).map(|_| Caller::of(server.address)).collect();
    for number in 0..30 {
        callers.iter().for_each(|caller| caller.send(ECHO, number));
    }
    for number in 0..30 {
        for caller in &callers {
            assert_eq!(caller.reply(), message(ECHO, number));
        }
    }
}

#[test]
fn reply_comes_from_the_requested_address() {
    let server = Fixture::with(|options| options.listen = vec!["0.0.0.0:0".parse().unwrap()]);
    for host in ["127.0.0.1", "127.0.0.2", "127.9.9.9"] {
        Caller::of(SocketAddr::new(host.parse().unwrap(), server.address.port())).echo(1);
    }
}

#[test]
fn both_families_are_served_on_one_port() {
    let first = Fixture::with(|options| options.listen = vec!["[::]:0".parse().unwrap()]);
    let port = first.address.port();
    let second =
        Fixture::with(|options| options.listen = vec![SocketAddr::new([0; 4].into(), port)]);
    Caller::of(format!("[::1]:{port}").parse().unwrap()).echo(1);
    Caller::of(format!("127.0.0.1:{port}").parse().unwrap()).echo(2);
    Client::connect(format!("[::1]:{port}").parse().unwrap()).echo(3);
    Client::connect(format!("127.0.0.1:{port}").parse().unwrap()).echo(4);
    assert_eq!(second.address.port(), port);
}

#[test]
fn oversized_reply_is_counted() {
    let server = Fixture::start();
    let caller = Caller::of(server.address);
    caller.send(LARGE, 65_492);
    assert_eq!(caller.reply().len(), 65_504);
    caller.send(LARGE, 65_496);
    caller.echo(1);
    assert_eq!(server.counters().datagrams_too_large.load(Ordering::Relaxed), 1);
}

#[test]
fn waiting_calls_are_overtaken() {
    let server = Fixture::start();
    let callers: Vec<Caller> = (0..5).map(|_| Caller::of(server.address)).collect();
    for (number, caller) in (0..).zip(&callers) {
        caller.send(PARK, number);
    }
    callers[0].echo(99);
    for (number, caller) in (0..5).zip(&callers).rev() {
        server.state.open(number);
        assert_eq!(caller.reply(), message(PARK, number));
    }
}

#[test]
fn stop_answers_received_calls() {
    let server = Fixture::start();
    let caller = Caller::of(server.address);
    caller.send(PARK, 1);
    server.state.wait_for(1);
    let state = Arc::clone(&server.state);
    let opener = std::thread::spawn(move || state.open(1));
    assert!(server.stop(TIMEOUT) < TIMEOUT);
    opener.join().unwrap();
    assert_eq!(caller.reply(), message(PARK, 1));
}

/// The kernel's report of the sender of a datagram is reliable only if the port of the sender
/// requires privilege.
#[test]
fn local_user_is_trusted_from_reserved_ports_only() {
    let server = Fixture::start();
    let address = server.address;
    let (_, user) = as_user(65_533, move || Caller::of(address));
    for caller in [user, Caller::of(address)] {
        caller.send(WHO, 0);
        assert_eq!(caller.reply(), b"Nobody");
    }
    if geteuid().is_root() {
        let bind = |port| UdpSocket::bind(("127.0.0.1", port)).ok();
        let root = (512..1024).find_map(bind).unwrap();
        root.set_read_timeout(Some(TIMEOUT)).unwrap();
        root.connect(address).unwrap();
        let root = Caller(root);
        root.send(WHO, 0);
        assert_eq!(root.reply(), b"Claimed");
    }
}
