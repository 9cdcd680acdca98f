//! MOUNT at the byte level (RFC 1813 appendix I).

use std::sync::{Arc, Mutex};

use leasehold_fs::{Export, ExportId, FsError};
use leasehold_serve::{Event, HandleKey, Observer, Service};
use leasehold_store_mem::MemStore;
use leasehold_wire::list::List;
use leasehold_wire::mount::{PROGRAM, Path, dump, export, mnt, pathconf, umnt, umntall};
use leasehold_wire::nfs3::{self, DirectoryArgs, Name};
use leasehold_wire::outcome::Outcome;

use crate::support::{NAME, PATH, Server};

impl Server {
    fn mount(&mut self, path: &[u8]) -> Result<nfs3::Handle, mnt::Status> {
        match self.call((PROGRAM, 3, mnt::NUMBER), &Path(path)).read() {
            mnt::Reply::Done(done) => {
                assert_eq!(done.flavors, mnt::Flavors(vec![1, 0]));
                Ok(done.directory)
            }
            mnt::Reply::Failed(status) => Err(status),
        }
    }

    fn make_directory(&mut self, directory: nfs3::Handle, name: &[u8]) -> nfs3::Handle {
        let args = nfs3::mkdir::Args {
            place: DirectoryArgs { directory, name: Name(name) },
            attributes: nfs3::SetAttributes::default(),
        };
        let made: nfs3::mkdir::Reply =
            self.call((nfs3::PROGRAM, 3, nfs3::mkdir::NUMBER), &args).read();
        let nfs3::Reply::Done(made) = made else { panic!("{made:?}") };
        made.object.expect("the reply contains it")
    }

    fn mounts(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let results = self.call((PROGRAM, 3, dump::NUMBER), &());
        let List(mounts) = results.read::<dump::Reply<'_>>();
        mounts.iter().map(|mount| (mount.host.0.to_vec(), mount.directory.0.to_vec())).collect()
    }
}

#[test]
fn export_has_three_paths() {
    let mut server = Server::new();
    let root = nfs3::Handle::from(server.service.root_handle(NAME).expect("the export is there"));
    for path in ["/", "", "/data", "/data/", "data", PATH, "/srv/data//"] {
        assert_eq!(server.mount(path.as_bytes()), Ok(root), "{path:?}");
        for version in [1, 2] {
            let results = server.call((PROGRAM, version, mnt::NUMBER), &Path(path.as_bytes()));
            let reply: mnt::OldReply = results.read();
            assert!(matches!(reply, Outcome::Done(handle) if handle.0 == root.as_bytes()));
        }
    }
    for path in ["/dat", "/database", "/srv", "/data/none", "/srv/data/none", "/none"] {
        assert_eq!(server.mount(path.as_bytes()), Err(mnt::Status::NotFound), "{path:?}");
    }
}

/// White space is part of a name; leading and trailing slashes are not.
#[test]
fn export_name_may_begin_and_end_with_a_space() {
    for (name, path) in [(" x ", "/srv/ x "), ("/ x /", "/srv/ x //")] {
        let (name, path) = (name.to_owned(), path.to_owned());
        let mut server = Server::with(|export| Export { name, path, ..export });
        for path in ["/ x ", "// x //", " x ", "/srv/ x ", "//srv/ x "] {
            assert!(server.mount(path.as_bytes()).is_ok(), "{path:?}");
        }
        for path in ["/x", "/srv/x", "/srv/ x"] {
            assert_eq!(server.mount(path.as_bytes()), Err(mnt::Status::NotFound), "{path:?}");
        }
    }
}

#[test]
fn a_directory_below_can_be_mounted_and_nothing_above() {
    let mut server = Server::new();
    let root = server.mount(b"/").expect("it is there");
    let made = server.make_directory(root, b"sub");
    for path in ["/sub", "/data/sub", "/srv/data/sub", "/data//sub/."] {
        assert_eq!(server.mount(path.as_bytes()), Ok(made), "{path:?}");
    }
    assert_eq!(server.mount(b"/data/sub/../../../.."), Ok(root));
}

#[test]
fn mounts_are_listed_until_unmounted() {
    let mut server = Server::new();
    let root = server.mount(b"/data").expect("it is there");
    server.make_directory(root, b"sub");
    server.mount(b"/sub").expect("it is there");
    let host = b"192.0.2.1".to_vec();
    let both = [(host.clone(), b"/data".to_vec()), (host.clone(), b"/data/sub".to_vec())];
    assert_eq!(server.mounts(), both);
    let () = server.call((PROGRAM, 3, umnt::NUMBER), &Path(b"/none")).read();
    assert_eq!(server.mounts(), both);
    let () = server.call((PROGRAM, 3, umnt::NUMBER), &Path(b"/")).read();
    assert_eq!(server.mounts(), [(host, b"/data/sub".to_vec())]);
    server.arrival.from = "192.0.2.2:1".parse().expect("an address");
    let () = server.call((PROGRAM, 3, umntall::NUMBER), &()).read();
    assert_eq!(server.mounts().len(), 1, "another client's mounts stay");
    server.arrival.from = "192.0.2.1:1".parse().expect("an address");
    let () = server.call((PROGRAM, 1, umntall::NUMBER), &()).read();
    assert_eq!(server.mounts(), []);
}

/// Otherwise one client could fill the list for all clients with different spellings of `/`.
#[test]
fn spellings_of_a_path_are_one_mount() {
    let mut server = Server::new();
    let root = server.mount(b"/").expect("it is there");
    server.make_directory(root, b"sub");
    for spelling in ["", "/data", "//data//", "/srv/data/.", "/data/../..", "/sub/..", "/./."] {
        assert_eq!(server.mount(spelling.as_bytes()), Ok(root), "{spelling:?}");
    }
    assert_eq!(server.mounts(), [(b"192.0.2.1".to_vec(), b"/data".to_vec())]);
    let () = server.call((PROGRAM, 3, umnt::NUMBER), &Path(b"/srv/data/sub/../")).read();
    assert_eq!(server.mounts(), []);
}

/// Without a bound for each client, one client could fill the list for all clients.
#[test]
fn mounts_of_one_client_are_bounded() {
    let mut server = Server::new();
    let root = server.mount(b"/").expect("it is there");
    for number in 0..100 {
        let name = format!("{number}");
        let made = server.make_directory(root, name.as_bytes());
        assert_eq!(server.mount(name.as_bytes()), Ok(made), "it is served all the same");
    }
    assert_eq!(server.mounts().len(), 16);
    server.arrival.from = "192.0.2.2:1".parse().expect("an address");
    server.mount(b"/").expect("it is there");
    assert_eq!(server.mounts().len(), 17);
}

/// Otherwise the reply to a small datagram with a forged source address would send the whole list
/// to a victim.
#[test]
fn datagram_reply_lists_only_the_clients_own_mounts() {
    let mut server = Server::new();
    for client in 1..100 {
        server.arrival.from = format!("192.0.2.{client}:700").parse().expect("an address");
        server.mount(b"/").expect("it is there");
    }
    assert_eq!(server.mounts().len(), 99);
    server.arrival.connection = None;
    assert_eq!(server.mounts(), [(b"192.0.2.99".to_vec(), b"/data".to_vec())]);
    server.arrival.from = "192.0.2.100:700".parse().expect("an address");
    assert_eq!(server.mounts(), []);
}

#[test]
fn exports_are_listed() {
    for name in ["data", "/data"] {
        let mut server = Server::with(|export| Export { name: name.to_owned(), ..export });
        let results = server.call((PROGRAM, 3, export::NUMBER), &());
        let List(exports) = results.read::<export::Reply<'_>>();
        let names: Vec<_> = exports.iter().map(|export| export.directory.0.to_vec()).collect();
        assert_eq!(names, [b"/data".to_vec()]);
    }
}

#[test]
fn limits_of_a_directory() {
    let mut server = Server::new();
    let results = server.call((PROGRAM, 2, pathconf::NUMBER), &Path(b"/data"));
    let reply: pathconf::Reply = results.read();
    // The properties of terminals (2, 3, 8) and pipes (6) are undefined; long names are refused
    // (7), and changing owners is restricted (9).
    assert_eq!((reply.name_bytes_max, reply.mask), (255, 0b11_1100_1100));
    let results = server.call((PROGRAM, 2, pathconf::NUMBER), &Path(b"/none"));
    assert_eq!(results.read::<pathconf::Reply>().mask, u32::MAX);
}

/// An observer that records the events.
struct Listener(Arc<Mutex<Vec<String>>>);

impl Observer for Listener {
    fn event(&self, event: &Event<'_>) {
        let line = match event {
            Event::Mounted { path, .. } => format!("mounted {}", path.escape_ascii()),
            Event::MountRefused { path, error, exports, .. } => {
                assert_eq!(*error, FsError::NotFound);
                let names: Vec<&str> = exports.iter().map(|export| &*export.name).collect();
                format!("refused {}, there are {names:?}", path.escape_ascii())
            }
            Event::HandleRefused { export, .. } => format!("a handle of {export}"),
            Event::NotBelieved { refused, .. } => format!("not believed, refused: {refused}"),
            Event::EpochOver { last, .. } => format!("over since {last}"),
            Event::Stranger { from } => format!("a stranger at {from}"),
            Event::GraceBegan { clients } => format!("grace for {clients}"),
            Event::GraceEnded { missing } => format!("grace without {missing}"),
        };
        self.0.lock().expect("no one panicked").push(line);
    }
}

#[test]
fn with_several_exports_the_path_must_say_which() {
    let lines = Arc::default();
    let export = |id, name: &str, path: &str| Export {
        id: ExportId(id),
        name: name.to_owned(),
        path: path.to_owned(),
        read_only: false,
        store: Arc::new(MemStore::default()),
    };
    let exports = vec![export(1, "a", "/srv/a"), export(2, "b", "/srv/a/b")];
    let observer = Box::new(Listener(Arc::clone(&lines)));
    let mut server = Server::new();
    server.service = Arc::new(Service::new(exports, HandleKey([1; 16]), observer));
    assert_eq!(server.mount(b"/"), Err(mnt::Status::NotFound));
    let (a, b) = (server.mount(b"/a").expect("there"), server.mount(b"/b").expect("there"));
    assert_ne!(a, b);
    assert_eq!(server.mount(b"/srv/a"), Ok(a));
    assert_eq!(server.mount(b"/srv/a/b"), Ok(b), "the longest fits best");
    let args = nfs3::rename::Args {
        from: DirectoryArgs { directory: a, name: Name(b"x") },
        to: DirectoryArgs { directory: b, name: Name(b"x") },
    };
    let reply: nfs3::rename::Reply =
        server.call((nfs3::PROGRAM, 3, nfs3::rename::NUMBER), &args).read();
    assert!(matches!(reply, nfs3::Reply::Failed(nfs3::Status::CrossDevice, _)), "{reply:?}");
    let lines = lines.lock().expect("no one panicked");
    assert_eq!(lines[0], r#"refused /, there are ["a", "b"]"#);
    assert_eq!(lines[1..], ["mounted /a", "mounted /b", "mounted /srv/a", "mounted /srv/a/b"]);
}
