//! Tests of clients with leases that use datagrams.

use std::time::Duration;

use bytes::Bytes;
use leasehold_client::{Mode, OpenHow, User, Variant};
use leasehold_rig::{Cable, Faults, Manners, MemServer};
use leasehold_session::Options;
use leasehold_shell::client::block_on;

use super::paths::{user, user_of};
use crate::support::target;

const MODE: Mode = Mode::from_bits(0o700);

/// The faults of a cable that loses, duplicates and reorders datagrams.
const BAD: Faults =
    Faults { round_trip: Duration::from_millis(1), lost: 10, doubled: 100, reordered: 200 };

fn by_datagrams(cable: &Cable, seed: u64) -> User {
    let user = user_of(&target(cable.address(), Options::datagram()), Variant::Lease, seed);
    assert!(user.client().nfs().leases().is_some(), "the server grants leases");
    user
}

fn cabled(faults: Faults) -> (MemServer, Cable) {
    let server = MemServer::start(Manners::Full);
    let any = "127.0.0.1:0".parse().unwrap();
    let cable = Cable::lay(any, server.address(), faults).unwrap();
    (server, cable)
}

fn calls(user: &User) -> u64 {
    user.client().nfs().session().counters().calls
}

/// Over datagrams the client sends as few calls as over a stream, and learns of changes by other
/// clients as fast.
#[test]
fn leased_data_takes_no_call_and_is_evicted() {
    let (server, cable) = cabled(Faults::default());
    let (one, other) = (by_datagrams(&cable, 1), user(&server, Variant::Lease, 2));
    block_on(async {
        other.write(b"file", MODE, Bytes::from_static(b"text")).await.unwrap();
        assert_eq!(one.read(b"file").await.unwrap(), "text");
        let before = calls(&one);
        for _ in 0..100 {
            assert_eq!(one.read(b"file").await.unwrap(), "text");
        }
        assert_eq!(calls(&one), before);
        other.write(b"file", MODE, Bytes::from_static(b"newer")).await.unwrap();
        assert_eq!(one.read(b"file").await.unwrap(), "newer");
        // The other client also sees data that this client has written to its cache only.
        let file = one.open(b"file", OpenHow::READ_WRITE).await.unwrap();
        file.write_at(0, Bytes::from_static(b"fresh")).await.unwrap();
        let before = calls(&one);
        file.close().await.unwrap();
        assert_eq!(calls(&one), before, "a close writes nothing back");
        assert_eq!(other.read(b"file").await.unwrap(), "fresh");
    });
}

/// Grants, recalls, reports and returns of leases are lost, arrive twice and overtake each other.
#[test]
fn a_client_sees_the_writes_of_another_over_a_faulty_cable() {
    let (_server, cable) = cabled(BAD);
    let (one, other) = (by_datagrams(&cable, 1), by_datagrams(&cable, 2));
    block_on(async {
        for number in 0..30 {
            let (writer, reader) = if number % 3 == 0 { (&other, &one) } else { (&one, &other) };
            let text = Bytes::from(format!("the {number}th"));
            let file = writer.create(b"file", MODE, false).await.unwrap();
            file.write_at(0, text.clone()).await.unwrap();
            assert_eq!(reader.attributes(b"file").await.unwrap().size, text.len() as u64);
            assert_eq!(reader.read(b"file").await.unwrap(), text);
            file.close().await.unwrap();
            let name = format!("file {number}").into_bytes();
            writer.rename(b"file", &name).await.unwrap();
            assert_eq!(reader.read(&name).await.unwrap(), text);
            assert!(reader.read(b"file").await.is_err(), "the file has another name");
        }
    });
    let counters = cable.counters();
    assert!(counters.lost > 0 && counters.doubled > 0, "{counters:?}");
}

/// Changes under a lease survive a restart of the server, although the client cannot notice the
/// restart: with datagrams there is no connection that ends.
#[test]
fn delayed_writes_survive_a_restart() {
    let (server, cable) = cabled(Faults::default());
    let (one, other) = (by_datagrams(&cable, 1), user(&server, Variant::Lease, 2));
    block_on(async {
        let file = one.create(b"file", MODE, false).await.unwrap();
        file.write_at(0, Bytes::from_static(b"kept")).await.unwrap();
        let (address, store) = (server.address(), server.store().clone());
        drop(server);
        let _server = MemServer::start_over(address, store, Manners::Full).unwrap();
        file.sync().await.unwrap();
        assert_eq!(other.read(b"file").await.unwrap(), "kept");
    });
}
