use super::*;
use leasehold_base::units::Cookie;

#[test]
fn access() {
    use super::access::{Access, Args, Done, Reply};
    let some = Access { read: true, extend: true, execute: true, ..Access::default() };
    vector!(Args { access: some }, "00000029");
    let xattrs =
        Access { read_xattrs: true, write_xattrs: true, list_xattrs: true, ..Access::default() };
    vector!(Args { access: xattrs }, "000001c0");
    vector!(Reply::Done(Done { supported: xattrs, access: some }), "00000000 000001c0 00000029");
    vector!(Reply::Failed(Status::Access), "0000000d");
}

#[test]
fn current_handles() {
    let args: putfh::Args = handle();
    vector!(args, "{FH}");
    vector!(putfh::Reply::Failed(Status::BadHandle), "00002711");
    vector!(getfh::Reply::Done(handle()), "00000000 {FH}");
    vector!(getfh::Reply::Failed(Status::NoFileHandle), "00002724");
    vector!(savefh::Reply::Done(()), "00000000");
    vector!(restorefh::Reply::Failed(Status::NoSavedHandle), "0000272e");
    let name: lookup::Args<'_> = Name(b"foo");
    vector!(name, "00000003 'foo' 00");
    vector!(lookupp::Reply::Failed(Status::NotDirectory), "00000014");
    vector!(openattr::Args { create: true }, "00000001");
}

#[test]
fn names() {
    let name: (link::Args<'_>, remove::Args<'_>) = (Name(b"new"), Name(b"old"));
    vector!(name.0, "00000003 'new' 00");
    vector!(name.1, "00000003 'old' 00");
    vector!(link::Reply::Done(CHANGE), "00000000 {CINFO}");
    vector!(remove::Reply::Failed(Status::FileOpen), "0000273e");
    vector!(
        rename::Args { from: Name(b"old"), to: Name(b"newer") },
        "00000003 'old' 00 00000005 'newer' 000000"
    );
    let done = rename::Done { from: CHANGE, to: ChangeInfo::default() };
    vector!(
        rename::Reply::Done(done),
        "00000000 {CINFO} 00000000 0000000000000000 0000000000000000"
    );
    vector!(readlink::Reply::Done(Path(b"../x")), "00000000 00000004 '../x'");
}

#[test]
fn create() {
    use super::create::{Args, Done, Kind, Reply};
    let made = |kind| Args { kind, name: Name(b"x"), attributes: mode() };
    let rest = format!("00000001 'x' 000000 {MODE_BYTES}");
    let device = Device { major: 8, minor: 1 };
    vector!(made(Kind::Directory), "00000002 {rest}");
    vector!(made(Kind::BlockDevice(device)), "00000003 00000008 00000001 {rest}");
    vector!(made(Kind::CharacterDevice(device)), "00000004 00000008 00000001 {rest}");
    vector!(made(Kind::Symlink(Path(b"a/b"))), "00000005 00000003 'a/b' 00 {rest}");
    vector!(made(Kind::Socket), "00000006 {rest}");
    vector!(made(Kind::Fifo), "00000007 {rest}");
    vector!(made(Kind::Other(1)), "00000001 {rest}");
    vector!(made(Kind::Other(99)), "00000063 {rest}");
    let done = Done { directory: CHANGE, set: Bitmap::of(&[Attribute::Mode]) };
    vector!(Reply::Done(done), "00000000 {CINFO} 00000002 00000000 00000002");
}

#[test]
fn read_write_and_commit() {
    vector!(
        read::Args { stateid: STATE, offset: 0x1_0000_0000, count: 4096 },
        "{SID} 0000000100000000 00001000"
    );
    let data = Bytes::from_static(b"hello");
    vector!(
        read::Reply::Done(read::Done { end: true, data: data.clone() }),
        "00000000 00000001 00000005 'hello' 000000"
    );
    let stability = Stability::DataSync;
    vector!(
        write::Args { stateid: STATE, offset: 8, stability, data },
        "{SID} 0000000000000008 00000001 00000005 'hello' 000000"
    );
    let verifier = WriteVerifier(*b"verifier");
    let done = write::Done { count: 5, stability: Stability::FileSync, verifier };
    vector!(write::Reply::Done(done), "00000000 00000005 00000002 'verifier'");
    vector!(commit::Args { offset: 1, count: 2 }, "0000000000000001 00000002");
    vector!(commit::Reply::Done(verifier), "00000000 'verifier'");
}

#[test]
fn security_information() {
    let args: secinfo_no_name::Args = secinfo_no_name::Args::Parent;
    vector!(args, "00000001");
    let info = GssInfo { mechanism: Oid(b"krb5"), quality: 0, service: GssService::Privacy };
    let flavors = Array(vec![Flavor::Plain(1), Flavor::Gss(info), Flavor::Plain(0)]);
    vector!(
        secinfo::Reply::Done(flavors),
        "00000000 00000003 00000001 00000006 00000004 'krb5' 00000000 00000003 00000000"
    );
}

#[test]
fn layouts() {
    vector!(
        layoutget::Args {
            signal: false,
            kind: LayoutType::FLEX_FILES,
            mode: IoMode::ReadWrite,
            offset: 1,
            length: u64::MAX,
            length_min: 4096,
            stateid: STATE,
            count: 0x1000,
        },
        "00000000 00000004 00000002 0000000000000001 ffffffffffffffff 0000000000001000
         {SID} 00001000"
    );
    let layout = Layout {
        offset: 0,
        length: u64::MAX,
        mode: IoMode::Read,
        kind: LayoutType::FLEX_FILES,
        body: LayoutBody(b"body"),
    };
    let layouts = Array(vec![layout]);
    vector!(
        layoutget::Reply::Done(layoutget::Done { return_on_close: true, stateid: STATE, layouts }),
        "00000000 00000001 {SID} 00000001
         0000000000000000 ffffffffffffffff 00000001 00000004 00000004 'body'"
    );
    vector!(
        layoutget::Reply::Detailed(layoutget::TryLater { will_signal: true }),
        "0000274a 00000001"
    );
    vector!(layoutget::Reply::Failed(Status::LayoutUnavailable), "0000274b");
    let update = LayoutUpdate { kind: LayoutType::FLEX_FILES, body: LayoutBody(b"") };
    vector!(
        layoutcommit::Args {
            offset: 1,
            length: 2,
            reclaim: false,
            stateid: STATE,
            last_offset: Some(3),
            modified: None,
            update,
        },
        "0000000000000001 0000000000000002 00000000 {SID} 00000001 0000000000000003 00000000
         00000004 00000000"
    );
    vector!(layoutcommit::Reply::Done(Some(4)), "00000000 00000001 0000000000000004");
    let range =
        layoutreturn::Range { offset: 1, length: 2, stateid: STATE, body: LayoutBody(b"err") };
    let returned = |returned| layoutreturn::Args {
        reclaim: true,
        kind: LayoutType::FILES,
        mode: IoMode::Any,
        returned,
    };
    vector!(
        returned(layoutreturn::Returned::File(range)),
        "00000001 00000001 00000003 00000001 0000000000000001 0000000000000002 {SID}
         00000003 'err' 00"
    );
    vector!(returned(layoutreturn::Returned::FileSystem), "00000001 00000001 00000003 00000002");
    vector!(returned(layoutreturn::Returned::All), "00000001 00000001 00000003 00000003");
    vector!(layoutreturn::Reply::Done(Some(STATE)), "00000000 00000001 {SID}");
}

#[test]
fn devices() {
    let device = DeviceId(*b"0123456789abcdef");
    let (kind, notifications) = (LayoutType::FLEX_FILES, Bitmap::of(&[1_u32, 2]));
    vector!(
        getdeviceinfo::Args { device, kind, count: 256, notifications },
        "'0123456789abcdef' 00000004 00000100 00000001 00000006"
    );
    let address = DeviceAddress { kind, body: LayoutBody(b"addr") };
    vector!(
        getdeviceinfo::Reply::Done(getdeviceinfo::Done { address, notifications }),
        "00000000 00000004 00000004 'addr' 00000001 00000006"
    );
    vector!(
        getdeviceinfo::Reply::Detailed(getdeviceinfo::TooSmall { count_min: 300 }),
        "00002715 0000012c"
    );
    let (cookie, verifier) = (Cookie(1), CookieVerifier(*b"verifier"));
    vector!(
        getdevicelist::Args { kind, count: 2, cookie, verifier },
        "00000004 00000002 0000000000000001 'verifier'"
    );
    let devices = Array(vec![device]);
    vector!(
        getdevicelist::Reply::Done(getdevicelist::Done { cookie, verifier, devices, end: true }),
        "00000000 0000000000000001 'verifier' 00000001 '0123456789abcdef' 00000001"
    );
    let status = Completion::Failed(Status::NoSuchAddress);
    let error = DeviceError { device, status, operation: Operation::Write.into() };
    vector!(
        layouterror::Args { offset: 1, length: 2, stateid: STATE, errors: Array(vec![error]) },
        "0000000000000001 0000000000000002 {SID} 00000001
         '0123456789abcdef' 00000006 00000026"
    );
    let (reads, writes) =
        (IoStatistics { count: 1, bytes: 2 }, IoStatistics { count: 3, bytes: 4 });
    let update = LayoutUpdate { kind, body: LayoutBody(b"more") };
    vector!(
        layoutstats::Args { offset: 5, length: 6, stateid: STATE, reads, writes, device, update },
        "0000000000000005 0000000000000006 {SID} 0000000000000001 0000000000000002
         0000000000000003 0000000000000004 '0123456789abcdef' 00000004 00000004 'more'"
    );
}

#[test]
fn copies() {
    let requirements = Requirements { consecutive: true, synchronous: false };
    let address = NetworkAddress { network: NetworkText(b"tcp"), address: NetworkText(b"1.2") };
    let sources = Array(vec![
        NetworkLocation::Name(Text(b"host")),
        NetworkLocation::Url(Text(b"nfs:")),
        NetworkLocation::Address(address),
    ]);
    let servers = "00000003 00000001 00000004 'host' 00000002 00000004 'nfs:'
        00000003 00000003 'tcp' 00 00000003 '1.2' 00";
    let (from, to, from_offset, to_offset, count) = (STATE, Stateid::CURRENT, 1, 2, 3);
    let ranges = "00000003 0102030405060708090a0b0c 00000001 000000000000000000000000
        0000000000000001 0000000000000002 0000000000000003";
    vector!(
        copy::Args {
            from,
            to,
            from_offset,
            to_offset,
            count,
            requirements,
            sources: sources.clone(),
        },
        "{ranges} 00000001 00000000 {servers}"
    );
    vector!(clone::Args { from, to, from_offset, to_offset, count }, "{ranges}");
    let response = WriteResponse {
        stateid: Some(STATE),
        count: 9,
        stability: Stability::Unstable,
        verifier: WriteVerifier(*b"verifier"),
    };
    vector!(
        copy::Reply::Done(copy::Done { response, requirements }),
        "00000000 00000001 {SID} 0000000000000009 00000000 'verifier' 00000001 00000000"
    );
    vector!(copy::Reply::Detailed(requirements), "0000276e 00000001 00000000");
    let destination = NetworkLocation::Name(Text(b"host"));
    vector!(copy_notify::Args { stateid: STATE, destination }, "{SID} 00000001 00000004 'host'");
    let term = Time { seconds: 90, nanoseconds: 0 };
    vector!(
        copy_notify::Reply::Done(copy_notify::Done { term, stateid: STATE, sources }),
        "00000000 000000000000005a 00000000 {SID} {servers}"
    );
    let done = offload_status::Done { count: 7, completion: Some(OK) };
    vector!(offload_status::Reply::Done(done), "00000000 0000000000000007 00000001 00000000");
    let copy: offload_cancel::Args = STATE;
    vector!(copy, "{SID}");
}

#[test]
fn ranges() {
    vector!(
        allocate::Args { stateid: STATE, offset: 1, length: 2 },
        "{SID} 0000000000000001 0000000000000002"
    );
    let content = Content::HOLE;
    vector!(seek::Args { stateid: STATE, offset: 1, content }, "{SID} 0000000000000001 00000001");
    let done = seek::Done { end: false, offset: 4096 };
    vector!(seek::Reply::Done(done), "00000000 00000000 0000000000001000");
    let data = read_plus::Data { offset: 1, data: Bytes::from_static(b"data") };
    let hole = read_plus::Hole { offset: 5, length: 6 };
    let segments = Array(vec![read_plus::Segment::Data(data), read_plus::Segment::Hole(hole)]);
    vector!(
        read_plus::Reply::Done(read_plus::Done { end: true, segments }),
        "00000000 00000001 00000002 00000000 0000000000000001 00000004 'data'
         00000001 0000000000000005 0000000000000006"
    );
    let hints = Bitmap::of(&[1_u32, 8]);
    vector!(
        io_advise::Args { stateid: STATE, offset: 1, length: 0, hints },
        "{SID} 0000000000000001 0000000000000000 00000001 00000102"
    );
    vector!(io_advise::Reply::Done(hints), "00000000 00000001 00000102");
    let blocks = write_same::Blocks {
        offset: 1,
        block_bytes: 2,
        count: 3,
        number_offset: 4,
        first_number: 5,
        pattern_offset: 6,
        pattern: write_same::Pattern(b"pat"),
    };
    vector!(
        write_same::Args { stateid: STATE, stability: Stability::FileSync, blocks },
        "{SID} 00000002 0000000000000001 0000000000000002 0000000000000003 0000000000000004
         00000005 0000000000000006 00000003 'pat' 00"
    );
}

#[test]
fn extended_attributes() {
    let name: getxattr::Args<'_> = Name(b"key");
    vector!(name, "00000003 'key' 00");
    vector!(getxattr::Reply::Done(XattrValue(b"value")), "00000000 00000005 'value' 000000");
    vector!(getxattr::Reply::Failed(Status::NoXattr), "0000276f");
    for (how, word) in setxattr::How::ALL.iter().copied().zip(["00000000", "00000001", "00000002"])
    {
        vector!(
            setxattr::Args { how, name: Name(b"key"), value: XattrValue(b"v") },
            "{word} 00000003 'key' 00 00000001 'v' 000000"
        );
    }
    vector!(setxattr::Reply::Done(CHANGE), "00000000 {CINFO}");
    vector!(listxattrs::Args { cookie: Cookie(1), count: 2 }, "0000000000000001 00000002");
    let names = Array(vec![Name(b"a"), Name(b"key")]);
    vector!(
        listxattrs::Reply::Done(listxattrs::Done { cookie: Cookie(3), names, end: true }),
        "00000000 0000000000000003 00000002 00000001 'a' 000000 00000003 'key' 00 00000001"
    );
    vector!(removexattr::Reply::Done(CHANGE), "00000000 {CINFO}");
}

#[test]
fn callbacks() {
    use super::callback::{
        getattr, layoutrecall, notify_deviceid, notify_lock, offload, push_deleg, recall_any,
        wants_cancelled,
    };
    let requested = Bitmap::of(&[Attribute::Change, Attribute::Size]);
    vector!(getattr::Args { file: handle(), requested }, "{FH} 00000001 00000018");
    vector!(getattr::Reply::Done(mode()), "00000000 {MODE_BYTES}");
    let recalled = |recalled| layoutrecall::Args {
        kind: LayoutType::FLEX_FILES,
        mode: IoMode::Any,
        changed: true,
        recalled,
    };
    let range = layoutrecall::Range { file: handle(), offset: 1, length: 2, stateid: STATE };
    vector!(
        recalled(layoutrecall::Recalled::File(range)),
        "00000004 00000003 00000001 00000001 {FH} 0000000000000001 0000000000000002 {SID}"
    );
    let file_system = FileSystemId { major: 1, minor: 2 };
    vector!(
        recalled(layoutrecall::Recalled::FileSystem(file_system)),
        "00000004 00000003 00000001 00000002 0000000000000001 0000000000000002"
    );
    vector!(recalled(layoutrecall::Recalled::All), "00000004 00000003 00000001 00000003");
    vector!(push_deleg::Args { object: handle(), delegation: Delegation::None }, "{FH} 00000000");
    let kinds = Bitmap::of(&[recall_any::READ_DELEGATIONS, recall_any::FLEX_FILE_WRITE_LAYOUTS]);
    vector!(recall_any::Args { keep: 100, kinds }, "00000064 00000001 00020001");
    let slot: callback::recall_slot::Args = SlotId(7);
    vector!(slot, "00000007");
    vector!(wants_cancelled::Args { contended: true, resourced: false }, "00000001 00000000");
    vector!(notify_lock::Args { file: handle(), owner: OWNER }, "{FH} {OWN}");
    let device = DeviceId(*b"0123456789abcdef");
    let kind = LayoutType::FLEX_FILES;
    let deleted = notify_deviceid::Deleted { kind, device };
    vector!(deleted, "00000004 '0123456789abcdef'");
    vector!(
        notify_deviceid::Changed { kind, device, immediate: true },
        "00000004 '0123456789abcdef' 00000001"
    );
    let values = encoded(&deleted);
    let mask = Bitmap::of(&[notify_deviceid::DELETED]);
    let values = notify_deviceid::Values(&values);
    let args: notify_deviceid::Args<'_> =
        Array(vec![notify_deviceid::Notification { mask, values }]);
    vector!(args, "00000001 00000001 00000004 00000014 00000004 '0123456789abcdef'");
    let copied = |result| offload::Args { file: handle(), stateid: STATE, result };
    vector!(
        copied(offload::Copied::Failed(Status::NoSpace, 9)),
        "{FH} {SID} 0000001c 0000000000000009"
    );
    let response = WriteResponse {
        stateid: None,
        count: 9,
        stability: Stability::FileSync,
        verifier: WriteVerifier(*b"verifier"),
    };
    vector!(
        copied(offload::Copied::Done(response)),
        "{FH} {SID} 00000000 00000000 0000000000000009 00000002 'verifier'"
    );
}
