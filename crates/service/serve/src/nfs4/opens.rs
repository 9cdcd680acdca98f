//! Operations on opens and state ids: OPEN, CLOSE, OPEN_DOWNGRADE, FREE_STATEID and TEST_STATEID,
//! and the check of the state ids of READ, WRITE and SETATTR.

use leasehold_base::xdr::{Encode, Writer};
use leasehold_core::opens::{Claim, Modes, Object, Open, Refusal, Share, StateId};
use leasehold_core::owners::{Client, Grace, Name};
use leasehold_core::sessions::{ClientId, Error};
use leasehold_fs::{
    self as fs, Access as Rights, FileType, Found, FsError, NewFile, ObjectId, SetAttributes, ops,
};
use leasehold_wire::nfs4::{
    self as wire, Bitmap, ChangeInfo, Delegation, SpecialStateid, StateOther, StateSequence,
    Stateid, Status, WhyNone, close as wire_close, free_stateid, open as wire_open, open_downgrade,
    test_stateid,
};

use super::attribute_ops;
use super::attributes;
use super::compound::{Compound, Place};
use super::convert;
use super::handles::name;
use crate::context::Target;

/// The number of attempts to create or find a name that other clients remove and create at the same
/// time.
const ATTEMPTS: usize = 4;

/// The access of an operation to the data of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

impl Access {
    const fn modes(self) -> Modes {
        match self {
            Self::Read => Modes::READ,
            Self::Write => Modes::WRITE,
        }
    }
}

/// Returns the number of a client for opens and locks.
pub(super) const fn client(id: ClientId) -> Client {
    Client(id.0)
}

/// Returns the status of a refusal.
pub(super) const fn refused(refusal: Refusal) -> Status {
    match refusal {
        Refusal::AdminRevoked => Status::AdminRevoked,
        // RFC 8881 15.1.16.5: in minor version 1, a stale state id is a bad state id.
        Refusal::BadStateId | Refusal::StaleStateId => Status::BadStateid,
        Refusal::Expired => Status::Expired,
        Refusal::Full => Status::Delay,
        Refusal::Grace => Status::Grace,
        Refusal::Invalid => Status::Invalid,
        Refusal::Locked => Status::Locked,
        Refusal::LocksHeld => Status::LocksHeld,
        Refusal::NoGrace => Status::NoGrace,
        Refusal::OldStateId => Status::OldStateid,
        Refusal::OpenMode => Status::OpenMode,
        Refusal::ReclaimBad => Status::ReclaimBad,
        Refusal::ReclaimConflict => Status::ReclaimConflict,
        Refusal::ShareDenied => Status::ShareDenied,
    }
}

/// Returns the key of a file.
pub(super) const fn object_of(attributes: &fs::Attributes) -> Object {
    Object { file_system: attributes.file_system, file: attributes.file_id }
}

const fn shown(id: StateId) -> Stateid {
    Stateid { sequence: StateSequence(id.sequence), other: StateOther(id.other) }
}

impl Compound {
    /// Returns a state id of an operation, or the current state id in its place.
    ///
    /// # Errors
    /// [`Status::BadStateid`] without a current state id.
    pub(super) fn stateid(&self, id: Stateid) -> Result<StateId, Status> {
        let id = match id.special() {
            Some(SpecialStateid::Current) => {
                let current = self.current.and_then(|cursor| cursor.stateid);
                current.ok_or(Status::BadStateid)?
            }
            _ => id,
        };
        Ok(StateId { sequence: id.sequence.0, other: id.other.0 })
    }

    /// Sets the current state id, and returns it.
    pub(super) fn set_stateid(&mut self, id: StateId) -> Stateid {
        let id = shown(id);
        if let Some(cursor) = &mut self.current {
            cursor.stateid = Some(id);
        }
        id
    }

    /// Returns the relation of the client to the grace period.
    pub(super) fn grace(&self) -> Result<Grace, Status> {
        let client = self.client()?;
        self.nfs4.grace(client)
    }

    /// Returns the key of a file that the client has open, or of any file by its attributes.
    pub(super) async fn file(&self, target: &Target<'_>) -> Result<Object, Status> {
        let state = &self.nfs4.state;
        let export = target.request.export;
        let id = export.store.identity(&target.object);
        match state.file(export.id, &id) {
            Some(object) => Ok(object),
            None => {
                let found = ops::getattr(&target.request, &target.object).await;
                found.map(|found| object_of(&found)).map_err(convert::status)
            }
        }
    }
}

/// Checks that a state id permits an access to the data of a file.
pub(super) async fn may_use(
    compound: &Compound,
    target: &Target<'_>,
    stateid: Stateid,
    access: Access,
) -> Result<(), Status> {
    let id = compound.stateid(stateid)?;
    let owner = client(compound.client()?);
    let nfs4 = &compound.nfs4;
    let is_grace = nfs4.is_grace();
    if id.special().is_some() && !is_grace && nfs4.state.is_idle() {
        return match stateid.special() {
            Some(SpecialStateid::Anonymous | SpecialStateid::ReadBypass) => Ok(()),
            _ => Err(Status::BadStateid),
        };
    }
    let object = compound.file(target).await?;
    nfs4.on_file(compound.now(), object, |shard, effects, _| {
        shard.opens.check_io(owner, object, (id, access.modes()), is_grace, effects)
    })
    .map(drop)
    .map_err(refused)
}

/// A file that OPEN found or created.
struct Reached {
    found: Found,
    directory: ChangeInfo,
    /// True if the call created the file, so that the caller may access it in any way.
    is_new: bool,
    /// The attributes that the creation has set.
    set: Bitmap,
    /// True if OPEN must set the size of the file to zero.
    truncates: bool,
}

pub(super) async fn open(
    compound: &mut Compound,
    args: wire_open::Args<'_>,
) -> Result<wire_open::Done<'static>, Status> {
    let share = share(args.access, args.deny)?;
    if args.access.want().is_none() || args.access.unknown() != 0 {
        return Err(Status::Invalid);
    }
    let owner = Name::new(args.owner.owner.0).ok_or(Status::BadXdr)?;
    let grace = compound.grace()?;
    let claim = claim(&args.claim)?;
    claim.admit(grace).map_err(refused)?;
    let (export, at) = compound.object(Status::IsDirectory)?;
    let target = compound.target_of((export, at)).await?;
    let reached = match args.claim {
        wire_open::Claim::Name(text) => {
            let name = name(text.0)?;
            reach(compound, &target, name.as_bytes(), &args.how, share).await?
        }
        wire_open::Claim::Previous(_)
        | wire_open::Claim::DelegatedName(_)
        | wire_open::Claim::PreviouslyDelegatedName(_)
        | wire_open::Claim::Current
        | wire_open::Claim::DelegatedCurrent(_)
        | wire_open::Claim::PreviouslyDelegatedCurrent => {
            if !matches!(args.how, wire_open::How::Existing) {
                return Err(Status::Invalid);
            }
            existing(&target).await?
        }
    };
    let found = reached.found;
    is_file(&found.attributes)?;
    if !reached.is_new {
        may_open(&target, &found.object, share.access).await?;
    }
    let object = object_of(&found.attributes);
    let owner_client = client(compound.client()?);
    let request = Open { object, client: owner_client, owner, share, claim, grace };
    let nfs4 = &compound.nfs4;
    let opened = nfs4
        .on_file(compound.now(), object, |shard, effects, _| shard.opens.open(&request, effects))
        .map_err(refused)?;
    nfs4.state.know(export, target.request.export.store.identity(&found.object), object);
    if reached.truncates
        && let Err(status) = truncate(compound, &target, &found.object).await
    {
        if opened.is_new {
            let _ = nfs4.on_file(compound.now(), object, |shard, effects, _| {
                shard.opens.close(owner_client, object, opened.id, effects)
            });
        }
        return Err(status);
    }
    if opened.is_new {
        nfs4.has_state(compound.now(), compound.client()?, true);
    }
    keep(compound, &target, (&found.object, object)).await;
    let flags =
        wire_open::ResultFlags::POSIX_LOCKS.0 | notifies(compound, &target, &found.object)?.0;
    compound.go_to(Place::Object(export, found.object));
    let stateid = compound.set_stateid(opened.id);
    Ok(wire_open::Done {
        stateid,
        directory: reached.directory,
        flags: wire_open::ResultFlags(flags),
        set: reached.set,
        delegation: delegation(args.access),
    })
}

/// Makes the store keep an open file until its last close, also after another client removes its
/// last name. A restart ends this, so the reply has no `OPEN4_RESULT_PRESERVE_UNLINKED` (RFC 8881
/// 18.16.3): the client renames a file that it removes while it has the file open.
async fn keep(compound: &Compound, target: &Target<'_>, (id, object): (&ObjectId, Object)) {
    let export = target.request.export;
    let key = (export.id, export.store.identity(id));
    let state = &compound.nfs4.state;
    if state.is_kept(&key) {
        return;
    }
    // A store that keeps too many files, or cannot keep files, loses the file with its last name.
    if let Ok(held) = export.store.hold(id).await {
        state.keep(key, object, held);
    }
}

/// Returns the flag of the reply for CB_NOTIFY_LOCK. The client then polls rarely, so the flag is
/// set only if the client has a backchannel, and if the handle in the callback is the handle that
/// the client knows.
fn notifies(
    compound: &Compound,
    target: &Target<'_>,
    id: &ObjectId,
) -> Result<wire_open::ResultFlags, Status> {
    let is_known = target.request.export.store.identity(id) == *id;
    Ok(if is_known && compound.nfs4.has_callback_path(compound.client()?) {
        wire_open::ResultFlags::MAY_NOTIFY_LOCK
    } else {
        wire_open::ResultFlags(0)
    })
}

/// Returns the share reservation of a call.
fn share(access: wire_open::ShareAccess, deny: wire_open::ShareDeny) -> Result<Share, Status> {
    let access = Modes::from_bits(access.0 & 3).filter(|access| !access.is_empty());
    let deny = Modes::from_bits(deny.0);
    let (Some(access), Some(deny)) = (access, deny) else { return Err(Status::Invalid) };
    Ok(Share { access, deny })
}

/// Returns the kind of a claim.
fn claim(claim: &wire_open::Claim<'_>) -> Result<Claim, Status> {
    match claim {
        wire_open::Claim::Name(_) | wire_open::Claim::Current => Ok(Claim::New),
        wire_open::Claim::Previous(_) => Ok(Claim::Previous),
        // The server has granted no delegations.
        wire_open::Claim::DelegatedName(_) | wire_open::Claim::DelegatedCurrent(_) => {
            Err(Status::BadStateid)
        }
        wire_open::Claim::PreviouslyDelegatedName(_)
        | wire_open::Claim::PreviouslyDelegatedCurrent => Err(Status::NotSupported),
    }
}

/// Sets the size of a file to zero.
async fn truncate(
    compound: &Compound,
    target: &Target<'_>,
    object: &ObjectId,
) -> Result<(), Status> {
    let empty = SetAttributes { size: Some(0), ..SetAttributes::default() };
    let changed = ops::setattr(&target.request, object, &empty, None).await;
    compound.noted(&changed);
    changed.result.map_err(convert::status)
}

/// Returns the delegation of an open: none, with a reason if the client wished one.
fn delegation(access: wire_open::ShareAccess) -> Delegation<'static> {
    match access.want() {
        Some(wire_open::Want::NoPreference) | None => Delegation::None,
        Some(wire_open::Want::None) => Delegation::NoneBecause(WhyNone::NotWanted),
        Some(wire_open::Want::Cancel) => Delegation::NoneBecause(WhyNone::Cancelled),
        Some(_) => Delegation::NoneBecause(WhyNone::Resource(false)),
    }
}

fn is_file(attributes: &fs::Attributes) -> Result<(), Status> {
    let file_type = attributes.file_type;
    if file_type == FileType::Regular { Ok(()) } else { Err(attribute_ops::not_a_file(file_type)) }
}

/// Returns the current file as it is.
async fn existing(target: &Target<'_>) -> Result<Reached, Status> {
    let attributes = ops::getattr(&target.request, &target.object).await;
    let attributes = attributes.map_err(convert::status)?;
    let found = Found { object: target.object, attributes, directory: None };
    Ok(Reached {
        found,
        directory: ChangeInfo::default(),
        is_new: false,
        set: Bitmap::EMPTY,
        truncates: false,
    })
}

/// Finds or creates the file of a name.
async fn reach(
    compound: &Compound,
    target: &Target<'_>,
    name: &[u8],
    how: &wire_open::How<'_>,
    share: Share,
) -> Result<Reached, Status> {
    let how = match how {
        wire_open::How::Existing => {
            let found = ops::lookup(&target.request, &target.object, name).await;
            return found
                .map(|found| seen(compound, found))
                .map_err(|failed| convert::status(failed.error));
        }
        wire_open::How::Create(how) => how,
    };
    let settable = attributes::settable(compound.minor);
    let decoded = |encoded| -> Result<SetAttributes, Status> {
        convert::set_attributes(&attribute_ops::decode(compound, encoded, &settable)?)
    };
    match how {
        wire_open::CreateHow::Unchecked(encoded) => {
            unchecked(compound, target, name, (decoded(encoded)?, encoded.mask), share).await
        }
        wire_open::CreateHow::Guarded(encoded) => {
            let new = NewFile::Guarded(decoded(encoded)?);
            create(compound, target, name, &new, encoded.mask).await.map_err(convert::status)
        }
        wire_open::CreateHow::Exclusive(verifier) => {
            let new = NewFile::exclusive(verifier.0);
            create(compound, target, name, &new, Bitmap::EMPTY).await.map_err(convert::status)
        }
        wire_open::CreateHow::ExclusiveAttributes(both) => {
            let settable = attributes::settable_exclusive();
            let wanted = attribute_ops::decode(compound, &both.attributes, &settable)?;
            let attributes = convert::set_attributes(&wanted)?;
            let new = NewFile::Exclusive { verifier: both.verifier.0, attributes };
            create(compound, target, name, &new, both.attributes.mask)
                .await
                .map_err(convert::status)
        }
    }
}

/// UNCHECKED4: opens an existing file, and applies only a size of zero to it.
async fn unchecked(
    compound: &Compound,
    target: &Target<'_>,
    name: &[u8],
    (wanted, mask): (SetAttributes, Bitmap),
    share: Share,
) -> Result<Reached, Status> {
    for _ in 0..ATTEMPTS {
        match ops::lookup(&target.request, &target.object, name).await {
            Ok(found) => {
                let truncates = wanted.size == Some(0) && found.attributes.size > 0;
                if wanted.size == Some(0) && !share.access.write {
                    return Err(Status::Invalid);
                }
                let set = match wanted.size {
                    Some(0) => Bitmap::of(&[wire::Attribute::Size]),
                    _ => Bitmap::EMPTY,
                };
                return Ok(Reached { truncates, set, ..seen(compound, found) });
            }
            Err(failed) if failed.error == FsError::NotFound => {}
            Err(failed) => return Err(convert::status(failed.error)),
        }
        match create(compound, target, name, &NewFile::Guarded(wanted), mask).await {
            Err(FsError::AlreadyExists) => {}
            result => return result.map_err(convert::status),
        }
    }
    Err(Status::Delay)
}

/// Returns a file that existed before. The directory is as it was.
fn seen(compound: &Compound, found: Found) -> Reached {
    let change = found.directory.as_ref().map(|directory| compound.change(directory));
    let directory = match change {
        Some(change) => ChangeInfo { atomic: true, before: change, after: change },
        None => ChangeInfo::default(),
    };
    Reached { found, directory, is_new: false, set: Bitmap::EMPTY, truncates: false }
}

async fn create(
    compound: &Compound,
    target: &Target<'_>,
    name: &[u8],
    new: &NewFile,
    set: Bitmap,
) -> Result<Reached, FsError> {
    let made = ops::create(&target.request, &target.object, name, new).await;
    let directory = compound.noted(&made);
    let found = made.result?;
    compound.changed_file(&found.attributes);
    Ok(Reached { found, directory, is_new: true, set, truncates: false })
}

/// Checks the permission of the caller for an open of an existing file.
async fn may_open(target: &Target<'_>, object: &ObjectId, access: Modes) -> Result<(), Status> {
    let wanted = Rights {
        read: access.read,
        modify: access.write,
        // A program that a user may run can also be read (RFC 8881 18.22.3).
        execute: access.read,
        ..Rights::default()
    };
    let granted = ops::access(&target.request, object, wanted).await;
    let (granted, _) = granted.map_err(|failed| convert::status(failed.error))?;
    if access.read && !granted.read && !granted.execute {
        return Err(Status::Access);
    }
    if access.write && !granted.modify {
        return Err(if target.request.read_only { Status::ReadOnly } else { Status::Access });
    }
    Ok(())
}

pub(super) async fn close(
    compound: &mut Compound,
    args: wire_close::Args,
) -> Result<Stateid, Status> {
    let target = compound.target(Status::BadStateid).await?;
    let id = compound.stateid(args.stateid)?;
    let object = compound.file(&target).await?;
    let (now, number) = (compound.now(), compound.client()?);
    let nfs4 = &compound.nfs4;
    let closed = nfs4
        .on_file(now, object, |shard, effects, _| {
            shard.opens.close(client(number), object, id, effects)
        })
        .map_err(refused)?;
    if nfs4.state.states(client(number)) == 0 {
        nfs4.has_state(now, number, false);
        // An OPEN of the client may have reported its state in between.
        if nfs4.state.states(client(number)) > 0 {
            nfs4.has_state(now, number, true);
        }
    }
    Ok(compound.set_stateid(closed))
}

pub(super) async fn downgrade(
    compound: &mut Compound,
    args: open_downgrade::Args,
) -> Result<Stateid, Status> {
    let target = compound.target(Status::BadStateid).await?;
    let id = compound.stateid(args.stateid)?;
    let share = share(args.access, args.deny)?;
    let object = compound.file(&target).await?;
    let owner = client(compound.client()?);
    let nfs4 = &compound.nfs4;
    let downgraded = nfs4.on_file(compound.now(), object, |shard, _, _| {
        shard.opens.downgrade(owner, object, id, share)
    });
    downgraded.map(|id| compound.set_stateid(id)).map_err(refused)
}

pub(super) async fn free_stateid(
    compound: &mut Compound,
    args: free_stateid::Args,
) -> Result<(), Status> {
    let id = compound.stateid(args)?;
    if id.special().is_some() {
        return Err(Status::BadStateid);
    }
    let owner = client(compound.client()?);
    let nfs4 = &compound.nfs4;
    let number = compound.client()?;
    let freed = nfs4.on_stateid(compound.now(), id, |shard, effects, _| {
        let before = shard.opens.tally(owner).expired;
        let holds = shard.opens.lock_owner(owner, id).is_some_and(|(object, basis)| {
            let lock_owner = super::locks::owner(&basis);
            shard.locks.holds(object, &lock_owner, leasehold_core::locks::Under(basis.open.0))
        });
        shard.opens.free(owner, id, holds, effects)?;
        Ok(before - shard.opens.tally(owner).expired)
    });
    let freed = freed.map_err(refused)?;
    if freed > 0 {
        nfs4.freed(compound.now(), number, freed);
    }
    Ok(())
}

/// The result of TEST_STATEID: one status for each state id.
pub(super) struct Tested(Vec<Result<(), Refusal>>);

impl Encode for Tested {
    fn encode(&self, writer: &mut Writer) {
        writer.u32(u32::try_from(self.0.len()).expect("the call was bounded"));
        for result in &self.0 {
            writer.u32(result.map_or_else(|refusal| refused(refusal) as u32, |()| 0));
        }
    }
}

pub(super) async fn test_stateid(
    compound: &mut Compound,
    args: test_stateid::Args,
) -> Result<Tested, Status> {
    let owner = client(compound.client()?);
    let nfs4 = &compound.nfs4;
    let test = |id: &Stateid| {
        let id = StateId { sequence: id.sequence.0, other: id.other.0 };
        if id.special().is_some() {
            return Err(Refusal::BadStateId);
        }
        nfs4.on_stateid(compound.now(), id, |shard, _, _| shard.opens.test(owner, id))
    };
    Ok(Tested(args.0.iter().map(test).collect()))
}

/// Returns the status of an error of the grace period.
pub(super) const fn grace_of(
    may_grant: Result<(), Error>,
    may_reclaim: bool,
) -> Result<Grace, Status> {
    match (may_grant, may_reclaim) {
        (Ok(()), _) => Ok(Grace::Over),
        (Err(_), true) => Ok(Grace::Reclaiming),
        (Err(Error::Grace), false) => Ok(Grace::Closed),
        (Err(error), false) => Err(convert::session_status(error)),
    }
}
