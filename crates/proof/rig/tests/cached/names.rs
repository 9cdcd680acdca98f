//! Tests of clients with leases on a server that grants leases on files only. The clients cache
//! names for a time instead.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_base::attributes::SetAttributes;
use leasehold_base::units::FileTime;
use leasehold_client::{
    Asking, Client, Error, FileType, Mode, NodeId, OpenHow, Options, Status, User, Variant,
};
use leasehold_rig::{Manners, MemServer};
use leasehold_shell::client::block_on;
use leasehold_store_mem::{Config, MemStore};

use crate::support::{TIMEOUT, mounted, root, target_of, with_leases};

const MODE: Mode = Mode::from_bits(0o700);
/// A time that is longer than any test.
const LONG: Duration = Duration::from_secs(86_400);

/// Starts a server that grants leases on files only, as one of several metaservers does.
fn server() -> MemServer {
    let config = Config { leases_names: false, ..Config::default() };
    let any = ([127, 0, 0, 1], 0).into();
    MemServer::start_over(any, Arc::new(MemStore::new(config)), Manners::Full).unwrap()
}

/// Creates a client with leases that trusts cached names for the given time.
fn user(server: &MemServer, seed: u64, trust: Duration) -> User {
    user_asking(server, seed, trust, Asking::Named)
}

fn user_asking(server: &MemServer, seed: u64, trust: Duration, asking: Asking) -> User {
    let target = target_of(server, leasehold_session::Options::stream());
    let mounted = with_leases(mounted(&target), true, seed);
    let (file_trust, directory_trust) = ((trust, trust), (trust, trust));
    let usual = Options::new(FileTime::default, seed);
    let options = Options { variant: Variant::Lease, asking, file_trust, directory_trust, ..usual };
    let who = root();
    let client = Client::new(mounted.nfs, mounted.root, mounted.bounds, &who, options);
    block_on(client).unwrap().user(who.clone())
}

fn calls(user: &User) -> u64 {
    user.client().nfs().session().counters().calls
}

const ABSENT: Error = Error::Failed(Status::NotFound);

#[test]
fn a_client_knows_whether_names_are_leased() {
    let (files_alone, all) = (server(), MemServer::start(Manners::Full));
    assert!(!user(&files_alone, 1, LONG).client().leases_names());
    assert!(user(&all, 1, LONG).client().leases_names());
}

/// The client looks up each name of a path once, and the reply contains the attributes of the
/// object.
#[test]
fn a_resolved_path_takes_no_call() {
    let server = server();
    let (maker, reader) = (user(&server, 1, LONG), user(&server, 2, LONG));
    block_on(async {
        maker.create_directory(b"a", MODE).await.unwrap();
        maker.create_directory(b"a/b", MODE).await.unwrap();
        maker.write(b"a/b/file", MODE, Bytes::from_static(b"text")).await.unwrap();
        maker.symlink(b"b/file", b"a/link").await.unwrap();
        maker.client().goodbye().await;

        let before = calls(&reader);
        assert_eq!(reader.attributes(b"a/b/file").await.unwrap().size, 4);
        assert_eq!(calls(&reader), before + 3, "one LOOKUP for each name");
        assert_eq!(reader.attributes(b"a/b/none").await, Err(ABSENT));
        assert_eq!(reader.attributes(b"a/link").await.unwrap().file_type, FileType::Symlink);
        assert_eq!(calls(&reader), before + 5);
        for _ in 0..20 {
            assert_eq!(reader.attributes(b"a/b/file").await.unwrap().size, 4);
            assert_eq!(reader.attributes(b"a/b").await.unwrap().file_type, FileType::Directory);
            assert_eq!(reader.attributes(b"a/b/none").await, Err(ABSENT));
            assert_eq!(reader.attributes(b"a/link").await.unwrap().file_type, FileType::Symlink);
        }
        assert_eq!(calls(&reader), before + 5);
        let (held, _) = reader.client().lease_counts().unwrap();
        assert_eq!(held, 1, "only on the file");
    });
}

/// As with close-to-open consistency, an open of a directory requests its attributes from the
/// server, and the directory is listed again.
#[test]
fn an_open_of_a_directory_asks_the_server() {
    let server = server();
    let (maker, reader) = (user(&server, 1, LONG), user(&server, 2, LONG));
    let names = async |user: &User| {
        let listed = user.list(b"directory", false).await.unwrap();
        let mut names: Vec<_> = listed.into_iter().map(|listed| listed.name).collect();
        names.sort();
        names.concat()
    };
    block_on(async {
        maker.create_directory(b"directory", MODE).await.unwrap();
        maker.write(b"directory/a", MODE, Bytes::new()).await.unwrap();
        assert_eq!(names(&reader).await, b"a");
        assert_eq!(reader.attributes(b"directory/b").await, Err(ABSENT));
        maker.write(b"directory/b", MODE, Bytes::new()).await.unwrap();
        assert_eq!(reader.attributes(b"directory/b").await, Err(ABSENT), "the absence is trusted");
        assert_eq!(names(&reader).await, b"ab");
        reader.attributes(b"directory/b").await.unwrap();
    });
}

#[test]
fn a_name_that_another_client_created_is_visible_when_trust_ends() {
    let server = server();
    let [maker, patient, hasty] =
        [(1, LONG), (2, LONG), (3, Duration::from_millis(10))].map(|(seed, trust)| {
            let user = user(&server, seed, trust);
            assert_eq!(block_on(user.attributes(b"name")), Err(ABSENT));
            user
        });
    let waits = |is_there: bool| {
        let end = Instant::now() + TIMEOUT;
        while block_on(hasty.attributes(b"name")).is_ok() != is_there {
            assert!(Instant::now() < end, "the change is not visible: {is_there}");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    block_on(maker.write(b"name", MODE, Bytes::from_static(b"text"))).unwrap();
    waits(true);
    let before = calls(&patient);
    assert_eq!(block_on(patient.attributes(b"name")), Err(ABSENT));
    assert_eq!(calls(&patient), before, "the absence is trusted");
    block_on(maker.remove(b"name")).unwrap();
    waits(false);
}

/// Cached names may be out of date, but the data of files must be current.
#[test]
fn data_is_seen_at_once() {
    let server = server();
    let (one, other) = (user(&server, 1, LONG), user(&server, 2, LONG));
    block_on(async {
        let here = one.create(b"file", MODE, false).await.unwrap();
        here.write_at(0, Bytes::from_static(b"____")).await.unwrap();
        let there = other.open(b"file", OpenHow::READ_WRITE).await.unwrap();
        for number in 0..20 {
            // The writer has neither synced nor closed the file.
            let text = Bytes::from(format!("{number:04}"));
            here.write_at(0, text.clone()).await.unwrap();
            assert_eq!(other.read(b"file").await.unwrap(), text);
            there.write_at(4 + number, Bytes::from_static(b"x")).await.unwrap();
            let size = one.attributes(b"file").await.unwrap().size;
            assert_eq!(size, 5 + number);
            let cut = SetAttributes { size: Some(4), ..SetAttributes::default() };
            one.set_attributes(b"file", &cut).await.unwrap();
            assert_eq!(other.attributes(b"file").await.unwrap().size, 4);
        }
    });
}

/// A client shows cached attributes of a file only under a lease. After the lease is returned
/// because of another client's change, the client shows no older data.
#[test]
fn a_file_is_read_without_a_call_until_another_changes_it() {
    let server = server();
    let (one, other) = (user(&server, 1, LONG), user(&server, 2, LONG));
    block_on(async {
        one.write(b"file", MODE, Bytes::from_static(b"text")).await.unwrap();
        assert_eq!(other.read(b"file").await.unwrap(), "text");
        let before = calls(&other);
        for _ in 0..20 {
            assert_eq!(other.read(b"file").await.unwrap(), "text");
        }
        assert_eq!(calls(&other), before);
        one.write(b"file", MODE, Bytes::from_static(b"other")).await.unwrap();
        assert_eq!(other.read(b"file").await.unwrap(), "other");
    });
}

/// The reply to a LOOKUP contains the attributes of an object without a lease. The client uses them
/// for this operation without another call, but does not trust them later.
#[test]
fn attributes_of_a_lookup_are_not_requested_again() {
    let (server, who) = (server(), &root());
    let maker = user(&server, 1, LONG);
    let reader = user_asking(&server, 2, LONG, Asking::Used);
    block_on(async {
        maker.write(b"file", MODE, Bytes::from_static(b"text")).await.unwrap();
        let before = calls(&reader);
        let found = reader.client().lookup(who, NodeId::ROOT, b"file").await.unwrap();
        assert_eq!((calls(&reader), found.attributes.size), (before + 1, 4));
        assert_eq!(found.trusted_for, Duration::ZERO, "the object has no lease");
        maker.write(b"file", MODE, Bytes::from_static(b"longer")).await.unwrap();
        let seen = reader.client().getattr(who, found.node).await.unwrap();
        assert_eq!(seen.attributes.size, 6);
        reader.client().forget(found.node, 1);
    });
}

/// A name in the cache may meanwhile belong to another file. If the client removes the name, the
/// file that had the name before must continue to exist with its written data, whether it is open
/// or closed.
#[test]
fn written_data_survives_the_removal_of_a_name_of_another_file() {
    for is_open in [true, false] {
        let server = server();
        let (one, other) = (user(&server, 1, LONG), user(&server, 2, Duration::ZERO));
        block_on(async {
            let mut file = one.create(b"file", MODE, true).await.unwrap();
            file.write_at(0, Bytes::from_static(b"text")).await.unwrap();
            other.rename(b"file", b"moved").await.unwrap();
            other.write(b"file", MODE, Bytes::from_static(b"another's")).await.unwrap();

            if !is_open {
                file.close().await.unwrap();
                file = one.open(b"file", OpenHow::READ_WRITE).await.unwrap();
            }
            file.write_at(4, Bytes::from_static(b" more")).await.unwrap();
            if is_open {
                one.remove(b"file").await.unwrap();
                file.close().await.unwrap();
            } else {
                file.close().await.unwrap();
                one.remove(b"file").await.unwrap();
            }
            assert_eq!(other.read(b"moved").await.unwrap(), "text more", "{is_open}");
            assert_eq!(other.read(b"file").await, Err(ABSENT), "{is_open}");
            one.client().sync().await;
            assert!(!one.client().has_refused_untold(), "{is_open}");
        });
    }
}
