use super::open::{
    Args, Claim, CreateHow, DelegatedName, Done, ExclusiveAttributes, How, Reply, ResultFlags,
    ShareAccess, ShareDeny, Want,
};
use super::*;

fn opening<'a>(how: How<'a>, claim: Claim<'a>) -> Args<'a> {
    let access = ShareAccess::BOTH.wanting(Want::None);
    let (sequence, deny) = (OwnerSequence(0), ShareDeny::WRITE);
    Args { sequence, access, deny, owner: OWNER, how, claim }
}

/// The bytes of [`opening`] before the claim, with nothing to make.
const OPENING: &str = "00000000 00000403 00000002 0000000100000002 00000005 'owner' 000000";

#[test]
fn open_with_each_claim() {
    let existing = |claim| opening(How::Existing, claim);
    vector!(existing(Claim::Name(Name(b"foo"))), "{OPENING} 00000000 00000000 00000003 'foo' 00");
    vector!(
        existing(Claim::Previous(DelegationKind::Write)),
        "{OPENING} 00000000 00000001 00000002"
    );
    let delegated = DelegatedName { stateid: STATE, name: Name(b"foo") };
    vector!(
        existing(Claim::DelegatedName(delegated)),
        "{OPENING} 00000000 00000002 {SID} 00000003 'foo' 00"
    );
    vector!(
        existing(Claim::PreviouslyDelegatedName(Name(b"foo"))),
        "{OPENING} 00000000 00000003 00000003 'foo' 00"
    );
    vector!(existing(Claim::Current), "{OPENING} 00000000 00000004");
    vector!(existing(Claim::DelegatedCurrent(STATE)), "{OPENING} 00000000 00000005 {SID}");
    vector!(existing(Claim::PreviouslyDelegatedCurrent), "{OPENING} 00000000 00000006");
}

#[test]
fn open_with_each_mode_of_creation() {
    let creating = |how| opening(How::Create(how), Claim::Name(Name(b"x")));
    let claim = "00000000 00000001 'x' 000000";
    vector!(
        creating(CreateHow::Unchecked(mode())),
        "{OPENING} 00000001 00000000 {MODE_BYTES} {claim}"
    );
    vector!(
        creating(CreateHow::Guarded(mode())),
        "{OPENING} 00000001 00000001 {MODE_BYTES} {claim}"
    );
    let verifier = CreateVerifier(*b"verifier");
    vector!(
        creating(CreateHow::Exclusive(verifier)),
        "{OPENING} 00000001 00000002 'verifier' {claim}"
    );
    let both = ExclusiveAttributes { verifier, attributes: mode() };
    vector!(
        creating(CreateHow::ExclusiveAttributes(both)),
        "{OPENING} 00000001 00000003 'verifier' {MODE_BYTES} {claim}"
    );
}

#[test]
fn share_access_contains_a_wish() {
    let access = ShareAccess(0x0033_0503);
    assert!(access.has(ShareAccess::BOTH) && access.has(ShareAccess::WANT_ONLY_DELEGATION));
    assert_eq!((access.want(), access.unknown()), (Some(Want::Cancel), 0));
    assert_eq!(access.wanting(Want::Read), ShareAccess(0x0033_0103));
    assert_eq!(ShareAccess(0x600).want(), None);
    assert_eq!(ShareAccess(0x8004_0601).unknown(), 0x8004_0000);
    assert_eq!(ShareAccess::READ.want(), Some(Want::NoPreference));
    assert_eq!(ShareDeny(7).unnamed(), 4);
}

fn opened(delegation: Delegation<'_>) -> Reply<'_> {
    Reply::Done(Done {
        stateid: STATE,
        directory: CHANGE,
        flags: ResultFlags::POSIX_LOCKS.with(ResultFlags::MAY_NOTIFY_LOCK),
        set: Bitmap::of(&[Attribute::Mode]),
        delegation,
    })
}

/// The bytes of [`opened`] before the delegation.
const OPENED: &str = "00000000 00000003 0102030405060708090a0b0c
    00000001 0000000000000007 0000000100000008 00000024 00000002 00000000 00000002";

#[test]
fn open_returns_each_kind_of_delegation() {
    let permissions = Ace {
        kind: AceType::ALLOW,
        flags: AceFlags(0),
        mask: AceMask::READ_DATA,
        principal: OwnerName(b"EVERYONE@"),
    };
    let ace = "00000000 00000000 00000001 00000009 'EVERYONE@' 000000";
    vector!(opened(Delegation::None), "{OPENED} 00000000");
    let read = ReadDelegation { stateid: STATE, recalled: true, permissions };
    vector!(opened(Delegation::Read(read)), "{OPENED} 00000001 {SID} 00000001 {ace}");
    let limit = SpaceLimit::Size(u64::MAX);
    let write = WriteDelegation { stateid: STATE, recalled: false, limit, permissions };
    vector!(
        opened(Delegation::Write(write)),
        "{OPENED} 00000002 {SID} 00000000 00000001 ffffffffffffffff {ace}"
    );
    let limit = SpaceLimit::Blocks(WrittenBlocks { count: 8, bytes: 4096 });
    vector!(
        opened(Delegation::WriteTimes(WriteDelegation { limit, ..write })),
        "{OPENED} 00000005 {SID} 00000000 00000002 00000008 00001000 {ace}"
    );
    vector!(opened(Delegation::ReadTimes(read)), "{OPENED} 00000004 {SID} 00000001 {ace}");
    let because = |why| opened(Delegation::NoneBecause(why));
    vector!(because(WhyNone::NotWanted), "{OPENED} 00000003 00000000");
    vector!(because(WhyNone::Contention(true)), "{OPENED} 00000003 00000001 00000001");
    vector!(because(WhyNone::Resource(false)), "{OPENED} 00000003 00000002 00000000");
    vector!(because(WhyNone::IsDirectory), "{OPENED} 00000003 00000008");
    vector!(Reply::Failed(Status::ShareDenied), "0000271f");
}

#[test]
fn close_and_open_downgrade() {
    let sequence = OwnerSequence(1);
    vector!(close::Args { sequence, stateid: STATE }, "00000001 {SID}");
    vector!(close::Reply::Done(Stateid::INVALID), "00000000 ffffffff 000000000000000000000000");
    let (access, deny) = (ShareAccess::READ, ShareDeny::NONE);
    vector!(
        open_downgrade::Args { stateid: STATE, sequence, access, deny },
        "{SID} 00000001 00000001 00000000"
    );
    vector!(open_downgrade::Reply::Done(STATE), "00000000 {SID}");
}

#[test]
fn lock_and_its_denial() {
    use super::lock::{Args, KnownOwner, Locker, NewOwner, Reply};
    let (open_sequence, lock_sequence) = (OwnerSequence(1), OwnerSequence(2));
    let new = NewOwner { open_sequence, open: STATE, lock_sequence, owner: OWNER };
    let (kind, offset, length) = (LockKind::WriteWaiting, 0x1_0000_0000, u64::MAX);
    vector!(
        Args { kind, reclaim: false, offset, length, locker: Locker::New(new) },
        "00000004 00000000 0000000100000000 ffffffffffffffff
         00000001 00000001 {SID} 00000002 {OWN}"
    );
    let locker = Locker::Known(KnownOwner { stateid: STATE, sequence: OwnerSequence(3) });
    vector!(
        Args { kind: LockKind::Read, reclaim: true, offset, length: 1, locker },
        "00000001 00000001 0000000100000000 0000000000000001 00000000 {SID} 00000003"
    );
    vector!(Reply::Done(STATE), "00000000 {SID}");
    let denied = Denied { offset, length, kind: LockKind::Write, owner: OWNER };
    let denial = "0000271a 0000000100000000 ffffffffffffffff 00000002";
    vector!(Reply::Detailed(denied), "{denial} {OWN}");
    vector!(Reply::Failed(Status::Deadlock), "0000273d");
    assert_eq!(Reply::Detailed(denied).done(), Err(Status::Denied));
    vector!(
        lockt::Args { kind, offset, length, owner: OWNER },
        "00000004 0000000100000000 ffffffffffffffff {OWN}"
    );
    vector!(lockt::Reply::Done(()), "00000000");
    vector!(lockt::Reply::Detailed(denied), "{denial} {OWN}");
    let sequence = OwnerSequence(5);
    vector!(
        locku::Args { kind: LockKind::Write, sequence, stateid: STATE, offset: 6, length: 7 },
        "00000002 00000005 {SID} 0000000000000006 0000000000000007"
    );
    vector!(locku::Reply::Failed(Status::BadRange), "0000273a");
}

#[test]
fn delegations() {
    let client: delegpurge::Args = ClientId(3);
    vector!(client, "0000000000000003");
    let delegation: delegreturn::Args = STATE;
    vector!(delegation, "{SID}");
    let want = ShareAccess(0).wanting(Want::Any);
    let wish = |claim| want_delegation::Args { want, claim };
    vector!(
        wish(want_delegation::Claim::Previous(DelegationKind::Read)),
        "00000300 00000001 00000001"
    );
    vector!(wish(want_delegation::Claim::Current), "00000300 00000004");
    vector!(wish(want_delegation::Claim::PreviouslyDelegated), "00000300 00000006");
    vector!(want_delegation::Reply::Done(Delegation::None), "00000000 00000000");
    let delay = Time { seconds: 1, nanoseconds: 2 };
    vector!(
        get_dir_delegation::Args {
            signal: true,
            notifications: Bitmap::of(&[3_u32]),
            child_delay: delay,
            directory_delay: delay,
            child_attributes: Bitmap::EMPTY,
            directory_attributes: Bitmap::of(&[Attribute::Change]),
        },
        "00000001 00000001 00000008 0000000000000001 00000002 0000000000000001 00000002
         00000000 00000001 00000008"
    );
    let granted = get_dir_delegation::Done::Granted(get_dir_delegation::Granted {
        verifier: CookieVerifier(*b"verifier"),
        stateid: STATE,
        notifications: Bitmap::EMPTY,
        child_attributes: Bitmap::EMPTY,
        directory_attributes: Bitmap::EMPTY,
    });
    vector!(
        get_dir_delegation::Reply::Done(granted),
        "00000000 00000000 'verifier' {SID} 00000000 00000000 00000000"
    );
    let none = get_dir_delegation::Done::Unavailable(false);
    vector!(get_dir_delegation::Reply::Done(none), "00000000 00000001 00000000");
}

#[test]
fn tests_and_frees_of_state_ids() {
    let args: test_stateid::Args = Array(vec![STATE, Stateid::ANONYMOUS]);
    vector!(args, "00000002 {SID} 00000000 000000000000000000000000");
    let statuses = Array(vec![OK, Completion::Failed(Status::BadStateid)]);
    vector!(test_stateid::Reply::Done(statuses), "00000000 00000002 00000000 00002729");
    vector!(free_stateid::Reply::Failed(Status::LocksHeld), "00002735");
}

#[test]
fn the_largest_results_are_as_large_as_stated() {
    use super::compound::Results;
    let bitmap = Bitmap::of(&[Bitmap::BITS - 1]);
    let delegation = Delegation::Write(WriteDelegation {
        stateid: STATE,
        recalled: false,
        limit: SpaceLimit::Size(0),
        permissions: Ace {
            kind: AceType::DENY,
            flags: AceFlags(0),
            mask: AceMask(0),
            principal: OwnerName(&[b'x'; 511]),
        },
    });
    let (flags, directory) = (ResultFlags(0), CHANGE);
    let opened = Done { stateid: STATE, directory, flags, set: bitmap, delegation };
    let owner = StateOwner { client: ClientId(1), owner: Identifier(&[b'x'; 1024]) };
    let denied = Denied { offset: 0, length: 1, kind: LockKind::Read, owner };
    let handle = Handle::new(&[7; 128]).expect("the longest handle");
    let done = create::Done { directory, set: bitmap };
    for results in [
        Results::Open(Reply::Done(opened)),
        Results::Lock(lock::Reply::Detailed(denied)),
        Results::GetHandle(getfh::Reply::Done(handle)),
        Results::Create(create::Reply::Done(done)),
        Results::WantDelegation(want_delegation::Reply::Done(delegation)),
    ] {
        let operation = results.number().operation().expect("a known operation");
        let most = operation.result_bytes_max().expect("a limit");
        assert_eq!(encoded(&results).len(), most as usize, "{operation:?}");
    }
}
