//! Each message of the version is compared byte for byte with RFC 1094.

use bytes::Bytes;
use leasehold_base::units::FileTime;
use leasehold_base::xdr::decode_all;

use super::*;
use crate::list::List;
use crate::testing::{bytes, encoded};

/// Attributes with a distinct value in each field.
const ATTRIBUTES: Attributes = Attributes {
    file_type: FileType::Regular,
    mode: 0o100_644,
    link_count: 2,
    uid: 1000,
    gid: 100,
    size: 0x102,
    block_bytes: 0x2000,
    device: 0x801,
    blocks: 3,
    file_system: 0xaabb,
    file_id: FileId(0xccdd),
    accessed: Time { seconds: 1, microseconds: 2 },
    modified: Time { seconds: 3, microseconds: 4 },
    changed: Time { seconds: 5, microseconds: 6 },
};

/// The bytes of [`ATTRIBUTES`].
const FATTR: &str = "00000001 000081a4 00000002 000003e8 00000064 00000102 00002000 00000801
    00000003 0000aabb 0000ccdd 00000001 00000002 00000003 00000004 00000005 00000006";

/// Attributes to set, with each way of setting a time.
const SET: SetAttributes = SetAttributes {
    mode: Some(0o644),
    uid: None,
    gid: Some(100),
    size: Some(0),
    accessed: SetTime::Now,
    modified: SetTime::To(Time { seconds: 9, microseconds: 10 }),
};

/// The bytes of [`SET`].
const SATTR: &str = "000001a4 ffffffff 00000064 00000000 00000000 000f4240 00000009 0000000a";

/// The bytes of `SetAttributes` that changes nothing.
const KEEP: &str = "ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff";

const HANDLE: Handle = Handle([7; 32]);

/// The bytes of [`HANDLE`].
const FH: &str = "0707070707070707 0707070707070707 0707070707070707 0707070707070707";

/// A name in a directory.
const PLACE: DirectoryArgs<'static> = DirectoryArgs { directory: HANDLE, name: Name(b"foo") };

/// The name's bytes, which follow the bytes of the directory.
const NAME: &str = "00000003 'foo' 00";

#[test]
fn getattr() {
    let args: getattr::Args = HANDLE;
    vector!(args, "{FH}");
    vector!(getattr::Reply::Done(ATTRIBUTES), "00000000 {FATTR}");
    vector!(getattr::Reply::Failed(Status::Stale), "00000046");
}

#[test]
fn setattr() {
    vector!(setattr::Args { object: HANDLE, attributes: SET }, "{FH} {SATTR}");
    let attributes = SetAttributes::default();
    vector!(setattr::Args { object: HANDLE, attributes }, "{FH} {KEEP}");
    vector!(setattr::Reply::Done(ATTRIBUTES), "00000000 {FATTR}");
    vector!(setattr::Reply::Failed(Status::ReadOnly), "0000001e");
}

#[test]
fn clients_encode_unchanged_attributes_and_server_time() {
    let read = |message: &str| SetAttributes::decode(&mut Reader::new(&bytes(message)));
    let nothing = Ok(SetAttributes::default());
    let mode_of_16_bits = "0000ffff ffffffff ffffffff ffffffff";
    assert_eq!(read(&format!("{mode_of_16_bits} ffffffff 00000000 00000000 ffffffff")), nothing);
    let clients_time_with_the_mark = "5f000000 000f4240";
    let both_now =
        SetAttributes { accessed: SetTime::Now, modified: SetTime::Now, ..Default::default() };
    assert_eq!(
        read(&format!(
            "{mode_of_16_bits} {clients_time_with_the_mark} {clients_time_with_the_mark}"
        )),
        Ok(both_now)
    );
}

#[test]
fn lookup() {
    vector!(PLACE, "{FH} {NAME}");
    let found = Found { object: HANDLE, attributes: ATTRIBUTES };
    vector!(lookup::Reply::Done(found), "00000000 {FH} {FATTR}");
    vector!(lookup::Reply::Failed(Status::NotFound), "00000002");
}

#[test]
fn readlink() {
    let args: readlink::Args = HANDLE;
    vector!(args, "{FH}");
    vector!(readlink::Reply::Done(Path(b"../x")), "00000000 00000004 '../x'");
    vector!(readlink::Reply::Failed(Status::Io), "00000005");
}

#[test]
fn read() {
    vector!(
        read::Args { file: HANDLE, offset: 8, count: 4096, total_count: 1 },
        "{FH} 00000008 00001000 00000001"
    );
    let data = Bytes::from_static(b"hello");
    vector!(
        read::Reply::Done(read::Done { attributes: ATTRIBUTES, data }),
        "00000000 {FATTR} 00000005 'hello' 000000"
    );
    vector!(read::Reply::Failed(Status::IsDirectory), "00000015");
}

#[test]
fn write() {
    let data = Bytes::from_static(b"data");
    vector!(
        write::Args { file: HANDLE, begin_offset: 1, offset: 8, total_count: 2, data },
        "{FH} 00000001 00000008 00000002 00000004 'data'"
    );
    vector!(write::Reply::Done(ATTRIBUTES), "00000000 {FATTR}");
    vector!(write::Reply::Failed(Status::NoSpace), "0000001c");
}

#[test]
fn create_and_mkdir() {
    let args: mkdir::Args<'_> = create::Args { place: PLACE, attributes: SET };
    vector!(args, "{FH} {NAME} {SATTR}");
    let found = Found { object: HANDLE, attributes: ATTRIBUTES };
    vector!(create::Reply::Done(found), "00000000 {FH} {FATTR}");
    vector!(mkdir::Reply::Failed(Status::AlreadyExists), "00000011");
}

#[test]
fn remove_and_rmdir() {
    let args: (remove::Args<'_>, rmdir::Args<'_>) = (PLACE, PLACE);
    vector!(args.0, "{FH} {NAME}");
    vector!(args.1, "{FH} {NAME}");
    vector!(remove::Reply::Done(()), "00000000");
    vector!(rmdir::Reply::Failed(Status::NotEmpty), "00000042");
}

#[test]
fn rename() {
    let to = DirectoryArgs { directory: HANDLE, name: Name(b"a/b") };
    vector!(rename::Args { from: PLACE, to }, "{FH} {NAME} {FH} 00000003 'a/b' 00");
    vector!(rename::Reply::Done(()), "00000000");
    vector!(rename::Reply::Failed(Status::Access), "0000000d");
}

#[test]
fn link() {
    vector!(link::Args { file: HANDLE, link: PLACE }, "{FH} {FH} {NAME}");
    vector!(link::Reply::Done(()), "00000000");
    vector!(link::Reply::Failed(Status::QuotaExceeded), "00000045");
}

#[test]
fn symlink() {
    vector!(
        symlink::Args { place: PLACE, target: Path(b"/a/b/c"), attributes: SET },
        "{FH} {NAME} 00000006 '/a/b/c' 0000 {SATTR}"
    );
    vector!(symlink::Reply::Done(()), "00000000");
    vector!(symlink::Reply::Failed(Status::NameTooLong), "0000003f");
}

#[test]
fn readdir() {
    use super::readdir::{Args, Done, Entry, Reply};
    vector!(Args { directory: HANDLE, cookie: Cookie(3), count: 512 }, "{FH} 00000003 00000200");
    let entries = List(vec![
        Entry { file_id: FileId(1), name: Name(b"."), cookie: Cookie(2) },
        Entry { file_id: FileId(3), name: Name(b"file"), cookie: Cookie(4) },
    ]);
    vector!(
        Reply::Done(Done { entries, end: true }),
        "00000000
         00000001 00000001 00000001 '.' 000000 00000002
         00000001 00000003 00000004 'file' 00000004
         00000000 00000001"
    );
    vector!(Reply::<List<Entry<'_>>>::Failed(Status::NotDirectory), "00000014");
}

#[test]
fn statfs() {
    let args: statfs::Args = HANDLE;
    vector!(args, "{FH}");
    vector!(
        statfs::Reply::Done(statfs::Done {
            transfer_bytes_best: 8192,
            block_bytes: 512,
            blocks: 3,
            free_blocks: 2,
            available_blocks: 1,
        }),
        "00000000 00002000 00000200 00000003 00000002 00000001"
    );
    vector!(statfs::Reply::Failed(Status::Stale), "00000046");
}

#[test]
fn statuses_and_kinds_are_numbered_as_in_the_standard() {
    let numbers: Vec<u32> = Status::ALL.iter().map(|status| *status as u32).collect();
    assert_eq!(numbers, [1, 2, 5, 6, 13, 17, 19, 20, 21, 27, 28, 30, 63, 66, 69, 70, 99]);
    let kinds: Vec<u32> = FileType::ALL.iter().map(|kind| *kind as u32).collect();
    assert_eq!(kinds, [0, 1, 2, 3, 4, 5, 6, 8]);
}

#[test]
fn times_outside_of_the_wire_range_become_its_limits() {
    let time = |seconds, microseconds| Time { seconds, microseconds };
    let file_time = |seconds, nanoseconds| FileTime { seconds, nanoseconds };
    assert_eq!(Time::from(file_time(5, 6999)), time(5, 6));
    assert_eq!(Time::from(file_time(-1, 6000)), time(0, 0));
    assert_eq!(Time::from(file_time(1 << 32, 0)), time(u32::MAX, 999_999));
    assert_eq!(FileTime::from(time(u32::MAX, 6)), file_time((1 << 32) - 1, 6000));
    assert_eq!(FileTime::from(time(1, u32::MAX)), file_time(1, 999_999_000));
}

#[test]
fn sizes_that_replies_are_budgeted_with() {
    let size = |value: Bytes| u32::try_from(value.len()).expect("short");
    assert_eq!(size(encoded(&ATTRIBUTES)), ATTRIBUTES_BYTES);
    let entry = readdir::Entry { file_id: FileId(1), name: Name(b"sixsix"), cookie: Cookie(2) };
    for count in 0..3 {
        let entries = List(vec![entry; count as usize]);
        assert_eq!(
            size(encoded(&readdir::Done { entries, end: true })),
            readdir::EMPTY_BYTES + count * (readdir::ENTRY_BYTES + 8)
        );
    }
}

#[test]
fn longer_than_allowed() {
    let message = bytes(&format!("{FH} 00000100 {}", "00".repeat(256)));
    assert_eq!(lookup::Args::decode(&mut Reader::new(&message)), Err(Error::TooLong), "name");
    let message = bytes(&format!("00000401 {}", "00".repeat(1028)));
    assert_eq!(Path::decode(&mut Reader::new(&message)), Err(Error::TooLong), "path");
    let message = bytes(&format!("{FH} 00000000 00000000 00000000 00002001 {}", "00".repeat(8196)));
    assert_eq!(write::Args::decode(&mut Reader::new(&message)), Err(Error::TooLong), "data");
    let whole = bytes(&format!("00000400 {}", "2f".repeat(1024)));
    assert_eq!(decode_all(&mut Reader::new(&whole)), Ok(Path(&[b'/'; 1024])));
}
