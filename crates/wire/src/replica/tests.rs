//! Each message is compared byte for byte with `spec/replica.x`.

use leasehold_base::units::{FileId, FileSystemId};

use super::*;
use crate::nfs3::{Device, FileType, Name, Time};

const CALLER: Caller = Caller { peer: 2, epoch: 7, callee_epoch: 3 };

/// The bytes of [`CALLER`].
const WHO: &str = "00000002 0000000000000007 0000000000000003";

const PLACE: Place<'_> = Place { directory: 0x0001_0000_0000_0002, name: Name(b"paper") };

/// The bytes of [`PLACE`].
const WHERE: &str = "0001000000000002 00000005 'paper' 000000";

fn metafile() -> Metafile<'static> {
    let time = Time { seconds: 1, nanoseconds: 2 };
    let attributes = Attributes {
        file_type: FileType::Regular,
        mode: 0o644,
        link_count: 1,
        uid: 1000,
        gid: 100,
        size: 1 << 32,
        used: 4096,
        device: Device::default(),
        file_system: FileSystemId(5),
        file_id: FileId(9),
        accessed: time,
        modified: time,
        changed: time,
    };
    let places = List(vec![PLACE]);
    Metafile { object: 9, version: 6, places, attributes, content: Content(b"head") }
}

/// The bytes of [`metafile`].
const YIELDED: Yielded<'_> = Yielded { place: PLACE, object: 9, over: 8 };

const METAFILE: &str = "0000000000000009 0000000000000006
    00000001 0001000000000002 00000005 'paper' 000000 00000000
    00000001 000001a4 00000001 000003e8 00000064 0000000100000000 0000000000001000
    00000000 00000000 0000000000000005 0000000000000009
    00000001 00000002 00000001 00000002 00000001 00000002 00000004 'head'";

#[test]
fn hello() {
    let args = hello::Args { peer: 2, epoch: 7, stored_epoch: 6, stored_stamp: 40, strict: true };
    vector!(args, "00000002 0000000000000007 0000000000000006 0000000000000028 00000001");
    let covered = List(vec![hello::Covered { object: 9, writes: true }]);
    let replaced = List(vec![YIELDED]);
    let (epoch, known_epoch, known_stamp, recovers) = (3, 6, 40, true);
    vector!(
        hello::Known { epoch, known_epoch, known_stamp, recovers, covered, replaced },
        "0000000000000003 0000000000000006 0000000000000028 00000001
         00000001 0000000000000009 00000001 00000000
         00000001 {WHERE} 0000000000000009 0000000000000008 00000000"
    );
}

#[test]
fn fetch_and_search() {
    vector!(
        fetch::Args { caller: CALLER, object: 9, known: Some(5) },
        "{WHO} 0000000000000009 00000001 0000000000000005"
    );
    vector!(
        fetch::Reply::Done { stamp: 8, results: Some(metafile()) },
        "00000000 0000000000000008 00000001 {METAFILE}"
    );
    vector!(fetch::Reply::Done { stamp: 8, results: None }, "00000000 0000000000000008 00000000");
    vector!(
        search::Args { caller: CALLER, place: PLACE, behind: List(vec![3, 4]) },
        "{WHO} {WHERE} 00000001 00000003 00000001 00000004 00000000"
    );
}

#[test]
fn names() {
    vector!(named::Args { caller: CALLER, place: PLACE }, "{WHO} {WHERE}");
    vector!(
        named::Reply::Done { stamp: 8, results: Some(9) },
        "00000000 0000000000000008 00000001 0000000000000009"
    );
    vector!(
        claim::Args { caller: CALLER, place: PLACE, object: 9, over: Some(8) },
        "{WHO} {WHERE} 0000000000000009 00000001 0000000000000008"
    );
    vector!(
        stands::Args { caller: CALLER, place: PLACE, object: 9, claimant: Some(7) },
        "{WHO} {WHERE} 0000000000000009 00000001 0000000000000007"
    );
    vector!(stands::Reply::Done { stamp: 8, results: true }, "00000000 0000000000000008 00000001");
}

#[test]
fn changes() {
    let attributes = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    let modified = Time { seconds: 1, nanoseconds: 2 };
    let wrote = Some(change::Wrote { offset: 448, data: Content(b"last"), modified });
    vector!(
        change::Args { caller: CALLER, object: 9, attributes, clear_set_ids: true, wrote },
        "{WHO} 0000000000000009 00000001 00000180 00000000 00000000 00000000 00000000 00000000
        00000001
        00000001 00000000000001c0 00000004 'last' 00000001 00000002"
    );
    vector!(
        place::Args {
            caller: CALLER,
            number: 7,
            object: 9,
            from: Some(PLACE),
            to: None,
            over: Some(8)
        },
        "{WHO} 0000000000000007 0000000000000009 00000001 {WHERE} 00000000
        00000001 0000000000000008"
    );
    vector!(
        announce::Args {
            caller: CALLER,
            object: 9,
            version: 8,
            places: List(Vec::new()),
            left: Some(PLACE),
        },
        "{WHO} 0000000000000009 0000000000000008 00000000 00000001 {WHERE}"
    );
}

#[test]
fn listings() {
    vector!(
        list::Args { caller: CALLER, directory: 2, behind: 4, count: 100 },
        "{WHO} 0000000000000002 0000000000000004 00000064"
    );
    let entry = list::Entry { cookie: 5, name: PLACE.name, object: 9 };
    vector!(
        list::Names { entries: List(vec![entry]), end: true },
        "00000001 0000000000000005 00000005 'paper' 000000 0000000000000009 00000000 00000001"
    );
}

#[test]
fn evictions() {
    vector!(evict::Args { caller: CALLER, object: 9 }, "{WHO} 0000000000000009");
    vector!(
        uncover::Args { caller: CALLER, object: 9, serial: 11 },
        "{WHO} 0000000000000009 000000000000000b"
    );
}

#[test]
fn covers() {
    vector!(
        cover::Args {
            caller: CALLER,
            object: 9,
            writes: false,
            lends: true,
            reclaims: false,
            given: Some(10),
        },
        "{WHO} 0000000000000009 00000000 00000001 00000000 00000001 000000000000000a"
    );
    vector!(
        cover::Granted { serial: 11, writes: true, term_ms: 3000 },
        "000000000000000b 00000001 00000bb8"
    );
}

#[test]
fn changes_of_names() {
    let begin = begin::Args { caller: CALLER, directory: 9, change: 11, by: Some(1) };
    vector!(begin, "{WHO} 0000000000000009 000000000000000b 00000001 00000001");
    let end = end::Args { caller: CALLER, directory: 9, change: 11, done: true };
    vector!(end, "{WHO} 0000000000000009 000000000000000b 00000001");
}

#[test]
fn prepares_and_their_outcomes() {
    vector!(
        r#yield::Args { caller: CALLER, change: 11, yielded: YIELDED, by: Some(3) },
        "{WHO} 000000000000000b {WHERE} 0000000000000009 0000000000000008 00000001 00000003"
    );
    vector!(
        replaced::Args { caller: CALLER, change: 11, yielded: YIELDED, by: None, version: Some(6) },
        "{WHO} 000000000000000b {WHERE} 0000000000000009 0000000000000008 00000000
         00000001 0000000000000006"
    );
}

#[test]
fn loads() {
    vector!(load::Args { caller: CALLER }, "{WHO}");
    vector!(load::Load { busy_tenths: 3, connections: 40 }, "00000003 00000028");
}

#[test]
fn moves() {
    vector!(
        moving::Args { caller: CALLER, number: 4, object: 9, parent: 1 },
        "{WHO} 0000000000000004 0000000000000009 0000000000000001"
    );
}

#[test]
fn errors_have_no_results() {
    vector!(claim::Reply::Epoch(4), "00000001 0000000000000004");
    vector!(claim::Reply::Later, "00000002");
    vector!(claim::Reply::Gone, "00000003");
    vector!(claim::Reply::Exists, "00000004");
    vector!(place::Reply::Full, "00000005");
    vector!(r#move::Reply::Loop, "00000006");
    vector!(hello::Reply::Mode, "00000007");
}
