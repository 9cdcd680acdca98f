//! Tests of each operation, over each transport and protocol version.

use bytes::Bytes;
use leasehold_session::nfs::{Place, Version};
use leasehold_session::{Options, mount as mount_calls};
use leasehold_shell::client::{Mounted, NotFound, Runtime, Target, block_on, mount};
use leasehold_wire::nfs3::access::Access;
use leasehold_wire::nfs3::create::How;
use leasehold_wire::nfs3::write::Stability;
use leasehold_wire::nfs3::{SetAttributes, Status};

use leasehold_rig::{Manners, MemServer};

use crate::support::{TIMEOUT, mounted, root, target_of};

/// Runs the operations that behave in the same manner in all versions and over all transports.
async fn everything(mounted: &Mounted) {
    let (nfs, who, top) = (&mounted.nfs, &root(), &mounted.root);
    let unnamed = SetAttributes::default();
    let made = nfs.mkdir(who, top, b"folder", &unnamed).await.unwrap().done().unwrap();
    let folder = made.object.unwrap();
    let how = How::Guarded(SetAttributes { mode: Some(0o640), ..unnamed });
    let file = nfs.create(who, &folder, b"file", how).await.unwrap().done().unwrap();
    let file = file.object.unwrap();
    let again = nfs.create(who, &folder, b"file", how).await.unwrap().done();
    assert_eq!(again, Err(Status::AlreadyExists));

    let data: Bytes = (0..mounted.bounds.write_bytes).map(|at| at.to_le_bytes()[0]).collect();
    let written = nfs.write(who, &file, 5, (data.clone(), Stability::Unstable)).await.unwrap();
    let written = written.done().unwrap();
    assert_eq!(written.count as usize, data.len());
    let committed = nfs.commit(who, &file, 0, 0).await.unwrap().done().unwrap();
    assert_eq!(committed.verifier, written.verifier);
    let read = nfs.read(who, &file, 5, mounted.bounds.read_bytes).await.unwrap().done().unwrap();
    assert!(read.data == data && read.end);
    let attributes = nfs.getattr(who, &file).await.unwrap().done().unwrap().attributes;
    assert_eq!((attributes.size, attributes.mode), (data.len() as u64 + 5, 0o640));

    let size = SetAttributes { size: Some(3), ..unnamed };
    nfs.setattr(who, &file, &size, None).await.unwrap().done().unwrap();
    let asked = Access { read: true, execute: true, ..Access::default() };
    let access = nfs.access(who, &file, asked).await.unwrap().done().unwrap();
    assert_eq!(access.access, Access { read: true, ..Access::default() });
    nfs.symlink(who, top, b"link", (b"folder/file", &unnamed)).await.unwrap().done().unwrap();
    let link = nfs.lookup(who, top, b"link").await.unwrap().done().unwrap().object;
    let target = nfs.readlink(who, &link).await.unwrap().done().unwrap().target;
    assert_eq!(&target[..], b"folder/file");
    nfs.link(who, &file, top, b"second").await.unwrap().done().unwrap();
    nfs.rename(who, (top, b"second"), (&folder, b"third")).await.unwrap().done().unwrap();
    assert_eq!(names(mounted, &folder).await, ["file", "third"]);

    nfs.remove(who, &folder, b"third").await.unwrap().done().unwrap();
    nfs.remove(who, &folder, b"file").await.unwrap().done().unwrap();
    nfs.rmdir(who, top, b"folder").await.unwrap().done().unwrap();
    nfs.remove(who, top, b"link").await.unwrap().done().unwrap();
    let gone = nfs.lookup(who, top, b"folder").await.unwrap().done();
    assert_eq!(gone.map(|found| found.object), Err(Status::NotFound));
    assert!(nfs.fsstat(who, top).await.unwrap().done().unwrap().bytes > 0);
}

/// Returns the names in a directory, except `.` and `..`, in sorted order.
async fn names(mounted: &Mounted, directory: &leasehold_wire::nfs3::Handle) -> Vec<String> {
    let (mut names, mut place) = (Vec::new(), Some(Place::default()));
    while let Some(from) = place {
        let bytes = mounted.bounds.directory_bytes;
        let listed = mounted.nfs.list(&root(), directory, from, bytes, true).await.unwrap();
        let listed = listed.done().unwrap();
        let text = |name: &Bytes| String::from_utf8(name.to_vec()).unwrap();
        names.extend(listed.entries.iter().map(|entry| text(&entry.name)));
        place = listed.next();
    }
    names.retain(|name| name != "." && name != "..");
    names.sort();
    names
}

#[test]
fn every_operation_works_in_each_version_over_each_transport() {
    let server = MemServer::start(Manners::Full);
    for options in [Options::stream(), Options::datagram()] {
        for version in [None, Some(Version::V2)] {
            let target = Target { version, ..target_of(&server, options) };
            let mounted = mounted(&target);
            assert_eq!(mounted.nfs.version(), version.unwrap_or(Version::V3));
            block_on(everything(&mounted));
            assert_eq!(mounted.nfs.session().open_calls(), 0);
        }
    }
}

#[test]
fn many_calls_at_once_over_several_connections() {
    let server = MemServer::start(Manners::Full);
    let options = Options { connections: 3, in_flight_max: 4, ..Options::stream() };
    let mounted = mounted(&target_of(&server, options));
    let (nfs, who) = (&mounted.nfs, &root());
    let calls = (0..500).map(|_| nfs.getattr(who, &mounted.root));
    let replies = block_on(futures_util::future::join_all(calls));
    assert!(replies.into_iter().all(|reply| reply.unwrap().done().is_ok()));
    let counters = nfs.session().counters();
    assert_eq!((counters.connections, counters.sent_again, counters.late), (3, 0, 0));
}

#[test]
fn missing_objects_and_servers_are_reported() {
    let server = MemServer::start(Manners::Full);
    let runtime = Runtime::start().unwrap();
    let impatient = Options::stream().impatient(TIMEOUT);
    let missing = Target { path: b"/data/no/such".to_vec(), ..target_of(&server, impatient) };
    // MOUNT succeeds for the export only, and the caller must look up the rest of the path.
    let found = block_on(mount(&runtime, &missing, &root())).unwrap();
    assert_eq!(
        (&found.mounted[..], found.rest),
        (&b"/data"[..], vec![b"no".to_vec(), b"such".to_vec()])
    );

    let address = server.address();
    drop(server);
    let nobody = Target { port: Some(address.port()), ..Target::new("127.0.0.1", b"/", impatient) };
    let Err(error) = block_on(mount(&runtime, &nobody, &root())) else {
        panic!("the mount succeeds without a server")
    };
    assert!(matches!(error, NotFound::Step { what: "NFS", .. }), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}

#[test]
fn exports_are_listed() {
    let server = MemServer::start(Manners::Full);
    let runtime = Runtime::start().unwrap();
    let session = runtime.session(server.address(), Options::stream(), Default::default()).unwrap();
    let exports = block_on(mount_calls::exports(&session, &root(), Version::V3)).unwrap();
    assert!(exports.iter().any(|export| &export.directory[..] == b"/data"), "{exports:?}");
}
