//! Each message of the version is compared byte for byte with RFC 1813.

use bytes::Bytes;
use leasehold_base::units::{Cookie, FileId, FileSystemId, FileTime};
use leasehold_base::xdr::decode_all;

use super::*;
use crate::list::{List, ListOf};
use crate::testing::{bytes, encoded};

/// Attributes with a distinct value in each field.
const ATTRIBUTES: Attributes = Attributes {
    file_type: FileType::Directory,
    mode: 0o755,
    link_count: 2,
    uid: 1000,
    gid: 100,
    size: 0x1_0000_0002,
    used: 0x3000,
    device: Device { major: 8, minor: 1 },
    file_system: FileSystemId(0xaabb),
    file_id: FileId(0xccdd),
    accessed: Time { seconds: 1, nanoseconds: 2 },
    modified: Time { seconds: 3, nanoseconds: 4 },
    changed: Time { seconds: 5, nanoseconds: 6 },
};

/// The bytes of [`ATTRIBUTES`].
const FATTR: &str = "00000002 000001ed 00000002 000003e8 00000064
    0000000100000002 0000000000003000 00000008 00000001 000000000000aabb 000000000000ccdd
    00000001 00000002 00000003 00000004 00000005 00000006";

/// An object before and after.
const WCC: Wcc = Wcc {
    before: Some(Before {
        size: 7,
        modified: Time { seconds: 8, nanoseconds: 9 },
        changed: Time { seconds: 10, nanoseconds: 11 },
    }),
    after: Some(ATTRIBUTES),
};

/// The bytes of [`WCC`] before the attributes after the operation.
const BEFORE: &str = "00000001 0000000000000007 00000008 00000009 0000000a 0000000b 00000001";

/// Attributes to set, with each way of setting a time.
const SET: SetAttributes = SetAttributes {
    mode: Some(0o644),
    uid: None,
    gid: Some(100),
    size: None,
    accessed: SetTime::Now,
    modified: SetTime::To(Time { seconds: 9, nanoseconds: 10 }),
};

/// The bytes of [`SET`].
const SATTR: &str = "00000001 000001a4 00000000 00000001 00000064 00000000
    00000001 00000002 00000009 0000000a";

/// The bytes of `SetAttributes` that changes nothing.
const KEEP: &str = "00000000 00000000 00000000 00000000 00000000 00000000";

/// The bytes of [`handle`].
const FH: &str = "00000005 0102030405 000000";

fn handle() -> Handle {
    Handle::new(&[1, 2, 3, 4, 5]).expect("short")
}

/// The bytes of [`place`].
const WHERE: &str = "00000005 0102030405 000000 00000003 'foo' 00";

fn place() -> DirectoryArgs<'static> {
    DirectoryArgs { directory: handle(), name: Name(b"foo") }
}

#[test]
fn getattr() {
    vector!(getattr::Args { object: handle() }, "{FH}");
    vector!(getattr::Reply::Done(getattr::Done { attributes: ATTRIBUTES }), "00000000 {FATTR}");
    vector!(getattr::Reply::Failed(Status::Stale, ()), "00000046");
}

#[test]
fn setattr() {
    let guard = Some(Time { seconds: 5, nanoseconds: 6 });
    vector!(
        setattr::Args { object: handle(), attributes: SET, guard },
        "{FH} {SATTR} 00000001 00000005 00000006"
    );
    let attributes =
        SetAttributes { uid: Some(1), size: Some(0x2_0000_0000), ..SetAttributes::default() };
    vector!(
        setattr::Args { object: handle(), attributes, guard: None },
        "{FH} 00000000 00000001 00000001 00000000 00000001 0000000200000000 00000000 00000000
         00000000"
    );
    vector!(setattr::Reply::Done(WCC), "00000000 {BEFORE} {FATTR}");
    vector!(
        setattr::Reply::Failed(Status::NotSynchronized, Wcc { before: None, ..WCC }),
        "00002712 00000000 00000001 {FATTR}"
    );
}

#[test]
fn lookup() {
    vector!(place(), "{WHERE}");
    vector!(
        lookup::Reply::Done(lookup::Done {
            object: handle(),
            attributes: Some(ATTRIBUTES),
            directory: None
        }),
        "00000000 {FH} 00000001 {FATTR} 00000000"
    );
    vector!(lookup::Reply::Failed(Status::NotFound, Some(ATTRIBUTES)), "00000002 00000001 {FATTR}");
}

#[test]
fn access() {
    use super::access::{Access, Args, Done, Reply};
    let some = Access { read: true, extend: true, execute: true, ..Access::default() };
    vector!(Args { object: handle(), access: some }, "{FH} 00000029");
    let others = Access { lookup: true, modify: true, delete: true, ..Access::default() };
    vector!(Args { object: handle(), access: others }, "{FH} 00000016");
    vector!(Reply::Done(Done { attributes: None, access: some }), "00000000 00000000 00000029");
    vector!(Reply::Failed(Status::BadHandle, None), "00002711 00000000");
    let unnamed = bytes("ffffffc0");
    assert_eq!(decode_all(&mut Reader::new(&unnamed)), Ok(Access::default()));
}

#[test]
fn readlink() {
    vector!(readlink::Args { symlink: handle() }, "{FH}");
    vector!(
        readlink::Reply::Done(readlink::Done { attributes: None, target: Path(b"../x") }),
        "00000000 00000000 00000004 '../x'"
    );
    vector!(readlink::Reply::Failed(Status::Invalid, None), "00000016 00000000");
}

#[test]
fn read() {
    vector!(
        read::Args { file: handle(), offset: 0x1_0000_0000, count: 4096 },
        "{FH} 0000000100000000 00001000"
    );
    let data = Bytes::from_static(b"hello");
    vector!(
        read::Reply::Done(read::Done { attributes: None, count: 5, end: true, data }),
        "00000000 00000000 00000005 00000001 00000005 'hello' 000000"
    );
    vector!(
        read::Reply::Failed(Status::IsDirectory, Some(ATTRIBUTES)),
        "00000015 00000001 {FATTR}"
    );
}

#[test]
fn write() {
    use super::write::{Args, Done, Reply, Stability};
    let data = Bytes::from_static(b"data");
    for (stability, word) in
        Stability::ALL.iter().copied().zip(["00000000", "00000001", "00000002"])
    {
        let data = data.clone();
        vector!(
            Args { file: handle(), offset: 8, count: 4, stability, data },
            "{FH} 0000000000000008 00000004 {word} 00000004 'data'"
        );
    }
    let (count, stability, verifier) = (4, Stability::FileSync, *b"verifier");
    vector!(
        Reply::Done(Done { file: WCC, count, stability, verifier }),
        "00000000 {BEFORE} {FATTR} 00000004 00000002 'verifier'"
    );
    vector!(Reply::Failed(Status::NoSpace, Wcc::default()), "0000001c 00000000 00000000");
}

/// Tests the results of a procedure that makes an object.
fn made() {
    let object = Some(handle());
    vector!(
        Reply::<_, Wcc>::Done(Made { object, attributes: Some(ATTRIBUTES), directory: WCC }),
        "00000000 00000001 {FH} 00000001 {FATTR} {BEFORE} {FATTR}"
    );
    vector!(
        Reply::<_, Wcc>::Done(Made { object: None, attributes: None, directory: Wcc::default() }),
        "00000000 00000000 00000000 00000000 00000000"
    );
    vector!(Reply::<Made, _>::Failed(Status::AlreadyExists, WCC), "00000011 {BEFORE} {FATTR}");
}

#[test]
fn create() {
    use super::create::{Args, How};
    vector!(Args { place: place(), how: How::Unchecked(SET) }, "{WHERE} 00000000 {SATTR}");
    let nothing = SetAttributes::default();
    vector!(Args { place: place(), how: How::Guarded(nothing) }, "{WHERE} 00000001 {KEEP}");
    vector!(
        Args { place: place(), how: How::Exclusive(*b"verifier") },
        "{WHERE} 00000002 'verifier'"
    );
    made();
}

#[test]
fn mkdir() {
    vector!(mkdir::Args { place: place(), attributes: SET }, "{WHERE} {SATTR}");
    made();
}

#[test]
fn symlink() {
    let (attributes, target) = (SetAttributes::default(), Path(b"/a/b/c"));
    vector!(
        symlink::Args { place: place(), attributes, target },
        "{WHERE} {KEEP} 00000006 '/a/b/c' 0000"
    );
    made();
}

#[test]
fn mknod() {
    use super::mknod::{Args, DeviceData, Node};
    let data = DeviceData { attributes: SET, device: Device { major: 4, minor: 64 } };
    let node = |node| Args { place: place(), node };
    vector!(node(Node::Regular), "{WHERE} 00000001");
    vector!(node(Node::Directory), "{WHERE} 00000002");
    vector!(node(Node::BlockDevice(data)), "{WHERE} 00000003 {SATTR} 00000004 00000040");
    vector!(node(Node::CharacterDevice(data)), "{WHERE} 00000004 {SATTR} 00000004 00000040");
    vector!(node(Node::Symlink), "{WHERE} 00000005");
    vector!(node(Node::Socket(SET)), "{WHERE} 00000006 {SATTR}");
    vector!(node(Node::Fifo(SetAttributes::default())), "{WHERE} 00000007 {KEEP}");
    made();
}

#[test]
fn remove_and_rmdir() {
    let args: (remove::Args<'_>, rmdir::Args<'_>) = (place(), place());
    vector!(args.0, "{WHERE}");
    vector!(args.1, "{WHERE}");
    vector!(remove::Reply::Done(WCC), "00000000 {BEFORE} {FATTR}");
    vector!(rmdir::Reply::Failed(Status::NotEmpty, WCC), "00000042 {BEFORE} {FATTR}");
}

#[test]
fn rename() {
    let to = DirectoryArgs { directory: handle(), name: Name(b"a/b") };
    vector!(rename::Args { from: place(), to }, "{WHERE} {FH} 00000003 'a/b' 00");
    let both = rename::Done { from: WCC, to: Wcc::default() };
    vector!(rename::Reply::Done(both), "00000000 {BEFORE} {FATTR} 00000000 00000000");
    vector!(
        rename::Reply::Failed(Status::CrossDevice, both),
        "00000012 {BEFORE} {FATTR} 00000000 00000000"
    );
}

#[test]
fn link() {
    vector!(link::Args { file: handle(), link: place() }, "{FH} {WHERE}");
    let both = link::Done { attributes: Some(ATTRIBUTES), directory: WCC };
    vector!(link::Reply::Done(both), "00000000 00000001 {FATTR} {BEFORE} {FATTR}");
    vector!(
        link::Reply::Failed(Status::TooManyLinks, both),
        "0000001f 00000001 {FATTR} {BEFORE} {FATTR}"
    );
}

#[test]
fn readdir() {
    use super::readdir::{Args, Done, Entry, Reply};
    vector!(
        Args { directory: handle(), cookie: Cookie(3), verifier: *b"verifier", count: 512 },
        "{FH} 0000000000000003 'verifier' 00000200"
    );
    let entries = List(vec![
        Entry { file_id: FileId(1), name: Name(b"."), cookie: Cookie(2) },
        Entry { file_id: FileId(0x1_0000_0003), name: Name(b"file"), cookie: Cookie(4) },
    ]);
    vector!(
        Reply::Done(Done { attributes: None, verifier: *b"verifier", entries, end: true }),
        "00000000 00000000 'verifier'
         00000001 0000000000000001 00000001 '.' 000000 0000000000000002
         00000001 0000000100000003 00000004 'file' 0000000000000004
         00000000 00000001"
    );
    vector!(
        Reply::<List<Entry<'_>>>::Failed(Status::BadCookie, Some(ATTRIBUTES)),
        "00002713 00000001 {FATTR}"
    );
}

#[test]
fn readdirplus() {
    use super::readdirplus::{Args, Done, Entry, Reply};
    let (directory, verifier) = (handle(), *b"verifier");
    vector!(
        Args { directory, cookie: Cookie(3), verifier, names_count: 256, count: 512 },
        "{FH} 0000000000000003 'verifier' 00000100 00000200"
    );
    let bare = Entry {
        file_id: FileId(1),
        name: Name(b".."),
        cookie: Cookie(2),
        attributes: None,
        object: None,
    };
    let full = Entry { attributes: Some(ATTRIBUTES), object: Some(handle()), ..bare };
    let entries = List(vec![bare, full]);
    vector!(
        Reply::Done(Done { attributes: Some(ATTRIBUTES), verifier, entries, end: false }),
        "00000000 00000001 {FATTR} 'verifier'
         00000001 0000000000000001 00000002 '..' 0000 0000000000000002 00000000 00000000
         00000001 0000000000000001 00000002 '..' 0000 0000000000000002
         00000001 {FATTR} 00000001 {FH}
         00000000 00000000"
    );
    vector!(Reply::<List<Entry<'_>>>::Failed(Status::TooSmall, None), "00002715 00000000");
}

#[test]
fn fsstat() {
    vector!(fsstat::Args { root: handle() }, "{FH}");
    vector!(
        fsstat::Reply::Done(fsstat::Done {
            attributes: None,
            bytes: 0x1_0000_0000,
            free_bytes: 2,
            available_bytes: 3,
            files: 4,
            free_files: 5,
            available_files: 6,
            steady_seconds: 7,
        }),
        "00000000 00000000 0000000100000000 0000000000000002 0000000000000003
         0000000000000004 0000000000000005 0000000000000006 00000007"
    );
    vector!(fsstat::Reply::Failed(Status::Io, None), "00000005 00000000");
}

#[test]
fn fsinfo() {
    use super::fsinfo::{Args, Done, Properties, Reply};
    vector!(Args { root: handle() }, "{FH}");
    let done = Done {
        attributes: None,
        read_bytes_max: 1,
        read_bytes_best: 2,
        read_bytes_multiple: 3,
        write_bytes_max: 4,
        write_bytes_best: 5,
        write_bytes_multiple: 6,
        directory_bytes_best: 7,
        file_bytes_max: u64::MAX,
        time_step: Time { seconds: 0, nanoseconds: 1 },
        properties: Properties { links: true, homogeneous: true, ..Properties::default() },
    };
    vector!(
        Reply::Done(done),
        "00000000 00000000 00000001 00000002 00000003 00000004 00000005 00000006 00000007
         ffffffffffffffff 00000000 00000001 00000009"
    );
    let properties = Properties { symlinks: true, can_set_time: true, ..Properties::default() };
    vector!(properties, "00000012");
    vector!(Reply::Failed(Status::ServerFault, None), "00002716 00000000");
}

#[test]
fn pathconf() {
    vector!(pathconf::Args { object: handle() }, "{FH}");
    vector!(
        pathconf::Reply::Done(pathconf::Done {
            attributes: Some(ATTRIBUTES),
            link_max: 32000,
            name_bytes_max: 255,
            refuses_long_names: true,
            chown_restricted: true,
            case_insensitive: false,
            case_preserving: true,
        }),
        "00000000 00000001 {FATTR} 00007d00 000000ff 00000001 00000001 00000000 00000001"
    );
    vector!(pathconf::Reply::Failed(Status::Jukebox, None), "00002718 00000000");
}

#[test]
fn commit() {
    vector!(
        commit::Args { file: handle(), offset: 0x1_0000_0000, count: 0 },
        "{FH} 0000000100000000 00000000"
    );
    vector!(
        commit::Reply::Done(commit::Done { file: WCC, verifier: *b"verifier" }),
        "00000000 {BEFORE} {FATTR} 'verifier'"
    );
    vector!(commit::Reply::Failed(Status::Io, WCC), "00000005 {BEFORE} {FATTR}");
}

#[test]
fn statuses_and_kinds_are_numbered_as_in_the_standard() {
    let numbers: Vec<u32> = Status::ALL.iter().map(|status| *status as u32).collect();
    assert_eq!(
        numbers,
        [
            1, 2, 5, 6, 13, 17, 18, 19, 20, 21, 22, 27, 28, 30, 31, 63, 66, 69, 70, 71, 10001,
            10002, 10003, 10004, 10005, 10006, 10007, 10008
        ]
    );
    let kinds: Vec<u32> = FileType::ALL.iter().map(|kind| *kind as u32).collect();
    assert_eq!(kinds, [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn times_outside_of_the_wire_range_become_its_limits() {
    let time = |seconds, nanoseconds| Time { seconds, nanoseconds };
    let file_time = |seconds, nanoseconds| FileTime { seconds, nanoseconds };
    assert_eq!(Time::from(file_time(5, 6)), time(5, 6));
    assert_eq!(Time::from(file_time(-1, 6)), time(0, 0));
    assert_eq!(Time::from(file_time(1 << 32, 0)), time(u32::MAX, 999_999_999));
    assert_eq!(FileTime::from(time(u32::MAX, 6)), file_time((1 << 32) - 1, 6));
    assert_eq!(FileTime::from(time(1, 1_000_000_000)), file_time(1, 999_999_999));
}

#[test]
fn longer_than_allowed() {
    let too_long = |message: &str, zeros: usize| {
        let message = [&bytes(message)[..], &vec![0; zeros]].concat().into();
        let mut reader = Reader::new(&message);
        [
            lookup::Args::decode(&mut reader.clone()).err(),
            super::write::Args::decode(&mut reader).err(),
        ]
    };
    assert_eq!(too_long("00000041", 200), [Some(Error::TooLong); 2], "handle");
    assert_eq!(too_long("00000000 00001001", 5000)[0], Some(Error::TooLong), "name");
    assert_eq!(
        too_long("00000000 0000000000000000 00000000 00000000 00100001", 2 << 20)[1],
        Some(Error::TooLong),
        "data"
    );
}

fn size(value: &impl Encode) -> u32 {
    u32::try_from(encoded(value).len()).expect("a message of ours is short")
}

#[test]
fn sizes_that_replies_are_budgeted_with() {
    assert_eq!(size(&ATTRIBUTES), ATTRIBUTES_BYTES);
    let (attributes, object) = (Some(ATTRIBUTES), Handle::new(&[0; 32]));
    let (file_id, cookie, verifier, end) = (FileId(1), Cookie(2), [0; 8], true);
    for (name, name_bytes) in [(&b"four"[..], 4), (b"sixsix", 8), (b"eighteig", 8)] {
        let name = Name(name);
        for count in 0..3 {
            let entry = readdir::Entry { file_id, name, cookie };
            let entries = List(vec![entry; count as usize]);
            assert_eq!(
                size(&readdir::Done { attributes, verifier, entries, end }),
                readdir::EMPTY_BYTES + count * (readdir::ENTRY_BYTES + name_bytes)
            );
            let entry = readdirplus::Entry { file_id, name, cookie, attributes, object };
            let entries = List(vec![entry; count as usize]);
            assert_eq!(
                size(&readdirplus::Done { attributes, verifier, entries, end }),
                readdirplus::EMPTY_BYTES + count * (readdirplus::ENTRY_BYTES + name_bytes)
            );
        }
    }
}

#[test]
fn entries_are_written_from_an_iteration_and_read_as_a_list() {
    let numbers = [7, 8];
    let written = encoded(&readdir::Done {
        attributes: None,
        verifier: [1; 8],
        entries: ListOf(|| {
            numbers.iter().map(|&number| readdir::Entry {
                file_id: FileId(number),
                name: Name(b"n"),
                cookie: Cookie(number + 1),
            })
        }),
        end: false,
    });
    assert_eq!(
        written,
        bytes(
            "00000000 0101010101010101
             00000001 0000000000000007 00000001 'n' 000000 0000000000000008
             00000001 0000000000000008 00000001 'n' 000000 0000000000000009
             00000000 00000000"
        )
    );
    let mut reader = Reader::new(&written);
    let read = decode_all::<readdir::Done<List<readdir::Entry<'_>>>>(&mut reader).expect("valid");
    assert_eq!(read.entries.0.iter().map(|entry| entry.file_id.0).collect::<Vec<_>>(), numbers);
    assert_eq!(encoded(&read), written);
}
