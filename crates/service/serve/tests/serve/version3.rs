//! Version 3 at the byte level, over a store in memory (RFC 1813).

use crate::support::{Results, Server};
use bytes::Bytes;
use leasehold_base::limits::REPLY_AGE_MAX;
use leasehold_base::units::{ConnectionId, Cookie};
use leasehold_base::xdr::Encode;
use leasehold_serve::{HandleKey, Trust};
use leasehold_wire::list::List;
use leasehold_wire::nfs3::{
    DirectoryArgs, FileType, Handle, Made, Name, PROGRAM, Path, Reply, SetAttributes, Status,
    VERSION, Wcc, access, commit, create, fsinfo, fsstat, getattr, link, lookup, mkdir, mknod,
    pathconf, read, readdir, readdirplus, readlink, remove, rename, rmdir, setattr, symlink, write,
};

impl Server {
    fn nfs(&mut self, procedure: u32, args: &impl Encode) -> Results {
        self.call((PROGRAM, VERSION, procedure), args)
    }

    fn root(&mut self) -> Handle {
        let handle = self.service.root_handle(crate::support::NAME).expect("the export is there");
        Handle::from(handle)
    }

    fn create(&mut self, directory: Handle, name: &[u8]) -> Made {
        let place = DirectoryArgs { directory, name: Name(name) };
        let how = create::How::Guarded(SetAttributes { mode: Some(0o644), ..Default::default() });
        match self.nfs(create::NUMBER, &create::Args { place, how }).read() {
            create::Reply::Done(made) => made,
            create::Reply::Failed(status, _) => panic!("{status:?}"),
        }
    }

    fn lookup(&mut self, directory: Handle, name: &[u8]) -> Result<lookup::Done, Status> {
        let place = DirectoryArgs { directory, name: Name(name) };
        match self.nfs(lookup::NUMBER, &place).read() {
            lookup::Reply::Done(done) => Ok(done),
            lookup::Reply::Failed(status, _) => Err(status),
        }
    }
}

#[test]
fn write_commit_and_read_back() {
    let mut server = Server::new();
    let root = server.root();
    let file = server.create(root, b"file").object.expect("a handle");
    let data = Bytes::from(vec![7; 100_000]);
    let args = write::Args {
        file,
        offset: 5,
        count: 100_000,
        stability: write::Stability::Unstable,
        data: data.clone(),
    };
    let write::Reply::Done(written) = server.nfs(write::NUMBER, &args).read() else {
        panic!("WRITE failed")
    };
    assert_eq!((written.count, written.stability), (100_000, write::Stability::Unstable));
    assert_eq!(written.file.before.map(|before| before.size), Some(0));
    assert_eq!(written.file.after.map(|after| after.size), Some(100_005));
    let args = commit::Args { file, offset: 0, count: 0 };
    let commit::Reply::Done(committed) = server.nfs(commit::NUMBER, &args).read() else {
        panic!("COMMIT failed")
    };
    assert_eq!(committed.verifier, written.verifier);
    let args = read::Args { file, offset: 0, count: u32::MAX };
    let read::Reply::Done(read) = server.nfs(read::NUMBER, &args).read() else {
        panic!("READ failed")
    };
    assert_eq!((read.count, read.end, &read.data[..5]), (100_005, true, &[0; 5][..]));
    assert_eq!(read.data.slice(5..), data);
}

#[test]
fn a_count_that_is_not_the_length_of_the_data_is_invalid() {
    let mut server = Server::new();
    let root = server.root();
    let file = server.create(root, b"file").object.expect("a handle");
    let args = write::Args {
        file,
        offset: 0,
        count: 3,
        stability: write::Stability::FileSync,
        data: Bytes::from_static(b"four"),
    };
    let reply: write::Reply = server.nfs(write::NUMBER, &args).read();
    assert!(matches!(reply, Reply::Failed(Status::Invalid, _)), "{reply:?}");
}

/// Version 3 returns INVAL for a directory, for which version 2 servers return ISDIR (RFC 1813
/// 3.3.6, 3.3.7).
#[test]
fn a_directory_is_no_file() {
    let mut server = Server::new();
    let root = server.root();
    let (offset, count) = (0, 4);
    let stability = write::Stability::FileSync;
    let data = Bytes::from_static(b"four");
    let args = read::Args { file: root, offset, count };
    let reply: read::Reply = server.nfs(read::NUMBER, &args).read();
    assert!(matches!(reply, Reply::Failed(Status::Invalid, _)), "{reply:?}");
    let args = write::Args { file: root, offset, count, stability, data };
    let reply: write::Reply = server.nfs(write::NUMBER, &args).read();
    assert!(matches!(reply, Reply::Failed(Status::Invalid, _)), "{reply:?}");
    let args = commit::Args { file: root, offset, count };
    let reply: commit::Reply = server.nfs(commit::NUMBER, &args).read();
    assert!(matches!(reply, Reply::Failed(Status::Invalid, _)), "{reply:?}");
}

#[test]
fn datagrams_carry_less() {
    let mut server = Server::new();
    let root = server.root();
    let mut read_bytes_max = |connection| {
        server.arrival.connection = connection;
        match server.nfs(fsinfo::NUMBER, &fsinfo::Args { root }).read() {
            fsinfo::Reply::Done(done) => done.read_bytes_max,
            fsinfo::Reply::Failed(status, _) => panic!("{status:?}"),
        }
    };
    assert_eq!(read_bytes_max(Some(ConnectionId::default())), 1 << 20);
    assert_eq!(read_bytes_max(None), 32 << 10);
}

#[test]
fn names_come_and_go() {
    let mut server = Server::new();
    let root = server.root();
    let attributes = SetAttributes { mode: Some(0o755), ..Default::default() };
    let place = |name| DirectoryArgs { directory: root, name: Name(name) };
    let mkdir::Reply::Done(made) =
        server.nfs(mkdir::NUMBER, &mkdir::Args { place: place(b"dir"), attributes }).read()
    else {
        panic!("MKDIR failed")
    };
    let directory = made.object.expect("a handle");
    let args = symlink::Args { place: place(b"link"), attributes, target: Path(b"../any where") };
    let symlink::Reply::Done(made) = server.nfs(symlink::NUMBER, &args).read() else {
        panic!("SYMLINK failed")
    };
    let symlink = made.object.expect("a handle");
    let results = server.nfs(readlink::NUMBER, &readlink::Args { symlink });
    let readlink::Reply::Done(read) = results.read() else { panic!("READLINK failed") };
    assert_eq!(read.target, Path(b"../any where"));

    let node = mknod::Node::Fifo(attributes);
    let mknod::Reply::Done(made) =
        server.nfs(mknod::NUMBER, &mknod::Args { place: place(b"fifo"), node }).read()
    else {
        panic!("MKNOD failed")
    };
    assert_eq!(made.attributes.map(|attributes| attributes.file_type), Some(FileType::Fifo));
    let args = mknod::Args { place: place(b"regular"), node: mknod::Node::Regular };
    let reply: mknod::Reply = server.nfs(mknod::NUMBER, &args).read();
    assert!(matches!(reply, Reply::Failed(Status::BadType, _)), "{reply:?}");

    let to = DirectoryArgs { directory, name: Name(b"moved") };
    let args = rename::Args { from: place(b"fifo"), to };
    let reply: rename::Reply = server.nfs(rename::NUMBER, &args).read();
    assert!(matches!(reply, Reply::Done(_)), "{reply:?}");
    let file = server.lookup(directory, b"moved").expect("it is there").object;
    let args = link::Args { file, link: place(b"again") };
    let link::Reply::Done(done) = server.nfs(link::NUMBER, &args).read() else {
        panic!("LINK failed")
    };
    assert_eq!(done.attributes.map(|attributes| attributes.link_count), Some(2));

    let reply: rmdir::Reply = server.nfs(rmdir::NUMBER, &place(b"dir")).read();
    assert!(matches!(reply, Reply::Failed(Status::NotEmpty, Wcc { after: Some(_), .. })));
    let reply: remove::Reply = server.nfs(remove::NUMBER, &place(b"again")).read();
    assert!(matches!(reply, Reply::Done(_)), "{reply:?}");
    assert_eq!(server.lookup(root, b"again"), Err(Status::NotFound));
}

#[test]
fn nothing_outside_the_export_is_reached() {
    let mut server = Server::new();
    let root = server.root();
    assert_eq!(server.lookup(root, b"..").map(|found| found.object), Ok(root));
    assert_eq!(server.lookup(root, b".").map(|found| found.object), Ok(root));
    for name in [&b"../x"[..], b"/", b"a/b", b"", b"a\0b"] {
        assert_eq!(server.lookup(root, name), Err(Status::Access), "{name:?}");
    }
    let place = DirectoryArgs { directory: root, name: Name(b"../x") };
    let how = create::How::Unchecked(SetAttributes::default());
    let reply: create::Reply = server.nfs(create::NUMBER, &create::Args { place, how }).read();
    assert!(matches!(reply, Reply::Failed(Status::Access, _)), "{reply:?}");
    let mut forged = root.as_bytes().to_vec();
    forged[5] ^= 1;
    let forged = Handle::new(&forged).expect("short enough");
    let reply: getattr::Reply =
        server.nfs(getattr::NUMBER, &getattr::Args { object: forged }).read();
    assert_eq!(reply, Reply::Failed(Status::BadHandle, ()));
}

#[test]
fn a_listing_in_small_pieces_has_every_name_once() {
    let mut server = Server::new();
    let root = server.root();
    let mut names: Vec<Vec<u8>> = (0..100).map(|n| format!("file {n}").into_bytes()).collect();
    for name in &names {
        server.create(root, name);
    }
    names.extend([b".".to_vec(), b"..".to_vec()]);
    names.sort();
    for count in [200, 512, 8192] {
        let (mut listed, mut cookie) = (Vec::new(), Cookie(0));
        loop {
            let args = readdir::Args { directory: root, cookie, verifier: [0; 8], count };
            let results = server.nfs(readdir::NUMBER, &args);
            let readdir::Reply::Done(done) = results.read::<readdir::Reply<List<_>>>() else {
                panic!("READDIR failed")
            };
            let entries: Vec<readdir::Entry<'_>> = done.entries.0;
            listed.extend(entries.iter().map(|entry| entry.name.0.to_vec()));
            if done.end {
                break;
            }
            cookie = entries.last().expect("some entry fits").cookie;
        }
        listed.sort();
        assert_eq!(listed, names, "{count} bytes at a time");
    }
    let args = readdir::Args { directory: root, cookie: Cookie(0), verifier: [0; 8], count: 100 };
    let results = server.nfs(readdir::NUMBER, &args);
    let reply: readdir::Reply<List<readdir::Entry<'_>>> = results.read();
    assert!(matches!(reply, Reply::Failed(Status::TooSmall, _)), "{reply:?}");
}

#[test]
fn readdirplus_returns_the_attributes_of_lookup() {
    let mut server = Server::new();
    let root = server.root();
    let made = server.create(root, b"file");
    let args = readdirplus::Args {
        directory: root,
        cookie: Cookie(0),
        verifier: [0; 8],
        names_count: 0,
        count: 4096,
    };
    let results = server.nfs(readdirplus::NUMBER, &args);
    let readdirplus::Reply::Done(done) = results.read::<readdirplus::Reply<List<_>>>() else {
        panic!("READDIRPLUS failed")
    };
    let entries: Vec<readdirplus::Entry<'_>> = done.entries.0;
    let dot = entries.iter().find(|entry| entry.name.0 == b".").expect("it is listed");
    assert_eq!(dot.object, Some(root));
    // One entry fits even if the client requests very few bytes; then the listing continues.
    assert!(!done.end || entries.iter().any(|entry| entry.object == made.object));
}

#[test]
fn caller_depends_on_credential_and_trust() {
    let mut server = Server::new();
    let root = server.root();
    let made = server.create(root, b"file");
    let object = made.object.expect("a handle");
    assert_eq!(made.attributes.map(|attributes| attributes.uid), Some(0));
    let attributes = SetAttributes { uid: Some(7), ..Default::default() };
    let args = setattr::Args { object, attributes, guard: None };
    server.arrival.trust = Trust::Nobody;
    let reply: setattr::Reply = server.nfs(setattr::NUMBER, &args).read();
    assert!(matches!(reply, Reply::Failed(Status::NotOwner, _)), "{reply:?}");
    let all = access::Access {
        read: true,
        lookup: true,
        modify: true,
        extend: true,
        delete: true,
        execute: true,
    };
    let mut granted = |trust| {
        server.arrival.trust = trust;
        match server.nfs(access::NUMBER, &access::Args { object, access: all }).read() {
            access::Reply::Done(done) => done.access,
            access::Reply::Failed(status, _) => panic!("{status:?}"),
        }
    };
    let reads = access::Access { read: true, ..Default::default() };
    let writes = access::Access { modify: true, extend: true, ..reads };
    assert_eq!(granted(Trust::Claimed), writes);
    assert_eq!(granted(Trust::Nobody), reads);
    assert_eq!(granted(Trust::Pinned { uid: 5, gid: 5 }), reads);
    assert_eq!(granted(Trust::Pinned { uid: 0, gid: 0 }), writes);
}

#[test]
fn a_read_only_export_refuses_every_change() {
    let mut server = Server::with(|export| leasehold_fs::Export { read_only: true, ..export });
    let root = server.root();
    let place = DirectoryArgs { directory: root, name: Name(b"x") };
    let attributes = SetAttributes::default();
    let how = create::How::Exclusive([1; 8]);
    let statuses = [
        status(&server.nfs(create::NUMBER, &create::Args { place, how })),
        status(&server.nfs(mkdir::NUMBER, &mkdir::Args { place, attributes })),
        status(&server.nfs(remove::NUMBER, &place)),
        status(&server.nfs(rmdir::NUMBER, &place)),
        status(&server.nfs(rename::NUMBER, &rename::Args { from: place, to: place })),
        status(&server.nfs(link::NUMBER, &link::Args { file: root, link: place })),
        status(
            &server.nfs(setattr::NUMBER, &setattr::Args { object: root, attributes, guard: None }),
        ),
    ];
    assert_eq!(statuses, [Status::ReadOnly as u32; 7]);
}

/// Returns the status at the beginning of a reply.
fn status(results: &Results) -> u32 {
    let (word, _) = results.bytes().split_first_chunk().expect("a reply begins with a status");
    u32::from_be_bytes(*word)
}

#[test]
fn file_system_properties() {
    let mut server = Server::new();
    let root = server.root();
    let reply: fsstat::Reply = server.nfs(fsstat::NUMBER, &fsstat::Args { root }).read();
    assert!(matches!(reply, Reply::Done(done) if done.bytes >= done.available_bytes));
    let args = pathconf::Args { object: root };
    let pathconf::Reply::Done(done) = server.nfs(pathconf::NUMBER, &args).read() else {
        panic!("PATHCONF failed")
    };
    assert!(done.refuses_long_names && done.case_preserving && !done.case_insensitive);
    assert_eq!(done.name_bytes_max, 255);
}

#[test]
fn a_call_that_must_not_run_twice_runs_once() {
    let mut server = Server::new();
    let root = server.root();
    server.create(root, b"file");
    let place = DirectoryArgs { directory: root, name: Name(b"file") };
    let remove = server.message((PROGRAM, VERSION, remove::NUMBER), &place);
    let first = server.answer(&remove).expect("it is answered");
    // The retransmission gets the cached reply; a second execution would report a missing name.
    assert_eq!(server.answer(&remove), Some(first.clone()));
    // The client lost its connection, and reconnects.
    let first_connection = ConnectionId::default();
    server.service.connection_closed(server.arrival.from, first_connection);
    server.arrival.connection = Some(ConnectionId { generation: 1, ..first_connection });
    server.arrival.from.set_port(701);
    assert_eq!(server.answer(&remove), Some(first));
}

#[test]
fn reply_expires() {
    let mut server = Server::new();
    let place = DirectoryArgs { directory: server.root(), name: Name(b"none") };
    let remove = server.message((PROGRAM, VERSION, remove::NUMBER), &place);
    assert_eq!(server.service.wake(server.arrival.now), None);
    server.answer(&remove).expect("it is answered");
    let end = server.arrival.now + REPLY_AGE_MAX;
    assert_eq!(server.service.wake(server.arrival.now), Some(end));
    assert_eq!(server.service.wake(end), None);
    // The age of a reply counts from the latest time that the service has received, even if a call
    // arrives with an earlier time.
    server.answer(&remove).expect("it is answered");
    assert_eq!(server.service.wake(end), Some(end + REPLY_AGE_MAX));
}

#[test]
fn handles_of_another_key_are_bad() {
    let mut server = Server::new();
    let root = server.root();
    server = Server::new();
    assert_eq!(server.root(), root, "the same key makes the same handles");
    let other = leasehold_serve::Service::new(
        Vec::new(),
        HandleKey([2; 16]),
        Box::new(leasehold_serve::Deaf),
    );
    server.service = std::sync::Arc::new(other);
    let reply: getattr::Reply = server.nfs(getattr::NUMBER, &getattr::Args { object: root }).read();
    assert_eq!(reply, Reply::Failed(Status::BadHandle, ()));
}

#[test]
fn trusted_caller_never_gets_the_reply_of_an_untrusted_one() {
    let mut server = Server::new();
    let root = server.root();
    server.create(root, b"file");
    let place = DirectoryArgs { directory: root, name: Name(b"file") };
    let remove = server.message((PROGRAM, VERSION, remove::NUMBER), &place);
    server.arrival.trust = Trust::Nobody;
    let refused = server.answer(&remove).expect("it is answered");
    server.arrival.trust = Trust::Claimed;
    assert_ne!(server.answer(&remove), Some(refused));
    assert_eq!(server.lookup(root, b"file"), Err(Status::NotFound));
}
