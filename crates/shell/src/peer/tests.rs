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
fn a_privileged_server_believes_root_and_pins_others() {
    let judge = |owner, port| SERVER.judge(owner, port);
    assert_eq!(judge(Owner::User(ROOT), 5000), Trust::Claimed);
    let pinned = Trust::Pinned { uid: 4_000_000, gid: NOBODY };
    assert_eq!(judge(Owner::User(4_000_000), 5000), pinned);
    assert_eq!(judge(Owner::Unknown, 5000), Trust::Nobody);
    assert_eq!(judge(Owner::User(4_000_000), 5), pinned, "the kernel's word counts more");
    // A guest of this machine has an address of it, and sockets of its own kernel.
    assert_eq!(judge(Owner::Unknown, 1023), Trust::Claimed);
    assert_eq!(judge(Owner::Elsewhere, 1023), Trust::Claimed);
    assert_eq!(judge(Owner::Elsewhere, 1024), NOBODY_UNLESS_RULED);
    assert_eq!(judge(Owner::Unsaid, 1024), NOBODY_UNLESS_RULED);
    // Where the system lets anybody have low ports, they say nothing.
    let open = Policy { reserved_ports_end: 80, ..SERVER };
    assert_eq!(open.judge(Owner::Unknown, 80), Trust::Nobody);
    assert_eq!(open.judge(Owner::Unsaid, 80), NOBODY_UNLESS_RULED);
    assert_eq!(open.judge(Owner::Unsaid, 79), Trust::Claimed);
    // But what other machines let their users have is not for this one to say.
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

/// Does something as another user where the test has the privilege; says as which user.
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
fn the_kernel_knows_the_owner_of_a_stream() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let listener = TcpListener::bind(address).expect("there is a loopback");
        let to = listener.local_addr().expect("is bound");
        for uid in [ROOT, 65_533] {
            let connect = move || TcpStream::connect(to).expect("somebody listens");
            let (uid, client) = as_user(uid, connect);
            let (_accepted, from) = listener.accept().expect("somebody came");
            let mut kernel = Kernel::open().expect("answers");
            assert_eq!(kernel.owner(Transport::Stream, from, to), Some(uid), "at {address}");
            // Gone, but for a while still known to the kernel: as root's.
            drop(client);
            assert_eq!(kernel.owner(Transport::Stream, from, to), None, "at {address}");
        }
    }
}

#[test]
fn the_kernel_knows_the_owner_of_a_datagram_socket() {
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

/// A user has the port of root's socket under another address of the loopback, and sends from
/// there with root's address as the source. The kernel, asked who is at that source, says root.
#[test]
fn a_datagram_with_the_address_of_another_users_socket_is_not_that_users() {
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
    assert_eq!(came.from, from, "nothing tells the two apart");

    let trust = |policy| judge(policy).trust(Transport::Datagram, from, to, Time::ZERO);
    assert_eq!(trust(SERVER), Trust::Nobody);
    let uid = geteuid().as_raw();
    assert_eq!(trust(Policy { uid, ..USER_SERVER }), Trust::Refused);
}

#[test]
fn own_addresses_are_told_from_others() {
    let mut judge = judge(SERVER);
    let own = |judge: &mut Judge, address: &str| {
        judge.is_own(address.parse().expect("an address"), Time::ZERO)
    };
    assert!(own(&mut judge, "127.0.0.1") && own(&mut judge, "127.1.2.3"));
    assert!(own(&mut judge, "::1"));
    // From the block for documentation: nobody has it.
    assert!(!own(&mut judge, "192.0.2.1"));
    assert!(!own(&mut judge, "192.0.2.1"));
    assert_eq!(judge.own.len(), 1);
}

#[test]
fn a_client_from_elsewhere_is_told_by_its_port() {
    let mut judge = judge(SERVER);
    let to = "192.0.2.2:2049".parse().expect("an address");
    let mut trust = |from: &str| {
        let from = from.parse().expect("an address");
        judge.trust(Transport::Stream, from, to, Time::ZERO)
    };
    assert_eq!(trust("192.0.2.1:700"), Trust::Claimed);
    assert_eq!(trust("192.0.2.1:7000"), NOBODY_UNLESS_RULED);
}

/// Where the kernel does not say who owns a socket, low ports still take privilege.
#[test]
fn without_a_kernel_that_answers_local_clients_are_told_by_their_ports() {
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
fn groups_are_found_in_the_list() {
    let list = "root:x:0:0:root:/root:/bin/sh\nbroken\nann:x:1000:100::/:\nbob:x:1001:x::/:\n";
    assert_eq!(group_in(list, 0), Some(0));
    assert_eq!(group_in(list, 1000), Some(100));
    assert_eq!(group_in(list, 1001), None);
    assert_eq!(group_in(list, 1002), None);
}
