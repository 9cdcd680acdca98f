//! Attacks on iods and metaservers by a stranger who lacks the cluster's key.

use std::net::SocketAddr;

use leasehold_base::xdr::{Reader, decode_all};
use leasehold_system_tests::{Cluster, Group};
use leasehold_wire::list::List;
use leasehold_wire::nfs3::{DirectoryArgs, Handle, Name, SetAttributes, create, getattr};
use leasehold_wire::outcome::Outcome;
use leasehold_wire::{lease, mount, replica};

use crate::wire::{Connection, Numbers, Procedure, encoded, find, root};

/// The answers of a server to MNT of paths that a stranger tries.
fn mounts(server: SocketAddr, paths: &[&str]) -> Vec<Option<Handle>> {
    let mut connection = Connection::to(server);
    let procedure = Procedure {
        program: mount::PROGRAM,
        version: mount::VERSION_3,
        number: mount::mnt::NUMBER,
    };
    let mut mount = |path: &&str| {
        let answer = connection.call(&procedure.by(1000, &encoded(&mount::Path(path.as_bytes()))));
        let answer = answer.expect("the server answers");
        match decode_all::<mount::mnt::Reply>(&mut Reader::new(&answer.results)).ok()? {
            Outcome::Done(done) => Some(done.directory),
            Outcome::Failed(_) => None,
        }
    };
    paths.iter().map(&mut mount).collect()
}

#[test]
fn an_iod_rejects_mounts_by_strangers() {
    let cluster = Cluster::start(1, &[]);
    let paths = ["/", "", "/iod0", "/stripes", "/..", "/etc"];
    for (path, got) in paths.iter().zip(mounts(cluster.iod(0), &paths)) {
        assert_eq!(got, None, "{path}");
    }
}

#[test]
fn a_handle_of_a_metaserver_is_invalid_at_its_iods() {
    let cluster = Cluster::start(1, &[]);
    let genuine = root(cluster.metaserver());
    let mut numbers = Numbers::new(0x10d);
    let mut connection = Connection::to(cluster.iod(0));
    for number in 0..2000 {
        let handle = match number {
            0 => genuine,
            _ => Handle::new(&numbers.bytes(32)).expect("a handle may have 32 bytes"),
        };
        let args = encoded(&getattr::Args { object: handle });
        let answer = connection.call(&Procedure::nfs3(getattr::NUMBER).by(0, &args));
        let word = answer.expect("the iod answers").word();
        assert!(word.is_none_or(|word| word != 0), "{handle:?}");
    }
}

#[test]
fn a_metaserver_accepts_no_peer_without_the_key() {
    let group = Group::start(2, &["--strict"]);
    for number in 0..2 {
        let server = SocketAddr::from(([127, 0, 0, 1], group.port(number)));
        let mut connection = Connection::to(server);
        let hello = replica::hello::Args {
            peer: 1 - u32::try_from(number).expect("there are two"),
            epoch: 1 << 40,
            stored_epoch: 1 << 39,
            stored_stamp: 1 << 50,
            strict: true,
        };
        for procedure in 0..24 {
            let call = Procedure {
                program: replica::PROGRAM,
                version: replica::VERSION,
                number: procedure,
            };
            let bodies = [Vec::new(), encoded(&hello), vec![0; 64], vec![0xff; 200]];
            for body in &bodies {
                for message in [call.by(0, body), call.by_nobody(body)] {
                    let answer = connection.call(&message);
                    // The server answers NULL and refuses other calls; a closed connection is a
                    // refusal as well.
                    let is_done = answer.as_ref().and_then(super::wire::Answer::word) == Some(0);
                    assert!(!is_done, "{procedure} {body:02x?}: {answer:?}");
                    if answer.is_none() {
                        connection = Connection::to(server);
                    }
                }
            }
        }
        // The server serves its clients as before.
        assert_eq!(root(server).as_bytes().len(), 32);
    }
}

#[test]
fn no_client_without_a_lease_receives_a_layout() {
    let cluster = Cluster::start(1, &[]);
    let server = cluster.metaserver();
    let mut connection = Connection::to(server);
    let place = DirectoryArgs { directory: root(server), name: Name(b"file") };
    let args = create::Args { place, how: create::How::Unchecked(SetAttributes::default()) };
    let made = connection.call(&Procedure::nfs3(create::NUMBER).by(0, &encoded(&args)));
    assert_eq!(made.and_then(|answer| answer.word()), Some(0));
    let file = find(&mut connection, root(server), "file");
    let objects = Procedure {
        program: lease::PROGRAM,
        version: lease::VERSION,
        number: lease::objects::NUMBER,
    };
    for kind in [lease::Kind::Read, lease::Kind::Write] {
        let wanted = lease::objects::Wanted { file, kind };
        // A client that never said HELLO, with any epoch.
        for epoch in [0, 1, 2, u64::MAX] {
            let caller = lease::Caller { client: [7; 16], instance: 1, epoch };
            let head = lease::Head { caller, asks: List(Vec::new()), base: None };
            let args = encoded(&lease::objects::Args { head, args: wanted });
            let answer = connection.call(&objects.by(0, &args));
            let word = answer.expect("the metaserver answers").word();
            assert_ne!(word, Some(0), "epoch {epoch}");
        }
    }
}
