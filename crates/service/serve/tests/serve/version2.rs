//! Version 2 at the byte level, over a store in memory (RFC 1094).

use bytes::Bytes;
use leasehold_base::xdr::Encode;
use leasehold_wire::list::List;
use leasehold_wire::nfs2::{
    Attributes, Cookie, DirectoryArgs, FileType, Found, Handle, Name, PROGRAM, Path, Reply,
    SetAttributes, Status, VERSION, create, getattr, link, lookup, mkdir, read, readdir, readlink,
    remove, rename, rmdir, setattr, statfs, symlink, write,
};
use leasehold_wire::nfs3;

use crate::support::{Results, Server};

impl Server {
    fn nfs2(&mut self, procedure: u32, args: &impl Encode) -> Results {
        self.call((PROGRAM, VERSION, procedure), args)
    }

    fn root2(&mut self) -> Handle {
        Handle(self.service.root_handle(crate::support::NAME).expect("the export is there"))
    }

    fn create2(&mut self, name: &[u8], attributes: SetAttributes) -> Found {
        let place = DirectoryArgs { directory: self.root2(), name: Name(name) };
        done(self.nfs2(create::NUMBER, &create::Args { place, attributes }).read())
    }

    fn size2(&mut self, file: Handle) -> u32 {
        done(self.nfs2(getattr::NUMBER, &file).read::<Reply<Attributes>>()).size
    }
}

fn done<T>(reply: Reply<T>) -> T {
    match reply {
        Reply::Done(done) => done,
        Reply::Failed(status) => panic!("{status:?}"),
    }
}

#[test]
fn read_returns_written_data() {
    let mut server = Server::new();
    let made = server.create2(b"file", SetAttributes { mode: Some(0o640), ..Default::default() });
    assert_eq!(made.attributes.mode, 0o100_640, "the type stands in the mode as well");
    let file = made.object;
    let data = Bytes::from(vec![9; 8192]);
    for offset in [0, 8192] {
        let args =
            write::Args { file, begin_offset: 0, offset, total_count: 0, data: data.clone() };
        let attributes: Attributes = done(server.nfs2(write::NUMBER, &args).read());
        assert_eq!(attributes.size, offset + 8192);
    }
    let args = read::Args { file, offset: 8000, count: u32::MAX, total_count: 0 };
    let read: read::Done = done(server.nfs2(read::NUMBER, &args).read());
    assert_eq!(read.data, data, "no more than 8 KiB at a time");
    let args = read::Args { file, offset: 16_000, count: 8192, total_count: 0 };
    let read: read::Done = done(server.nfs2(read::NUMBER, &args).read());
    assert_eq!(read.data.len(), 384);
}

#[test]
fn create_accepts_and_truncates_an_existing_file() {
    let mut server = Server::new();
    let file = server.create2(b"file", SetAttributes::default()).object;
    let data = Bytes::from_static(b"some bytes");
    let args = write::Args { file, begin_offset: 0, offset: 0, total_count: 0, data };
    done::<Attributes>(server.nfs2(write::NUMBER, &args).read());
    assert_eq!(server.create2(b"file", SetAttributes::default()).object, file);
    assert_eq!(server.size2(file), 10);
    server.create2(b"file", SetAttributes { size: Some(0), ..Default::default() });
    assert_eq!(server.size2(file), 0);
}

#[test]
fn special_files_are_made_by_create() {
    let mut server = Server::new();
    for (mode, size, kind, bits) in [
        (0o010_600, None, FileType::CharacterDevice, 0o010_600),
        (0o020_600, Some(u32::MAX), FileType::CharacterDevice, 0o010_600),
        (0o020_600, Some(0x0103), FileType::CharacterDevice, 0o020_600),
        (0o060_600, Some(0x0801), FileType::BlockDevice, 0o060_600),
        (0o140_600, None, FileType::NonFile, 0o140_600),
    ] {
        let attributes = SetAttributes { mode: Some(mode), size, ..Default::default() };
        let made = server.create2(format!("{mode:o} {size:?}").as_bytes(), attributes).attributes;
        assert_eq!((made.file_type, made.mode), (kind, bits));
        let device = size.filter(|size| *size != u32::MAX).unwrap_or(u32::MAX);
        assert_eq!(made.device, device);
    }
    let place = DirectoryArgs { directory: server.root2(), name: Name(b"odd") };
    let attributes = SetAttributes { mode: Some(0o110_600), ..Default::default() };
    let reply: create::Reply =
        server.nfs2(create::NUMBER, &create::Args { place, attributes }).read();
    assert_eq!(reply, Reply::Failed(Status::Io));
}

/// Creates a sparse file of 5 GiB, which only version 3 can do.
fn large_file(server: &mut Server) -> Handle {
    let file = server.create2(b"large", SetAttributes::default()).object;
    let attributes = nfs3::SetAttributes { size: Some(5 << 30), ..Default::default() };
    let object = nfs3::Handle::from(file.0);
    let args = nfs3::setattr::Args { object, attributes, guard: None };
    let reply: nfs3::setattr::Reply =
        server.call((PROGRAM, nfs3::VERSION, nfs3::setattr::NUMBER), &args).read();
    assert!(matches!(reply, nfs3::Reply::Done(_)), "{reply:?}");
    file
}

#[test]
fn a_size_beyond_32_bits_is_the_largest_that_fits() {
    let mut server = Server::new();
    let file = large_file(&mut server);
    assert_eq!(server.size2(file), u32::MAX);
}

#[test]
fn a_large_file_is_read_up_to_the_largest_size_and_no_further() {
    let mut server = Server::new();
    let file = large_file(&mut server);
    let mut read = |file, offset, count| {
        let args = read::Args { file, offset, count, total_count: 0 };
        match server.nfs2(read::NUMBER, &args).read::<read::Reply>() {
            Reply::Done(done) => Ok(done.data.len()),
            Reply::Failed(status) => Err(status),
        }
    };
    assert_eq!(read(file, u32::MAX - 9000, 8192), Ok(8192));
    assert_eq!(read(file, u32::MAX - 4095, 8192), Ok(4095));
    assert_eq!(read(file, u32::MAX, 8192), Err(Status::FileTooBig));
    assert_eq!(read(file, u32::MAX, 0), Err(Status::FileTooBig));
    // A read at the end of a smaller file succeeds and returns no data.
    let small = server.create2(b"small", SetAttributes::default()).object;
    assert_eq!(server.size2(small), 0);
    let args = read::Args { file: small, offset: u32::MAX, count: 1, total_count: 0 };
    let read: read::Done = done(server.nfs2(read::NUMBER, &args).read());
    assert_eq!(read.data.len(), 0);
}

#[test]
fn nothing_is_written_beyond_the_largest_size() {
    let mut server = Server::new();
    let file = large_file(&mut server);
    let mut write = |offset, data: &'static [u8]| {
        let data = Bytes::from_static(data);
        let args = write::Args { file, begin_offset: 0, offset, total_count: 0, data };
        server.nfs2(write::NUMBER, &args).read::<Reply<Attributes>>()
    };
    assert!(matches!(write(u32::MAX - 4, b"last"), Reply::Done(_)));
    assert_eq!(write(u32::MAX - 3, b"last"), Reply::Failed(Status::FileTooBig));
    assert_eq!(write(u32::MAX, b"x"), Reply::Failed(Status::FileTooBig));
}

#[test]
fn names_come_and_go() {
    let mut server = Server::new();
    let root = server.root2();
    let place = |name| DirectoryArgs { directory: root, name: Name(name) };
    let attributes = SetAttributes { mode: Some(0o755), ..Default::default() };
    let directory: Found =
        done(server.nfs2(mkdir::NUMBER, &mkdir::Args { place: place(b"dir"), attributes }).read());
    let args = symlink::Args { place: place(b"link"), target: Path(b"some where"), attributes };
    done::<()>(server.nfs2(symlink::NUMBER, &args).read());
    let found: Found = done(server.nfs2(lookup::NUMBER, &place(b"link")).read());
    assert_eq!(found.attributes.file_type, FileType::Symlink);
    let results = server.nfs2(readlink::NUMBER, &found.object);
    assert_eq!(done::<Path<'_>>(results.read()), Path(b"some where"));

    let file = server.create2(b"file", SetAttributes::default()).object;
    let args = link::Args { file, link: place(b"again") };
    done::<()>(server.nfs2(link::NUMBER, &args).read());
    let to = DirectoryArgs { directory: directory.object, name: Name(b"moved") };
    let args = rename::Args { from: place(b"file"), to };
    done::<()>(server.nfs2(rename::NUMBER, &args).read());
    let reply: rmdir::Reply = server.nfs2(rmdir::NUMBER, &place(b"dir")).read();
    assert_eq!(reply, Reply::Failed(Status::NotEmpty));
    done::<()>(server.nfs2(remove::NUMBER, &to).read());
    done::<()>(server.nfs2(rmdir::NUMBER, &place(b"dir")).read());
    let reply: Reply<Found> = server.nfs2(lookup::NUMBER, &place(b"dir")).read();
    assert_eq!(reply, Reply::Failed(Status::NotFound));
    let args = setattr::Args { object: file, attributes };
    let attributes: Attributes = done(server.nfs2(setattr::NUMBER, &args).read());
    assert_eq!((attributes.mode, attributes.link_count), (0o100_755, 1));
}

#[test]
fn a_listing_in_small_pieces_has_every_name_once() {
    let mut server = Server::new();
    let mut names: Vec<Vec<u8>> = (0..100).map(|n| format!("file {n}").into_bytes()).collect();
    for name in &names {
        server.create2(name, SetAttributes::default());
    }
    names.extend([b".".to_vec(), b"..".to_vec()]);
    names.sort();
    let directory = server.root2();
    let (mut listed, mut cookie) = (Vec::new(), Cookie(0));
    loop {
        let args = readdir::Args { directory, cookie, count: 200 };
        let results = server.nfs2(readdir::NUMBER, &args);
        let page: readdir::Done<List<readdir::Entry<'_>>> = done(results.read());
        listed.extend(page.entries.0.iter().map(|entry| entry.name.0.to_vec()));
        if page.end {
            break;
        }
        cookie = page.entries.0.last().expect("some entry fits").cookie;
    }
    listed.sort();
    assert_eq!(listed, names);
}

#[test]
fn space_is_reported_in_blocks_that_fit() {
    let mut server = Server::new();
    let root = server.root2();
    let room: statfs::Done = done(server.nfs2(statfs::NUMBER, &root).read());
    assert_eq!(u64::from(room.blocks) * u64::from(room.block_bytes), 1 << 30);
    assert!(room.available_blocks <= room.free_blocks && room.free_blocks <= room.blocks);
}

#[test]
fn foreign_handle_is_stale() {
    let mut server = Server::new();
    let reply: Reply<Attributes> = server.nfs2(getattr::NUMBER, &Handle([3; 32])).read();
    assert_eq!(reply, Reply::Failed(Status::Stale));
}
