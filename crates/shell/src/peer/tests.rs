use std::io::IoSlice;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::thread;

use bytes::BytesMut;
use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;

use super::*;
use crate::sys::{self, Route};

const SERVER: Policy =
    Policy { privileged: true, uid: ROOT, reserved_ports_end: RESERVED_PORTS_END };
const USER_SERVER: Policy = Policy { privileged: false, uid: 1000, ..SERVER };

fn judge(policy: Policy) -> Judge {
    Judge::new(Some(policy), Arc::new(Rate::one_in(Duration::from_secs(10))))
}

const NOBODY_UNLESS_RULED: Trust = Trust::Unvouched { refuse: false };
const REFUSED_UNLESS_RULED: Trust = Trust::Unvouched { refuse: true };

#[test]
fn privileged_server_trusts_root_and_pins_other_users() {
    let judge = |owner, port| SERVER.judge(owner, port);
    assert_eq!(judge(Owner::User(ROOT), 5000), Trust::Claimed);
    let pinned = Trust::Pinned { uid: 4_000_000, gid: NOBODY };
    assert_eq!(judge(Owner::User(4_000_000), 5000), pinned);
    assert_eq!(judge(Owner::Unknown, 5000), Trust::Nobody);
    assert_eq!(judge(Owner::User(4_000_000), 5), pinned, "the kernel's report takes precedence");
    // A virtual machine may use an address of this machine, with sockets of its own kernel. A
    // privileged port there still proves privilege.
    assert_eq!(judge(Owner::Unknown, 1023), Trust::Claimed);
    assert_eq!(judge(Owner::Elsewhere, 1023), Trust::Claimed);
    assert_eq!(judge(Owner::Elsewhere, 1024), NOBODY_UNLESS_RULED);
    assert_eq!(judge(Owner::Unsaid, 1024), NOBODY_UNLESS_RULED);
    // If the system permits all users to bind low ports, such a port proves no privilege.
    let open = Policy { reserved_ports_end: 80, ..SERVER };
    assert_eq!(open.judge(Owner::Unknown, 80), Trust::Nobody);
    assert_eq!(open.judge(Owner::Unsaid, 80), NOBODY_UNLESS_RULED);
    assert_eq!(open.judge(Owner::Unsaid, 79), Trust::Claimed);
    // The setting of this machine does not apply to ports of other machines.
    assert_eq!(open.judge(Owner::Elsewhere, 1023), Trust::Claimed);
}

#[test]
fn an_unprivileged_server_serves_its_own_user() {
    let judge = |owner, port| USER_SERVER.judge(owner, port);
    assert_eq!(judge(Owner::User(1000), 5000), Trust::Claimed);
    assert_eq!(judge(Owner::User(ROOT), 5000), Trust::Claimed);
    assert_eq!(judge(Owner::User(1001), 5000), REFUSED_UNLESS_RULED);
    assert_eq!(judge(Owner::Unknown, 5000), Trust::Refused);
    assert_eq!(judge(Owner::Elsewhere, 1023), Trust::Claimed);
    assert_eq!(judge(Owner::Elsewhere, 1024), REFUSED_UNLESS_RULED);
}

/// Runs work as another user if the test has the privilege; returns the user that it ran as.
fn as_user<T: Send + 'static>(uid: u32, work: impl FnOnce() -> T + Send + 'static) -> (u32, T) {
    let thread = thread::spawn(move || {
        let user = Uid::from_raw(uid);
        if geteuid().is_root() {
            set_thread_res_uid(user, user, user).expect("root may be anybody");
        }
        (geteuid().as_raw(), work())
    });
    thread.join().expect("did not panic")
}

#[test]
fn kernel_reports_the_owner_of_a_stream() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let listener = TcpListener::bind(address).expect("there is a loopback");
        let to = listener.local_addr().expect("is bound");
        for uid in [ROOT, 65_533] {
            let connect = move || TcpStream::connect(to).expect("somebody listens");
            let (uid, client) = as_user(uid, connect);
            let (_accepted, from) = listener.accept().expect("somebody came");
            let mut kernel = Kernel::open().expect("answers");
            assert_eq!(kernel.owner(Transport::Stream, from, to), Some(uid), "at {address}");
            // The kernel still reports the closed socket for a while, with root as the owner.
            drop(client);
            assert_eq!(kernel.owner(Transport::Stream, from, to), None, "at {address}");
        }
    }
}

#[test]
fn kernel_reports_the_owner_of_a_datagram_socket() {
    for (wildcard, address) in [("0.0.0.0:0", "127.0.0.1:0"), ("[::]:0", "[::1]:0")] {
        let server = UdpSocket::bind(address).expect("there is a loopback");
        let to = server.local_addr().expect("is bound");
        for own in [wildcard, address] {
            let bind = move || UdpSocket::bind(own).expect("there is a loopback");
            let (uid, client) = as_user(65_533, bind);
            client.send_to(b"?", to).expect("can be sent");
            let (_, from) = server.recv_from(&mut [0; 1]).expect("was sent");
            let mut kernel = Kernel::open().expect("answers");
            assert_eq!(kernel.owner(Transport::Datagram, from, to), Some(uid), "from {own}");
            drop(client);
            assert_eq!(kernel.owner(Transport::Datagram, from, to), None, "from {own}");
        }
    }
}

/// A user binds the port of root's socket under another loopback address, and sends a datagram with
/// the address of root's socket as the source. The kernel reports root as the owner of the source
/// address.
#[test]
fn forged_source_address_of_a_datagram_proves_nothing() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("there is a loopback");
    let to = server.local_addr().expect("is bound");
    let server = OwnedFd::from(server);
    sys::tell_local_address(&server, to.ip()).expect("is an option");
    let victim = UdpSocket::bind("127.0.0.1:0").expect("there is a loopback");
    let from = victim.local_addr().expect("is bound");

    let mut room = BytesMut::with_capacity(64);
    victim.send_to(b"?", to).expect("can be sent");
    let honest = sys::receive_datagram(&server, &mut room).expect("came").expect("has a sender");
    let forged = Route { from: to, to: honest.to };
    as_user(65_533, move || {
        let own = UdpSocket::bind(("127.0.0.2", from.port())).expect("that address is free");
        sys::send_datagram(&own.into(), &mut [IoSlice::new(b"!")], &forged).expect("can be sent");
    });
    let came = sys::receive_datagram(&server, &mut room).expect("came").expect("has a sender");
    assert_eq!(came.from, from, "the two datagrams look equal");

    let trust = |policy| judge(policy).trust(Transport::Datagram, from, to, Time::ZERO);
    assert_eq!(trust(SERVER), Trust::Nobody);
    let uid = geteuid().as_raw();
    assert_eq!(trust(Policy { uid, ..USER_SERVER }), Trust::Refused);
}

#[test]
fn local_addresses_are_distinguished_from_others() {
    let mut judge = judge(SERVER);
    let own = |judge: &mut Judge, address: &str| {
        judge.is_own(address.parse().expect("an address"), Time::ZERO)
    };
    assert!(own(&mut judge, "127.0.0.1") && own(&mut judge, "127.1.2.3"));
    assert!(own(&mut judge, "::1"));
    // Addresses of the documentation block are never local.
    assert!(!own(&mut judge, "192.0.2.1"));
    assert!(!own(&mut judge, "192.0.2.1"));
    assert_eq!(judge.own.len(), 1);
}

#[test]
fn remote_client_is_judged_by_its_port() {
    let mut judge = judge(SERVER);
    let to = "192.0.2.2:2049".parse().expect("an address");
    let mut trust = |from: &str| {
        let from = from.parse().expect("an address");
        judge.trust(Transport::Stream, from, to, Time::ZERO)
    };
    assert_eq!(trust("192.0.2.1:700"), Trust::Claimed);
    assert_eq!(trust("192.0.2.1:7000"), NOBODY_UNLESS_RULED);
}

/// If the kernel does not report socket owners, a low port still proves privilege.
#[test]
fn local_clients_are_judged_by_port_without_kernel_answers() {
    let mut judge = Judge { kernel: None, ..judge(SERVER) };
    let to = "127.0.0.1:2049".parse().expect("an address");
    let mut trust = |from: &str| {
        let from = from.parse().expect("an address");
        judge.trust(Transport::Stream, from, to, Time::ZERO)
    };
    assert_eq!(trust("127.0.0.1:700"), Trust::Claimed);
    assert_eq!(trust("127.0.0.1:7000"), NOBODY_UNLESS_RULED);
}

#[test]
fn primary_group_is_found_in_the_password_file() {
    let list = "root:x:0:0:root:/root:/bin/sh\nbroken\nann:x:1000:100::/:\nbob:x:1001:x::/:\n";
    assert_eq!(group_in(list, 0), Some(0));
    assert_eq!(group_in(list, 1000), Some(100));
    assert_eq!(group_in(list, 1001), None);
    assert_eq!(group_in(list, 1002), None);
}
