//! Operations on locks of byte ranges: LOCK, LOCKT and LOCKU.

use leasehold_base::xdr::{Encode, Writer};
use leasehold_core::locks::{
    Answer, Denied, Kind, Locker, Owner, Range, Refusal, Request, Under, Wait,
};
use leasehold_core::opens::{LockBasis, LockOwner, Modes};
use leasehold_core::owners::Name;
use leasehold_wire::nfs4::{
    self as wire, ClientId, Identifier, LockKind, StateOwner, Stateid, Status, lock as wire_lock,
    lockt as wire_lockt, locku as wire_locku,
};

use super::compound::Compound;
use super::opens::{client, refused};
use super::operations::Failed;

/// The lock that prevents a requested lock, as a result.
pub(super) struct Conflict(Box<Denied>);

impl Encode for Conflict {
    fn encode(&self, writer: &mut Writer) {
        let Denied { owner, range, kind } = &*self.0;
        let number = match owner.locker {
            Locker::Client(client) => client.0,
            // Owners of other protocols have no client id of version 4.
            Locker::Host(_) | Locker::Local => 0,
        };
        wire::Denied {
            offset: range.offset(),
            length: range.length(),
            kind: match kind {
                Kind::Read => LockKind::Read,
                Kind::Write => LockKind::Write,
            },
            owner: StateOwner { client: ClientId(number), owner: Identifier(owner.name.bytes()) },
        }
        .encode(writer);
    }
}

/// Returns the owner of locks.
pub(super) fn owner(basis: &LockBasis) -> Owner {
    Owner { locker: Locker::Client(basis.client), name: basis.owner.clone() }
}

fn range(offset: u64, length: u64) -> Result<Range, Status> {
    Range::new(offset, length).map_err(|_| Status::Invalid)
}

const fn kind(kind: LockKind) -> (Kind, Wait, Modes) {
    match kind {
        LockKind::Read => (Kind::Read, Wait::No, Modes::READ),
        LockKind::ReadWaiting => (Kind::Read, Wait::Poll, Modes::READ),
        LockKind::Write => (Kind::Write, Wait::No, Modes::WRITE),
        LockKind::WriteWaiting => (Kind::Write, Wait::Poll, Modes::WRITE),
    }
}

fn lock_refused(refusal: Refusal) -> Failed {
    Failed::Plain(match refusal {
        Refusal::Denied(denied) => return Failed::Denied(Conflict(denied)),
        Refusal::Deadlock => Status::Deadlock,
        Refusal::Full => Status::Delay,
        Refusal::Grace => Status::Grace,
        Refusal::NoGrace => Status::NoGrace,
        Refusal::ReclaimBad => Status::ReclaimBad,
        Refusal::ReclaimConflict => Status::ReclaimConflict,
    })
}

pub(super) async fn lock(
    compound: &mut Compound,
    args: wire_lock::Args<'_>,
) -> Result<Stateid, Failed> {
    let target = compound.target(Status::IsDirectory).await?;
    let range = range(args.offset, args.length)?;
    let (kind, wait, modes) = kind(args.kind);
    let lock_owner = match args.locker {
        wire_lock::Locker::Known(known) => LockOwner::Known(compound.stateid(known.stateid)?),
        wire_lock::Locker::New(new) => {
            let name = Name::new(new.owner.owner.0).ok_or(Status::BadXdr)?;
            LockOwner::New(compound.stateid(new.open)?, name)
        }
    };
    let grace = compound.grace()?;
    let object = compound.file(&target).await?;
    let (now, number) = (compound.now(), client(compound.client()?));
    let nfs4 = &compound.nfs4;
    let locked = nfs4.on_file(now, object, |shard, _, effects| {
        let basis = shard.opens.check_lock(number, object, &lock_owner, modes);
        let basis = basis.map_err(|refusal| Failed::Plain(refused(refusal)))?;
        let (owner, under) = (owner(&basis), Under(basis.open.0));
        let request =
            Request { object, owner, under, range, kind, wait, reclaim: args.reclaim, grace };
        match shard.locks.lock(now, &request, effects) {
            Ok(Answer::Granted) => {}
            // A request that polls never blocks.
            Ok(Answer::Blocked) => return Err(Failed::Plain(Status::ServerFault)),
            Err(refusal) => return Err(lock_refused(refusal)),
        }
        shard.opens.locked(&basis).map_err(|refusal| Failed::Plain(refused(refusal)))
    });
    locked.map(|id| compound.set_stateid(id))
}

pub(super) async fn lockt(
    compound: &mut Compound,
    args: wire_lockt::Args<'_>,
) -> Result<(), Failed> {
    let target = compound.target(Status::IsDirectory).await?;
    let range = range(args.offset, args.length)?;
    let (kind, _, _) = kind(args.kind);
    let name = Name::new(args.owner.owner.0).ok_or(Status::BadXdr)?;
    let object = compound.file(&target).await?;
    let locker = Locker::Client(client(compound.client()?));
    let owner = Owner { locker, name };
    let nfs4 = &compound.nfs4;
    if nfs4.is_grace() {
        return Err(Failed::Plain(Status::Grace));
    }
    nfs4.on_file(compound.now(), object, |shard, _, _| {
        shard.locks.test(object, &owner, range, kind)
    })
    .map_err(|denied| Failed::Denied(Conflict(Box::new(denied))))
}

pub(super) async fn locku(
    compound: &mut Compound,
    args: wire_locku::Args,
) -> Result<Stateid, Failed> {
    let target = compound.target(Status::IsDirectory).await?;
    let range = range(args.offset, args.length)?;
    let id = compound.stateid(args.stateid)?;
    let object = compound.file(&target).await?;
    let (now, number) = (compound.now(), client(compound.client()?));
    let nfs4 = &compound.nfs4;
    let unlocked = nfs4.on_file(now, object, |shard, _, effects| {
        let basis = shard.opens.check_unlock(number, object, id);
        let basis = basis.map_err(|refusal| Failed::Plain(refused(refusal)))?;
        shard.locks.unlock(now, object, &owner(&basis), range, effects).map_err(lock_refused)?;
        shard.opens.locked(&basis).map_err(|refusal| Failed::Plain(refused(refusal)))
    });
    unlocked.map(|id| compound.set_stateid(id))
}
