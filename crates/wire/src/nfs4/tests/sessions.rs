use super::*;
use crate::rpc::AuthSys;
use leasehold_base::groups::Groups;

#[test]
fn exchange_id() {
    use super::exchange_id::{Args, Flags, Implementation, ProtectedOperations, Protection};
    let owner =
        ClientOwner { verifier: ClientVerifier(*b"verifier"), id: Identifier(b"Linux NFSv4.2") };
    let implementation = Some(Implementation {
        domain: Text(b"kernel.org"),
        name: Text(b"Linux"),
        built: Time { seconds: 0, nanoseconds: 0 },
    });
    let flags = Flags::REFERRALS.with(Flags::STATE_OF_PRINCIPAL);
    vector!(
        Args { owner, flags, protection: Protection::None, implementation },
        "'verifier' 0000000d 'Linux NFSv4.2' 000000 00000101 00000000
         00000001 0000000a 'kernel.org' 0000 00000005 'Linux' 000000 0000000000000000 00000000"
    );
    let operations = ProtectedOperations {
        enforced: Bitmap::of(&[Operation::BindConnection, Operation::CreateSession]),
        allowed: Bitmap::EMPTY,
    };
    let protection = Protection::MachineCredential(operations);
    vector!(
        Args { owner, flags: Flags::UPDATE, protection, implementation: None },
        "'verifier' 0000000d 'Linux NFSv4.2' 000000 40000000
         00000001 00000002 00000000 00000a00 00000000 00000000"
    );
    let secret = exchange_id::SecretParameters {
        operations,
        hashes: Array(vec![Oid(b"sha")]),
        ciphers: Array(vec![Oid(b"aes1"), Oid(b"aes2")]),
        window: 5,
        handles: 6,
    };
    vector!(
        Protection::Secret(secret),
        "00000002 00000002 00000000 00000a00 00000000
         00000001 00000003 'sha' 00 00000002 00000004 'aes1' 00000004 'aes2' 00000005 00000006"
    );
    assert_eq!(Flags(0x8000_0201).unnamed(), 0x200);
}

#[test]
fn exchange_id_reply() {
    use super::exchange_id::{Done, Flags, GrantedProtection, Reply, SecretInfo};
    let done = Done {
        client: ClientId(0x0102_0304_0506_0708),
        sequence: SequenceId(1),
        flags: Flags::REFERRALS.with(Flags::NON_PNFS).with(Flags::CONFIRMED),
        protection: GrantedProtection::None,
        owner: ServerOwner { minor: 9, major: Identifier(b"server") },
        scope: Identifier(b"scope"),
        implementation: None,
    };
    vector!(
        Reply::Done(done),
        "00000000 0102030405060708 00000001 80010001 00000000
         0000000000000009 00000006 'server' 0000 00000005 'scope' 000000 00000000"
    );
    vector!(Reply::Failed(Status::ClientIdInUse), "00002721");
    let operations =
        exchange_id::ProtectedOperations { enforced: Bitmap::EMPTY, allowed: Bitmap::EMPTY };
    let info = SecretInfo {
        operations,
        hash: 1,
        cipher: 2,
        secret_bytes: 32,
        window: 4,
        handles: Array(vec![GssHandle(b"h")]),
    };
    vector!(
        GrantedProtection::Secret(info),
        "00000002 00000000 00000000 00000001 00000002 00000020 00000004
         00000001 00000001 'h' 000000"
    );
}

/// The limits that a Linux client requests for its calls.
const FORE: ChannelAttributes = ChannelAttributes {
    header_padding_bytes: 0,
    request_bytes_max: 1_049_620,
    reply_bytes_max: 1_049_480,
    cached_reply_bytes_max: 7584,
    operations_max: 8,
    slots: 64,
    rdma_reads: None,
};

/// The limits that a Linux client requests for callbacks.
const BACK: ChannelAttributes = ChannelAttributes {
    header_padding_bytes: 0,
    request_bytes_max: 4096,
    reply_bytes_max: 4096,
    cached_reply_bytes_max: 0,
    operations_max: 2,
    slots: 16,
    rdma_reads: Some(3),
};

/// The bytes of [`FORE`] and [`BACK`].
const CHANNELS: &str = "00000000 00100414 00100388 00001da0 00000008 00000040 00000000
    00000000 00001000 00001000 00000000 00000002 00000010 00000001 00000003";

#[test]
fn create_session() {
    use super::create_session::{Args, Done, Flags, Reply};
    let sys = CallbackSecurity::Sys(AuthSys {
        stamp: 1,
        machine_name: b"host",
        uid: 2,
        gid: 3,
        groups: Groups::new(&[4]).expect("few"),
    });
    vector!(
        Args {
            client: ClientId(5),
            sequence: SequenceId(6),
            flags: Flags::PERSISTENT.with(Flags::BACK_CHANNEL),
            fore: FORE,
            back: BACK,
            callback_program: callback::PROGRAM,
            callback_security: Array(vec![sys, CallbackSecurity::None]),
        },
        "0000000000000005 00000006 00000003 {CHANNELS} 40000000
         00000002 00000001 00000001 00000004 'host' 00000002 00000003 00000001 00000004 00000000"
    );
    let (session, sequence, flags) = (SESSION, SequenceId(6), Flags::BACK_CHANNEL);
    vector!(
        Reply::Done(Done { session, sequence, flags, fore: FORE, back: BACK }),
        "00000000 {SESS} 00000006 00000002 {CHANNELS}"
    );
    vector!(Reply::Failed(Status::StaleClientId), "00002726");
}

#[test]
fn sequence() {
    use super::sequence::{Args, Done, Reply, StatusFlags};
    let args = Args {
        session: SESSION,
        sequence: SequenceId(1),
        slot: SlotId(2),
        highest_slot: SlotId(3),
        cache: true,
    };
    vector!(args, "{SESS} 00000001 00000002 00000003 00000001");
    let done = Done {
        session: SESSION,
        sequence: SequenceId(1),
        slot: SlotId(2),
        highest_slot: SlotId(63),
        target_highest_slot: SlotId(31),
        status: StatusFlags::CALLBACK_PATH_DOWN.with(StatusFlags::RECLAIM_NEEDED),
    };
    vector!(Reply::Done(done), "00000000 {SESS} 00000001 00000002 0000003f 0000001f 00000101");
    vector!(Reply::Failed(Status::BadSession), "00002744");
}

#[test]
fn small_operations_of_sessions() {
    let gss = CallbackSecurity::Gss(GssHandles {
        service: GssService::Integrity,
        of_server: GssHandle(b"server"),
        of_client: GssHandle(b"cl"),
    });
    vector!(
        backchannel_ctl::Args { program: 7, security: Array(vec![gss]) },
        "00000007 00000001 00000006 00000002 00000006 'server' 0000 00000002 'cl' 0000"
    );
    {
        use super::bind_conn_to_session::{Args, Bound, Done, Reply, Requested};
        let (session, rdma) = (SESSION, false);
        vector!(
            Args { session, direction: Requested::BackOrBoth, rdma },
            "{SESS} 00000007 00000000"
        );
        let done = Done { session, direction: Bound::Both, rdma };
        vector!(Reply::Done(done), "00000000 {SESS} 00000003 00000000");
    }
    let session: destroy_session::Args = SESSION;
    vector!(session, "{SESS}");
    let client: destroy_clientid::Args = ClientId(1);
    vector!(client, "0000000000000001");
    vector!(reclaim_complete::Args { one_file_system: true }, "00000001");
    vector!(
        set_ssv::Args { ssv: Identifier(b"ssv"), digest: Identifier(b"digest") },
        "00000003 'ssv' 00 00000006 'digest' 0000"
    );
    vector!(set_ssv::Reply::Done(Identifier(b"d")), "00000000 00000001 'd' 000000");
    vector!(destroy_clientid::Reply::Failed(Status::ClientIdBusy), "0000275a");
}

#[test]
fn state_ids_with_a_meaning_of_their_own() {
    let zeros = "000000000000000000000000";
    let ones = "ffffffffffffffffffffffff";
    vector!(Stateid::ANONYMOUS, "00000000 {zeros}");
    vector!(Stateid::READ_BYPASS, "ffffffff {ones}");
    vector!(Stateid::CURRENT, "00000001 {zeros}");
    vector!(Stateid::INVALID, "ffffffff {zeros}");
    vector!(STATE, "{SID}");
    let special = |sequence, byte| {
        let sequence = StateSequence(sequence);
        Stateid { sequence, other: StateOther([byte; 12]) }.special()
    };
    assert_eq!(special(0, 0), Some(SpecialStateid::Anonymous));
    assert_eq!(special(u32::MAX, 255), Some(SpecialStateid::ReadBypass));
    assert_eq!(special(1, 0), Some(SpecialStateid::Current));
    assert_eq!(special(u32::MAX, 0), Some(SpecialStateid::Invalid));
    assert_eq!(special(2, 0), Some(SpecialStateid::Reserved));
    assert_eq!(special(0, 255), Some(SpecialStateid::Reserved));
    assert_eq!(STATE.special(), None);
}
