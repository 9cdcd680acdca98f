//! Each message is compared byte for byte with `spec/lease.x`.

use bytes::Bytes;

use super::*;
use crate::lease::callback::{evict, report};
use crate::list::UpTo;
use crate::nfs3::write::Stability;
use crate::nfs3::{self, Handle, SetAttributes, SetTime, Time, Wcc};

const CALLER: Caller = Caller { client: *b"sixteen bytes id", instance: 7, epoch: 3 };

/// The bytes of [`CALLER`].
const WHO: &str = "'sixteen bytes id' 0000000000000007 0000000000000003";

const TERMS: Terms = Terms { kind: Kind::Write, term_ms: 30_000, opportune: false, space: 4096 };

/// The bytes of [`TERMS`].
const ASKED: &str = "00000002 00007530 00000000 0000000000001000";

const GRANT: Grant = Grant {
    kind: Kind::Write,
    cachable: true,
    term_ms: 30_000,
    serial: 9,
    modrev: 0x1_0000_0002,
    space: 4096,
};

/// The bytes of [`GRANT`].
const GIVEN: &str = "00000002 00000001 00007530 0000000000000009 0000000100000002 0000000000001000";

fn handle() -> Handle {
    Handle::new(&[0xab, 0xcd]).expect("it is short")
}

#[test]
fn a_call_of_version_3_with_leases() {
    let asks = List(vec![Ask { place: place::FIRST, terms: TERMS }]);
    let write = nfs3::write::Args {
        file: handle(),
        offset: 8,
        count: 3,
        stability: Stability::Unstable,
        data: Bytes::from_static(b"abc"),
    };
    let modified = SetTime::To(Time { seconds: 1, nanoseconds: 2 });
    let attributes = SetAttributes { mode: Some(0o600), modified, ..SetAttributes::default() };
    let head = Head { caller: CALLER, asks, base: Some(Base { serial: 9, modrev: 5 }) };
    vector!(
        Call { head, args: write::Merged { attributes, write } },
        "{WHO} 00000001 00000000 {ASKED} 00000000 00000001 0000000000000009 0000000000000005
        00000001 00000180 00000000 00000000 00000000 00000000 00000002 00000001 00000002
        00000002 abcd0000 0000000000000008 00000003 00000000 00000003 'abc' 00"
    );
    let head = Head { caller: CALLER, asks: List(Vec::new()), base: None };
    vector!(
        Call { head, args: nfs3::getattr::Args { object: handle() } },
        "{WHO} 00000000 00000000 00000002 abcd0000"
    );
}

#[test]
fn an_answer_has_grants_and_changes_before_the_results() {
    let done = Done {
        granted: List(vec![Granted { place: place::SECOND, grant: GRANT }]),
        changes: List(vec![Change { place: place::FIRST, before: 4, after: 6 }]),
        results: nfs3::remove::Reply::Done(Wcc::default()),
    };
    vector!(
        remove::Reply::Done(done),
        "00000000 00000001 00000001 {GIVEN} 00000000
        00000001 00000000 0000000000000004 0000000000000006 00000000
        00000000 00000000 00000000"
    );
}

#[test]
fn errors_have_no_results() {
    vector!(getattr::Reply::Epoch(4), "00000001 0000000000000004");
    vector!(getattr::Reply::Instance(8), "00000002 0000000000000008");
    vector!(getattr::Reply::Unknown, "00000003");
    vector!(write::Reply::Late(6), "00000004 0000000000000006");
    vector!(write::Reply::Later, "00000005");
}

#[test]
fn append() {
    let head = Head { caller: CALLER, asks: List(Vec::new()), base: None };
    let data = Bytes::from_static(b"abc");
    let args = append::Data { file: handle(), stability: Stability::FileSync, data };
    vector!(
        Call { head, args },
        "{WHO} 00000000 00000000 00000002 abcd0000 00000002 00000003 'abc' 00"
    );
    let written = nfs3::write::Done {
        file: Wcc::default(),
        count: 3,
        stability: Stability::FileSync,
        verifier: *b"verifier",
    };
    vector!(
        append::Appended { offset: 1 << 32, written },
        "0000000100000000 00000000 00000000 00000003 00000002 'verifier'"
    );
}

#[test]
fn hello() {
    let name = ClientName(b"host:/mnt");
    vector!(
        hello::Args { client: CALLER.client, instance: 7, name },
        "'sixteen bytes id' 0000000000000007 00000009 'host:/mnt' 000000"
    );
    let welcome = hello::Welcome {
        epoch: 3,
        recovering: true,
        default_term_ms: 30_000,
        longest_term_ms: 60_000,
        write_slack_ms: 5_000,
        drift_ppm: 2_000,
        leases_names: true,
    };
    vector!(welcome, "0000000000000003 00000001 00007530 0000ea60 00001388 000007d0 00000001");
    let of_files_alone = hello::Welcome { recovering: false, leases_names: false, ..welcome };
    vector!(
        of_files_alone,
        "0000000000000003 00000000 00007530 0000ea60 00001388 000007d0 00000000"
    );
}

#[test]
fn leases() {
    let wanted = leases::Wanted { object: handle(), terms: TERMS, reclaim: true };
    let returned = leases::Returned { object: handle(), serial: 9, open: Open::Write };
    let args = leases::Args {
        caller: CALLER,
        wanted: UpTo(vec![wanted]),
        returned: UpTo(vec![returned]),
        progress: leases::Progress::Recovered,
    };
    vector!(
        args,
        "{WHO} 00000001 00000002 abcd0000 {ASKED} 00000001 00000000
        00000001 00000002 abcd0000 0000000000000009 00000002 00000000 00000002"
    );
    let held = leases::Held { place: 0, grant: GRANT, attributes: None };
    vector!(
        leases::AllHeld { held: List(vec![held]) },
        "00000001 00000000 {GIVEN} 00000000 00000000"
    );
}

#[test]
fn goodbye() {
    vector!(CALLER, "{WHO}");
}

#[test]
fn layout() {
    let head = Head { caller: CALLER, asks: List(Vec::new()), base: None };
    vector!(
        Call { head, args: layout::Wanted { file: handle(), kind: Some(Kind::Write) } },
        "{WHO} 00000000 00000000 00000002 abcd0000 00000001 00000002"
    );
    vector!(layout::Wanted { file: handle(), kind: None }, "00000002 abcd0000 00000000");
    let object = layout::Object {
        host: *b"a mapped address",
        port: 2049,
        object: handle(),
        verifier: *b"verified",
    };
    let verifier = *b"verifier";
    vector!(
        layout::Layout { unit: 65_536, owner: 0x4000_0001, verifier, objects: List(vec![object]) },
        "00010000 40000001 'verifier'
        00000001 'a mapped address' 00000801 00000002 abcd0000 'verified' 00000000"
    );
}

#[test]
fn objects() {
    vector!(objects::Wanted { file: handle(), kind: Kind::Read }, "00000002 abcd0000 00000001");
    let object = layout::Object {
        host: *b"a mapped address",
        port: 2049,
        object: handle(),
        verifier: *b"verified",
    };
    let (user, group, verifier) = (0x7800_0001, 0x7812_3456, *b"verifier");
    vector!(
        objects::Layout { unit: 65_536, user, group, verifier, objects: List(vec![object]) },
        "00010000 78000001 78123456 'verifier'
        00000001 'a mapped address' 00000801 00000002 abcd0000 'verified' 00000000"
    );
}

#[test]
fn callback_messages() {
    let lease = evict::Lease { object: handle(), serial: 9 };
    vector!(
        evict::Args { epoch: 3, leases: List(vec![lease]) },
        "0000000000000003 00000001 00000002 abcd0000 0000000000000009 00000000"
    );
    vector!(
        report::Args { epoch: 3, lease },
        "0000000000000003 00000002 abcd0000 0000000000000009"
    );
    let now = report::Now {
        size: 5,
        modified: Time { seconds: 1, nanoseconds: 2 },
        changed: Time { seconds: 3, nanoseconds: 4 },
        set: None,
    };
    vector!(Some(now), "00000001 0000000000000005 00000001 00000002 00000003 00000004 00000000");
    let set = report::Set { mode: 0o640, accessed: Time { seconds: 5, nanoseconds: 6 } };
    let now = Some(report::Now { set: Some(set), ..now });
    vector!(
        now,
        "00000001 0000000000000005 00000001 00000002 00000003 00000004 00000001 000001a0
        00000005 00000006"
    );
}
