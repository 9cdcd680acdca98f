//! Every message of all three versions, byte for byte as the RFCs have it.

use core::num::NonZeroU32;

use leasehold_base::limits::FLAVORS_MAX;
use leasehold_base::xdr::{Error, Reader, decode_all};

use super::mnt::{Done, ErrorNumber, Flavors, OldReply, Reply, Status};
use super::*;
use crate::list::List;
use crate::rpc::flavor;
use crate::testing::bytes;
use crate::{nfs2, nfs3};

#[test]
fn mnt_of_version_3() {
    let args: mnt::Args<'_> = Path(b"/export");
    vector!(args, "00000007 '/export' 00");
    let directory = nfs3::Handle::new(&[1, 2, 3, 4]).expect("short");
    let flavors = Flavors(vec![flavor::SYS, flavor::NONE]);
    vector!(
        Reply::Done(Done { directory, flavors }),
        "00000000 00000004 01020304 00000002 00000001 00000000"
    );
    vector!(Reply::Failed(Status::Access), "0000000d");
    let numbers: Vec<u32> = Status::ALL.iter().map(|status| *status as u32).collect();
    assert_eq!(numbers, [1, 2, 5, 13, 20, 22, 63, 10004, 10006]);
}

#[test]
fn mnt_of_versions_1_and_2() {
    vector!(
        OldReply::Done(nfs2::Handle([7; 32])),
        "00000000 0707070707070707 0707070707070707 0707070707070707 0707070707070707"
    );
    let number = ErrorNumber(NonZeroU32::new(2).expect("not zero"));
    vector!(OldReply::Failed(number), "00000002");
    assert_eq!(ErrorNumber::from(Status::NotFound), number);
    let io = ErrorNumber::from(Status::Io);
    assert_eq!([Status::NotSupported, Status::ServerFault].map(ErrorNumber::from), [io; 2]);
}

#[test]
fn too_many_flavours_are_rejected() {
    let most = usize::try_from(FLAVORS_MAX).expect("small");
    let read = |count: usize, words: usize| {
        let message = bytes(&format!("{count:08x} {}", "00000001".repeat(words)));
        decode_all::<Flavors>(&mut Reader::new(&message)).map(|flavors| flavors.0.len())
    };
    assert_eq!(read(most, most), Ok(most));
    assert_eq!(read(most + 1, most + 1), Err(Error::TooLong));
    assert_eq!(read(most, most - 1), Err(Error::Short));
}

#[test]
fn dump() {
    let entry = |host, directory| dump::Entry { host: Name(host), directory: Path(directory) };
    vector!(
        List(vec![entry(b"a", b"/x"), entry(b"host", b"/")]),
        "00000001 00000001 'a' 000000 00000002 '/x' 0000
         00000001 00000004 'host' 00000001 '/' 000000
         00000000"
    );
    let nothing: dump::Reply<'_> = List(Vec::new());
    vector!(nothing, "00000000");
}

#[test]
fn umnt() {
    let args: umnt::Args<'_> = Path(b"/export");
    vector!(args, "00000007 '/export' 00");
}

#[test]
fn export() {
    let entries: export::Reply<'_> = List(vec![
        export::Entry { directory: Path(b"/all"), groups: List(Vec::new()) },
        export::Entry { directory: Path(b"/few"), groups: List(vec![Name(b"one"), Name(b"two")]) },
    ]);
    vector!(
        entries,
        "00000001 00000004 '/all' 00000000
         00000001 00000004 '/few' 00000001 00000003 'one' 00 00000001 00000003 'two' 00 00000000
         00000000"
    );
}

#[test]
fn pathconf() {
    vector!(
        pathconf::Reply {
            link_max: 1,
            canonical_bytes_max: 2,
            input_bytes_max: 3,
            name_bytes_max: 4,
            path_bytes_max: 5,
            pipe_bytes: 6,
            disabling_character: 7,
            unused: 8,
            mask: 9,
            mask_more: 10,
        },
        "00000001 00000002 00000003 00000004 00000005 00000006 00000007 00000008 00000009 0000000a"
    );
}
