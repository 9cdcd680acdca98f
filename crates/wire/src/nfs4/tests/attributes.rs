use leasehold_base::limits::{ACES_MAX, ATTRIBUTES_BYTES_MAX, OWNER_BYTES_MAX};
use leasehold_base::units::{Cookie, FileId, FileTime};
use leasehold_base::xdr::{Encode as _, Error};

use super::*;
use crate::list::{List, ListOf};

/// The attributes that a Linux client requests of each object.
fn full() -> Attributes<'static> {
    Attributes {
        file_type: Some(FileType::Directory),
        change: Some(ChangeId(0x10)),
        size: Some(4096),
        file_system: Some(FileSystemId { major: 1, minor: 2 }),
        file_id: Some(FileId(3)),
        mode: Some(0o755),
        link_count: Some(2),
        owner: Some(OwnerName(b"1000")),
        owner_group: Some(OwnerName(b"100")),
        device: Some(Device { major: 8, minor: 1 }),
        space_used: Some(8192),
        accessed: Some(Time { seconds: 1, nanoseconds: 2 }),
        changed: Some(Time { seconds: 3, nanoseconds: 4 }),
        modified: Some(Time { seconds: -1, nanoseconds: 5 }),
        mounted_on_file_id: Some(FileId(6)),
        ..Attributes::default()
    }
}

/// The bytes of [`full`]: the mask that a Linux client sends, the length, and the values.
const FULL: &str = "00000002 0010011a 00b0a23a 00000080
    00000002 0000000000000010 0000000000001000 0000000000000001 0000000000000002
    0000000000000003 000001ed 00000002 00000004 '1000' 00000003 '100' 00 00000008 00000001
    0000000000002000 0000000000000001 00000002 0000000000000003 00000004
    ffffffffffffffff 00000005 0000000000000006";

#[test]
fn getattr() {
    let attributes = full();
    vector!(attributes.present(), "00000002 0010011a 00b0a23a");
    let owned = attributes.to_encoded();
    vector!(getattr::Reply::Done(owned.borrow()), "00000000 {FULL}");
    vector!(getattr::Reply::Failed(Status::Stale), "00000046");
    // A server encodes the same bytes, and leaves out attributes that have no value.
    let mut requested = attributes.present();
    requested.insert(Attribute::MimeType);
    requested.insert(200_u32);
    let reply = Reply::Done(attributes.select(requested));
    assert_eq!(encoded(&reply), bytes(&format!("00000000 {FULL}")));
    assert_eq!(Attributes::decode(&owned.borrow(), &Attributes::typed()), Ok(attributes));
}

#[test]
fn values_follow_in_the_order_of_their_numbers_and_only_if_requested() {
    let attributes = full();
    let requested = Bitmap::of(&[Attribute::Mode, Attribute::Size, Attribute::FileType]);
    assert_eq!(
        encoded(&attributes.select(requested)),
        bytes("00000002 00000012 00000002 00000010 00000002 0000000000001000 000001ed")
    );
    assert_eq!(encoded(&attributes.select(Bitmap::EMPTY)), bytes("00000000 00000000"));
}

#[test]
fn setattr() {
    vector!(setattr::Args { stateid: STATE, attributes: mode() }, "{SID} {MODE_BYTES}");
    let set = Bitmap::of(&[Attribute::Mode]);
    vector!(setattr::Reply { status: OK, set }, "00000000 00000002 00000000 00000002");
    vector!(
        setattr::Reply { status: Completion::Failed(Status::NotOwner), set: Bitmap::EMPTY },
        "00000001 00000000"
    );
    let times = Attributes {
        set_accessed: Some(SetTime::Now),
        set_modified: Some(SetTime::To(Time { seconds: 9, nanoseconds: 10 })),
        ..Attributes::default()
    };
    let owned = times.to_encoded();
    vector!(
        owned.borrow(),
        "00000002 00000000 00410000 00000014 00000000 00000001 0000000000000009 0000000a"
    );
    assert_eq!(Attributes::decode(&owned.borrow(), &Attributes::typed()), Ok(times));
}

#[test]
fn verify_and_nverify() {
    let args: (verify::Args<'_>, nverify::Args<'_>) = (mode(), mode());
    vector!(args.0, "{MODE_BYTES}");
    vector!(args.1, "{MODE_BYTES}");
    vector!(verify::Reply::Failed(Status::NotSame), "0000272b");
    vector!(nverify::Reply::Failed(Status::Same), "00002719");
}

/// Returns the result of decoding a description of encoded attributes with some supported.
fn decoded(supported: &[Attribute], description: &str) -> Result<(), AttributeError> {
    let message = bytes(description);
    let raw = decode_all::<EncodedAttributes<'_>>(&mut Reader::new(&message)).expect("framed");
    Attributes::decode(&raw, &Bitmap::of(supported)).map(|_| ())
}

#[test]
fn unsupported_attributes_differ_from_invalid_values() {
    let (size, mode) = (Attribute::Size, Attribute::Mode);
    let both = "00000002 00000010 00000002 0000000c 0000000000000001 000001a4";
    assert_eq!(decoded(&[size, mode], both), Ok(()));
    assert_eq!(decoded(&[size], both), Err(AttributeError::NotSupported(33)));
    // The mask decides before the values.
    let cut = "00000002 00000010 00000002 00000004 00000000";
    assert_eq!(decoded(&[mode], cut), Err(AttributeError::NotSupported(4)));
    assert_eq!(decoded(&[size, mode], cut), Err(AttributeError::BadXdr(Error::Short)));
    let more = "00000001 00000010 0000000c 0000000000000001 000001a4";
    assert_eq!(decoded(&[size], more), Err(AttributeError::BadXdr(Error::LeftOver)));
    // A number that no RFC defines, and an attribute without a field.
    let unknown = "00000004 00000000 00000000 00000000 00000001 00000000";
    assert_eq!(decoded(&[size], unknown), Err(AttributeError::NotSupported(96)));
    let untyped = "00000002 00000000 00000001 00000000";
    assert_eq!(decoded(&[Attribute::MimeType], untyped), Err(AttributeError::NotSupported(32)));
    let kind = "00000001 00000002 00000004 0000000a";
    let bad = Err(AttributeError::BadXdr(Error::BadValue));
    assert_eq!(decoded(&[Attribute::FileType], kind), bad);
}

#[test]
fn owners_and_lists_have_limits() {
    let owner = |length: u32| {
        let padded = (length as usize).next_multiple_of(4);
        let zeros = "00".repeat(padded);
        format!("00000002 00000000 00000010 {:08x} {length:08x} {zeros}", padded + 4)
    };
    let too_long = Err(AttributeError::BadXdr(Error::TooLong));
    assert_eq!(decoded(&[Attribute::Owner], &owner(OWNER_BYTES_MAX)), Ok(()));
    assert_eq!(decoded(&[Attribute::Owner], &owner(OWNER_BYTES_MAX + 1)), too_long);
    let list = |count: usize| {
        let entries = "00000000 00000000 00000001 00000000".repeat(count);
        format!("00000001 00001000 {:08x} {count:08x} {entries}", count * 16 + 4)
    };
    assert_eq!(decoded(&[Attribute::Acl], &list(ACES_MAX)), Ok(()));
    assert_eq!(decoded(&[Attribute::Acl], &list(ACES_MAX + 1)), too_long);
    let long = bytes(&format!("00000000 {:08x}", ATTRIBUTES_BYTES_MAX + 1));
    let framed = decode_all::<EncodedAttributes<'_>>(&mut Reader::new(&long));
    assert_eq!(framed, Err(Error::TooLong));
}

#[test]
fn attributes_of_every_type() {
    let attributes = Attributes {
        supported: Some(Bitmap::of(&[Attribute::Supported, Attribute::OpenArguments])),
        read_error: Some(Completion::Failed(Status::Stale)),
        acl: Some(Array(vec![Ace {
            kind: AceType::ALLOW,
            flags: AceFlags::GROUP,
            mask: AceMask::READ_DATA.with(AceMask::EXECUTE),
            principal: OwnerName(b"GROUP@"),
        }])),
        handle: Some(handle()),
        locations: Some(FsLocations {
            root: Array(vec![Name(b"a")]),
            locations: Array(vec![FsLocation {
                servers: Array(vec![Text(b"host")]),
                root: Array(vec![Name(b"b"), Name(b"c")]),
            }]),
        }),
        fs_layout_types: Some(Array(vec![LayoutType::FLEX_FILES])),
        change_kind: Some(ChangeKind::Time),
        mode_umask: Some(ModeUmask { mode: 0o666, umask: 0o22 }),
        xattr_support: Some(true),
        open_arguments: Some(OpenArguments {
            share_access: Bitmap::of(&[1_u32, 2, 3]),
            share_deny: Bitmap::of(&[0_u32, 1, 2, 3]),
            share_access_want: Bitmap::of(&[3_u32, 4, 20, 21]),
            claims: Bitmap::of(&[0_u32, 4]),
            create_modes: Bitmap::of(&[0_u32, 1, 2, 3]),
        }),
        ..Attributes::default()
    };
    let owned = attributes.to_encoded();
    vector!(
        owned.borrow(),
        "00000003 01081801 40000000 00468000 000000ac
         00000003 00000001 00000000 00400000
         00000046
         00000001 00000000 00000040 00000021 00000006 'GROUP@' 0000
         {FH}
         00000001 00000001 'a' 000000
         00000001 00000001 00000004 'host' 00000002 00000001 'b' 000000 00000001 'c' 000000
         00000001 00000004
         00000003
         000001b6 00000012
         00000001
         00000001 0000000e 00000001 0000000f 00000001 00300018 00000001 00000011
         00000001 0000000f"
    );
    assert_eq!(Attributes::decode(&owned.borrow(), &Attributes::typed()), Ok(attributes));
}

#[test]
fn readdir() {
    let requested = Bitmap::of(&[Attribute::FileId, Attribute::ReadError]);
    vector!(
        readdir::Args {
            cookie: Cookie(3),
            verifier: CookieVerifier(*b"verifier"),
            names_count: 0xffa8,
            count: 0xffa8,
            requested,
        },
        "0000000000000003 'verifier' 0000ffa8 0000ffa8 00000001 00100800"
    );
    let attributes = Attributes { file_id: Some(FileId(9)), ..Attributes::default() };
    let owned = attributes.to_encoded();
    let verifier = CookieVerifier([0; 8]);
    let entry =
        readdir::Entry { cookie: Cookie(5), name: Name(b"file"), attributes: owned.borrow() };
    let other = readdir::Entry { cookie: Cookie(6), name: Name(b"g"), ..entry };
    let listing = "00000000 0000000000000000
         00000001 0000000000000005 00000004 'file' 00000001 00100000 00000008 0000000000000009
         00000001 0000000000000006 00000001 'g' 000000 00000001 00100000 00000008 0000000000000009
         00000000 00000001";
    let entries = List(vec![entry, other]);
    vector!(readdir::Reply::Done(readdir::Done { verifier, entries, end: true }), "{listing}");
    vector!(readdir::Reply::Failed(Status::BadCookie), "00002713");
    // A server encodes from attributes, at once or entry by entry.
    let selected = |cookie, name| readdir::Entry {
        cookie: Cookie(cookie),
        name: Name(name),
        attributes: attributes.select(requested),
    };
    let names: [(u64, &[u8]); 2] = [(5, b"file"), (6, b"g")];
    let entries = ListOf(|| names.map(|(cookie, name)| selected(cookie, name)));
    let reply = Reply::Done(readdir::Done { verifier, entries, end: true });
    assert_eq!(encoded(&reply), bytes(listing));
    let mut writer = Writer::new();
    OK.encode(&mut writer);
    let mut entries = readdir::Listing::new(&mut writer, verifier, bytes(listing).len());
    assert!(entries.append(&selected(5, b"file")) && entries.append(&selected(6, b"g")));
    assert!(!entries.append(&selected(7, b"too many")));
    entries.finish(true);
    assert_eq!(writer.finish().into_bytes(), bytes(listing));
    let empty =
        readdir::Done::<List<readdir::Entry<'_>>> { verifier, entries: List(vec![]), end: true };
    assert_eq!(encoded(&empty).len(), readdir::EMPTY_BYTES as usize);
}

#[test]
fn bitmaps_ignore_zeros_at_the_end() {
    vector!(Bitmap::EMPTY, "00000000");
    vector!(Bitmap::of(&[0_u32, 31, 32, 66]), "00000003 80000001 00000001 00000004");
    let read = |description: &str| decode_all::<Bitmap>(&mut Reader::new(&bytes(description)));
    let zeros = "00000000".repeat(63);
    assert_eq!(read(&format!("00000040 00000002 {zeros}")), Ok(Bitmap::of(&[1_u32])));
    assert_eq!(read(&format!("00000041 00000002 {zeros} 00000000")), Err(Error::TooLong));
    let words = "00000000".repeat(8);
    assert_eq!(read(&format!("00000009 {words} 00000001")), Err(Error::BadValue));
    assert_eq!(read("00000002 00000001"), Err(Error::Short));
}

#[test]
fn bitmaps_are_sets() {
    let (low, both) = (Bitmap::of(&[1_u32, 2]), Bitmap::of(&[2_u32, 250]));
    assert_eq!(low.or(&both).iter().collect::<Vec<_>>(), [1, 2, 250]);
    assert_eq!(low.and(&both), Bitmap::of(&[2_u32]));
    assert_eq!(both.without(&low), Bitmap::of(&[250_u32]));
    let mut some = both;
    some.remove(250_u32);
    some.insert(Bitmap::BITS);
    assert_eq!(some, Bitmap::of(&[2_u32]));
    assert!(some.has(2_u32) && !some.has(Bitmap::BITS) && !some.is_empty());
    assert_eq!(format!("{low:?}"), "{1, 2}");
}

#[test]
fn times_before_1970_are_negative() {
    let time = Time { seconds: -2, nanoseconds: 1_000_000_000 };
    vector!(time, "fffffffffffffffe 3b9aca00");
    assert!(!time.is_valid());
    assert_eq!(FileTime::from(time), FileTime { seconds: -2, nanoseconds: 999_999_999 });
    let file_time = FileTime { seconds: i64::MIN, nanoseconds: 7 };
    assert_eq!(FileTime::from(Time::from(file_time)), file_time);
}
