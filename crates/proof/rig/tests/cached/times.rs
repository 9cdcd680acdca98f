//! Tests of file times that a client showed to programs before it sent the written data to the
//! server.

use std::time::Duration;

use bytes::Bytes;
use leasehold_base::units::FileTime;
use leasehold_client::{Attributes, Client, Mode, OpenHow, Options, User, Variant};
use leasehold_rig::{Manners, MemServer};
use leasehold_session::Credential;
use leasehold_shell::client::block_on;

use crate::support::{mounted, root, target_of, with_leases};

const MODE: Mode = Mode::from_bits(0o666);

/// The clock of a client's machine: it is years fast, and advances.
fn time_of_day() -> FileTime {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.expect("the clock is behind 1970") + Duration::from_secs(100_000_000);
    let seconds = i64::try_from(now.as_secs()).expect("a time of day");
    FileTime { seconds, nanoseconds: now.subsec_nanos() }
}

fn user(server: &MemServer, variant: Variant, seed: u64) -> User {
    let target = target_of(server, leasehold_session::Options::stream());
    let mounted = with_leases(mounted(&target), variant == Variant::Lease, seed);
    let options = Options { variant, ..Options::new(time_of_day, seed) };
    let who = root();
    let client = Client::new(mounted.nfs, mounted.root, mounted.bounds, &who, options);
    block_on(client).expect("the server runs").user(root())
}

const fn times(seen: &Attributes) -> (FileTime, FileTime) {
    (seen.modified, seen.changed)
}

/// `make` compares the times of files that it has made, so the time of a target must not change
/// after a program has seen it.
#[test]
fn a_time_that_a_program_saw_stays() {
    for variant in [Variant::Lease, Variant::BufferCache, Variant::CloseToOpen] {
        let server = MemServer::start(Manners::Full);
        let (one, other) = (user(&server, variant, 1), user(&server, Variant::None, 2));
        block_on(async {
            for (name, bytes) in [(&b"small"[..], 100), (b"large", 3 << 20)] {
                let file = one.create(name, MODE, true).await.unwrap();
                let made = file.attributes().await.unwrap();
                assert_eq!(file.attributes().await, Ok(made));
                file.write_at(0, Bytes::from(vec![1; bytes])).await.unwrap();
                let shown = file.attributes().await.unwrap();
                assert!(shown.modified >= made.modified, "{variant:?}: {made:?} {shown:?}");
                file.sync().await.unwrap();
                let seen = file.attributes().await.unwrap();
                assert_eq!(times(&seen), times(&shown), "{variant:?}");
                let seen = other.attributes(name).await.unwrap();
                assert_eq!(seen.modified, shown.modified, "{variant:?}: the server's time");
                // The time must lie within a second of the server's clock, no matter how wrong the
                // client's clock is.
                one.write(b"new", MODE, Bytes::from_static(b"x")).await.unwrap();
                let new = other.attributes(b"new").await.unwrap().modified;
                assert!((0..=1).contains(&(new.seconds - shown.modified.seconds)), "{variant:?}");
                one.remove(b"new").await.unwrap();
                file.close().await.unwrap();
            }
        });
    }
}

/// A mount must show the same time that another mount has shown.
#[test]
fn a_time_that_another_client_saw_stays() {
    let server = MemServer::start(Manners::Full);
    let (one, other) = (user(&server, Variant::Lease, 1), user(&server, Variant::Lease, 2));
    block_on(async {
        let file = one.create(b"file", MODE, true).await.unwrap();
        file.write_at(0, Bytes::from_static(b"text")).await.unwrap();
        let shown = other.attributes(b"file").await.unwrap();
        one.client().sync().await;
        assert_eq!(other.attributes(b"file").await.unwrap().modified, shown.modified);
        assert_eq!(one.attributes(b"file").await.unwrap().modified, shown.modified);
    });
}

/// A user with write permission for another user's file may not set its times. So the client must
/// get the times from the server before it shows them.
#[test]
fn the_time_of_another_users_file_stays() {
    for variant in [Variant::Lease, Variant::BufferCache] {
        let server = MemServer::start(Manners::Full);
        let owner = user(&server, variant, 1);
        let guest = owner.client().user(Credential::system("rig", 77, 77, &[]));
        block_on(async {
            owner.write(b"file", MODE, Bytes::from_static(b"text")).await.unwrap();
            let file = guest.open(b"file", OpenHow::READ_WRITE).await.unwrap();
            file.write_at(0, Bytes::from_static(b"more")).await.unwrap();
            let shown = file.attributes().await.unwrap();
            assert_eq!(file.sync().await, Ok(()));
            let seen = file.attributes().await.unwrap();
            assert_eq!(times(&seen), times(&shown), "{variant:?}");
        });
    }
}

/// If no program reads the time, no call is needed: the server chooses the time when the data
/// arrives.
#[test]
fn a_time_that_no_program_saw_costs_no_call() {
    let server = MemServer::start(Manners::Full);
    let one = user(&server, Variant::Lease, 1);
    let calls = || one.client().nfs().session().counters().calls;
    block_on(async {
        let mut cost = [0, 0];
        for (cost, looks) in cost.iter_mut().zip([false, true]) {
            let file = one.create(b"file", MODE, false).await.unwrap();
            file.sync().await.unwrap();
            let before = calls();
            for at in [0, 1 << 20, 2 << 20] {
                file.write_at(at, Bytes::from(vec![1; 1 << 20])).await.unwrap();
            }
            if looks {
                file.attributes().await.unwrap();
            }
            file.sync().await.unwrap();
            *cost = calls() - before;
            one.remove(b"file").await.unwrap();
        }
        assert_eq!(cost[1], cost[0] + 1, "one SETATTR behind the COMMIT");
    });
}
