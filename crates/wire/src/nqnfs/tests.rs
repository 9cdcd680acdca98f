//! Each message is compared byte for byte with the layout of the 4.4BSD-Lite2 kernel.

use bytes::Bytes;
use leasehold_base::units::{FileId, FileSystemId};
use leasehold_base::xdr::decode_all;

use super::*;
use crate::nfs3::{Attributes, Device, FileType, Handle, Time, Wcc};
use crate::testing::bytes;

const ATTRIBUTES: Attributes = Attributes {
    file_type: FileType::Regular,
    mode: 0o644,
    link_count: 1,
    uid: 1000,
    gid: 100,
    size: 3,
    used: 0x1000,
    device: Device { major: 0, minor: 0 },
    file_system: FileSystemId(0xaabb),
    file_id: FileId(0xccdd),
    accessed: Time { seconds: 1, nanoseconds: 2 },
    modified: Time { seconds: 3, nanoseconds: 4 },
    changed: Time { seconds: 5, nanoseconds: 6 },
};

const FATTR: &str = "00000001 000001a4 00000001 000003e8 00000064
    0000000000000003 0000000000001000 00000000 00000000 000000000000aabb 000000000000ccdd
    00000001 00000002 00000003 00000004 00000005 00000006";

const TERMS: Terms = Terms { cachable: true, seconds: 30, modrev: 0x0001_0002_0003_0004 };

fn handle() -> Handle {
    Handle::new(&[0xab, 0xcd]).expect("it is short")
}

#[test]
fn a_call_begins_with_its_lease_request() {
    let args = nfs3::read::Args { file: handle(), offset: 4096, count: 8192 };
    let ask = Some(Ask { kind: Kind::Read, seconds: 30 });
    vector!(Call { ask, args }, "00000001 0000001e 00000002 abcd0000 0000000000001000 00002000");
    vector!(Call { ask: None, args }, "00000000 00000002 abcd0000 0000000000001000 00002000");
}

#[test]
fn an_unknown_lease_flag_is_rejected() {
    for word in ["00000003", "00000004", "00000005", "80000001"] {
        let call = bytes(&format!("{word} 0000001e 00000002 abcd0000"));
        let read = decode_all::<Call<nfs3::getattr::Args>>(&mut Reader::new(&call));
        assert_eq!(read, Err(Error::BadValue), "{word}");
    }
}

#[test]
fn a_lease_follows_the_success_status() {
    let done = nfs3::read::Done {
        attributes: Some(ATTRIBUTES),
        count: 3,
        end: true,
        data: Bytes::from_static(b"abc"),
    };
    let reply = |grant| read::Reply::Done(grant, done.clone());
    vector!(
        reply(Some(Grant { kind: Kind::Read, terms: TERMS })),
        "00000000 00000001 00000001 0000001e 0001000200030004
        00000001 {FATTR} 00000003 00000001 00000003 'abc' 00"
    );
    vector!(reply(None), "00000000 00000000 00000001 {FATTR} 00000003 00000001 00000003 'abc' 00");
}

#[test]
fn an_error_has_no_lease() {
    let failed = |status| write::Reply::Failed(status, Wcc::default());
    vector!(failed(Status::Nfs(nfs3::Status::NoSpace)), "0000001c 00000000 00000000");
    vector!(failed(Status::Nfs(nfs3::Status::Jukebox)), "00002718 00000000 00000000");
    vector!(failed(Status::TryLater), "000001f5 00000000 00000000");
    vector!(failed(Status::Expired), "000001f4 00000000 00000000");
}

#[test]
fn both_codes_request_a_retry() {
    assert!(Status::TryLater.is_later());
    assert!(Status::Nfs(nfs3::Status::Jukebox).is_later());
    assert!(!Status::Expired.is_later());
    assert!(!Status::Nfs(nfs3::Status::Io).is_later());
}

#[test]
fn getlease() {
    let wanted = getlease::Wanted { object: handle(), kind: Kind::Write, seconds: 60 };
    vector!(Call { ask: None, args: wanted }, "00000000 00000002 abcd0000 00000002 0000003c");
    let done = getlease::Done { terms: TERMS, attributes: ATTRIBUTES };
    vector!(
        getlease::Reply::Done(None, done),
        "00000000 00000000 00000001 0000001e 0001000200030004 {FATTR}"
    );
}

#[test]
fn vacated_has_a_lease_word_and_evicted_has_none() {
    let object = nfs3::getattr::Args { object: handle() };
    vector!(Call { ask: None, args: object }, "00000000 00000002 abcd0000");
    // With the length of the handle, which the server of 4.4BSD-Lite2 omits by mistake.
    vector!(object, "00000002 abcd0000");
}
