//! Callers of an iod without a layout from a metaserver, or with calls beyond their layout: an iod
//! rejects each of these calls. The iods need root to distinguish users.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use leasehold_session::leases::messages::layout::Object;
use leasehold_session::leases::messages::leases::{Progress, Returned, Wanted};
use leasehold_session::leases::messages::objects::Layout;
use leasehold_session::leases::messages::{Kind, Open, Terms};
use leasehold_session::nfs::messages::{Handle, SetAttributes, Status, access, write};
use leasehold_session::nfs::{Nfs, Version};
use leasehold_session::{Credential, Options as Calling};
use leasehold_shell::client::{Mounted, SourcePort, block_on};
use rustix::process::Signal;

use crate::cluster::iod;
use crate::direct::{Cluster, data};
use crate::older::{back_up, restore_in_place};
use crate::support::{TIMEOUT, put, who};

const LENGTH: u32 = 60_000;

/// An unprivileged user of this machine.
const USER: u32 = 1000;

/// Takes a lease, requests a layout of that kind, and returns the lease.
fn try_lay_out(server: &Mounted, file: Handle, kind: Kind, caller: &Credential) -> Layout {
    let terms = Terms { kind, term_ms: 60_000, opportune: false, space: 0 };
    let wanted = vec![Wanted { object: file, terms, reclaim: false }];
    let leases = server.nfs.leases().unwrap();
    let (_, held) =
        block_on(leases.lease(caller, wanted, Vec::new(), Progress::Recovered)).unwrap();
    let grant = held[0].grant;
    assert!(grant.cachable);
    let layout = block_on(server.nfs.objects(caller, &file, kind)).unwrap().done().unwrap();
    // Other clients do not wait for this client, which continues to use the layout.
    let returned = Returned { object: file, serial: grant.serial, open: Open::No };
    let asked = leases.lease(caller, Vec::new(), vec![returned], Progress::Recovered);
    block_on(asked).unwrap();
    layout
}

/// Does the same, for a caller that receives a layout.
fn laid_out(server: &Mounted, file: Handle, kind: Kind) -> Layout {
    let layout = try_lay_out(server, file, kind, &who());
    assert_eq!(layout.objects.0.len(), 3);
    layout
}

fn caller_of(layout: &Layout) -> Credential {
    Credential::system("client", layout.user, layout.group, &[])
}

fn session(cluster: &Cluster, object: &Object, calling: Calling, port: SourcePort) -> Nfs {
    let address = SocketAddr::from(([127, 0, 0, 1], u16::try_from(object.port).unwrap()));
    let session = cluster.runtime.session(address, calling.impatient(TIMEOUT), port);
    Nfs::new(session.unwrap(), Version::V3)
}

fn by_stream(cluster: &Cluster, object: &Object) -> Nfs {
    session(cluster, object, Calling::stream(), SourcePort::Any)
}

/// Returns the ways to reach an object's iod: over TCP and UDP, from a privileged port and from
/// another port.
fn ways(cluster: &Cluster, object: &Object) -> Vec<Nfs> {
    let ports = [SourcePort::PrivilegedIfPossible, SourcePort::Any];
    let transports = [Calling::stream, Calling::datagram];
    let both = transports.into_iter().flat_map(|calling| ports.map(|port| (calling(), port)));
    both.map(|(calling, port)| session(cluster, object, calling, port)).collect()
}

/// Returns the operations on an object that an iod permits to a caller.
fn allowed(nfs: &Nfs, caller: &Credential, object: &Handle) -> Vec<&'static str> {
    let set = |changes| block_on(nfs.setattr(caller, object, &changes, None));
    let mode = SetAttributes { mode: Some(0o666), ..SetAttributes::default() };
    let cut = SetAttributes { size: Some(0), ..SetAttributes::default() };
    let bytes = (Bytes::from_static(b"forged"), write::Stability::FileSync);
    let done = [
        ("READ", block_on(nfs.read(caller, object, 0, 8)).is_ok_and(|reply| reply.done().is_ok())),
        ("WRITE", block_on(nfs.write(caller, object, 0, bytes)).is_ok_and(|it| it.done().is_ok())),
        ("COMMIT", block_on(nfs.commit(caller, object, 0, 0)).is_ok_and(|it| it.done().is_ok())),
        ("mode", set(mode).is_ok_and(|reply| reply.done().is_ok())),
        ("size", set(cut).is_ok_and(|reply| reply.done().is_ok())),
        ("GETATTR", block_on(nfs.getattr(caller, object)).is_ok_and(|it| it.done().is_ok())),
    ];
    done.into_iter().filter_map(|(name, is_done)| is_done.then_some(name)).collect()
}

/// Returns credentials that any client can send, including all that follow from known numbers.
fn forged(layouts: &[&Layout]) -> Vec<Credential> {
    let told: Vec<u32> = layouts.iter().flat_map(|it| [it.user, it.group]).collect();
    let near = told.iter().flat_map(|number| (0..3).flat_map(move |by| [number - by, number + by]));
    let users = [0, 1, USER, 65_534, u32::MAX - 1, u32::MAX].into_iter().chain(near);
    let both = users.flat_map(|user| {
        let group = told[0];
        [
            Credential::system("client", user, user, &told),
            Credential::system("client", user, group, &told),
            Credential::system("client", group, user, &told),
        ]
    });
    // Further groups make no difference.
    let is_told = |caller: &Credential| {
        layouts.iter().any(|it| (it.user, it.group) == (caller.uid(), caller.gid()))
    };
    both.filter(|caller| !is_told(caller)).chain([Credential::none()]).collect()
}

fn read_all(server: &Mounted, file: &Handle) -> Bytes {
    block_on(server.nfs.read(&who(), file, 0, LENGTH)).unwrap().done().unwrap().data
}

/// An attacker read a file under a lease, and wrote its objects with AUTH_NONE and with the number
/// from the metaserver.
#[test]
fn caller_without_layout_reads_and_changes_no_object() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let plain = cluster.mount();
    let file = block_on(put(&plain, b"file", &data(LENGTH)));
    let layout = laid_out(&cluster.leased(9), file, Kind::Read);
    let object = &layout.objects.0[0];
    for nfs in ways(&cluster, object) {
        for caller in forged(&[&layout]) {
            assert_eq!(allowed(&nfs, &caller, &object.object), [] as [&str; 0], "{caller:?}");
        }
    }
    assert!(read_all(&plain, &file) == data(LENGTH), "an object was changed");
}

/// A client with a layout for reading can do nothing else at the iod, and does not learn the owner.
#[test]
fn read_layout_permits_no_writes() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let plain = cluster.mount();
    let file = block_on(put(&plain, b"file", &data(LENGTH)));
    let layout = laid_out(&cluster.leased(9), file, Kind::Read);
    let (caller, object) = (caller_of(&layout), &layout.objects.0[0]);
    for nfs in ways(&cluster, object) {
        assert_eq!(allowed(&nfs, &caller, &object.object), ["READ"]);
    }
    let nfs = by_stream(&cluster, object);
    let read = block_on(nfs.read(&caller, &object.object, 0, 8)).unwrap().done().unwrap();
    assert_eq!((&read.data[..], read.attributes), (&data(LENGTH)[..8], None));
    let all = access::Access { read: true, modify: true, extend: true, ..Default::default() };
    let may = block_on(nfs.access(&caller, &object.object, all)).unwrap().done().unwrap();
    let reads = access::Access { read: true, ..Default::default() };
    assert_eq!((may.access, may.attributes), (reads, None));
    let may = block_on(nfs.access(&who(), &object.object, all));
    assert!(may.is_err(), "{may:?}");
    assert!(read_all(&plain, &file) == data(LENGTH), "an object was changed");
}

/// A layout for writing is valid only for its file, and permits no change of owner, mode or size.
#[test]
fn write_layout_is_valid_only_for_its_file() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let plain = cluster.mount();
    let [file, other] =
        [&b"file"[..], b"other"].map(|name| block_on(put(&plain, name, &data(LENGTH))));
    let layout = laid_out(&cluster.leased(9), file, Kind::Write);
    let of_other = laid_out(&cluster.leased(8), other, Kind::Write);
    let (object, elsewhere) = (&layout.objects.0[0], &of_other.objects.0[0]);
    for nfs in ways(&cluster, object) {
        let allowed = allowed(&nfs, &caller_of(&layout), &object.object);
        assert_eq!(allowed, ["READ", "WRITE", "COMMIT"]);
    }
    for nfs in ways(&cluster, elsewhere) {
        let allowed = allowed(&nfs, &caller_of(&layout), &elsewhere.object);
        assert_eq!(allowed, [] as [&str; 0]);
    }
    let nfs = by_stream(&cluster, object);
    for caller in forged(&[&layout, &of_other]) {
        assert_eq!(allowed(&nfs, &caller, &object.object), [] as [&str; 0], "{caller:?}");
    }
}

/// After a change of a file's mode, a client that had read the file could still read and write its
/// objects.
#[test]
fn a_fence_takes_effect_at_once_for_reads_and_writes() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let plain = cluster.mount();
    let file = block_on(put(&plain, b"file", &data(LENGTH)));
    let client = cluster.leased(9);
    let before = laid_out(&client, file, Kind::Read);
    let object = &before.objects.0[0];
    let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    let set = block_on(plain.nfs.setattr(&who(), &file, &mode, None));
    set.unwrap().done().unwrap();
    let ways = ways(&cluster, object);
    for nfs in &ways {
        let allowed = allowed(nfs, &caller_of(&before), &object.object);
        assert_eq!(allowed, [] as [&str; 0]);
    }
    let after = laid_out(&cluster.leased(8), file, Kind::Write);
    for caller in [caller_of(&before)].into_iter().chain(forged(&[&before])) {
        assert_eq!(allowed(&ways[0], &caller, &object.object), [] as [&str; 0], "{caller:?}");
    }
    let writer = caller_of(&after);
    assert_eq!(allowed(&ways[0], &writer, &object.object), ["READ", "WRITE", "COMMIT"]);
}

/// The numbers survive a restart of the iod, which keeps no list of clients.
#[test]
fn restarted_iod_knows_admitted_clients() {
    let Some(mut cluster) = Cluster::start(&[]) else { return };
    let plain = cluster.mount();
    let file = block_on(put(&plain, b"file", &data(LENGTH)));
    let layout = laid_out(&cluster.leased(9), file, Kind::Write);
    let object = layout.objects.0[0];
    let at = cluster.iods.iter().position(|(_, port)| u32::from(*port) == object.port).unwrap();
    let port = cluster.iods[at].1;
    cluster.iods[at].0.end(Signal::KILL);
    cluster.iods[at] = iod(&cluster.home, ["one", "two", "three"][at], "key", port);
    let nfs = by_stream(&cluster, &object);
    let allowed_to = |caller| allowed(&nfs, &caller, &object.object);
    assert_eq!(allowed_to(caller_of(&layout)), ["READ", "WRITE", "COMMIT"]);
    assert_eq!(allowed_to(who()), [] as [&str; 0]);
}

/// The objects of a backup may belong to the numbers of a client: the iod admits no client before
/// its metaserver has verified it, and none if it was rolled back.
#[test]
fn iod_from_backup_admits_no_client() {
    let Some(mut cluster) = Cluster::start(&[]) else { return };
    let plain = cluster.mount();
    let file = block_on(put(&plain, b"file", &data(LENGTH)));
    let layout = laid_out(&cluster.leased(9), file, Kind::Write);
    let object = layout.objects.0[0];
    let at = cluster.iods.iter().position(|(_, port)| u32::from(*port) == object.port).unwrap();
    let (name, port) = (["one", "two", "three"][at], cluster.iods[at].1);
    let start_again = |cluster: &mut Cluster, between: &dyn Fn(&Cluster)| {
        assert!(cluster.iods[at].0.end(Signal::TERM).success());
        between(cluster);
        cluster.iods[at] = iod(&cluster.home, name, "key", port);
    };
    start_again(&mut cluster, &|cluster| back_up(&cluster.home, name));
    let caller = caller_of(&layout);
    let read = |cluster: &Cluster, patience| {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let calling = Calling::stream().impatient(patience);
        let session = cluster.runtime.session(address, calling, SourcePort::Any).unwrap();
        let nfs = Nfs::new(session, Version::V3);
        block_on(nfs.read(&caller, &object.object, 0, 8)).is_ok_and(|it| it.done().is_ok())
    };
    assert!(read(&cluster, TIMEOUT), "the iod is current");
    // The test restores the backup in place, so that the handle and the owner of the object stay
    // valid.
    start_again(&mut cluster, &|cluster| restore_in_place(&cluster.home, name));
    // The wait is far longer than the metaserver needs to notice the new connection.
    assert!(!read(&cluster, Duration::from_secs(8)), "the client read the backup");
}

/// A caller with a rejected credential is the anonymous user, and receives no layout, although the
/// rule of the export trusts other callers.
#[test]
fn untrusted_caller_receives_no_layout() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let file = block_on(put(&cluster.mount(), b"file", &data(LENGTH)));
    let server = cluster.leased(9);
    let nobody = Credential::none();
    let told = try_lay_out(&server, file, Kind::Read, &nobody);
    assert_eq!(told.objects.0.len(), 0, "{told:?}");
    let read = block_on(server.nfs.read(&nobody, &file, 0, 8)).unwrap().done();
    assert_ne!(read.err(), Some(Status::Access), "all users may read it");
}
