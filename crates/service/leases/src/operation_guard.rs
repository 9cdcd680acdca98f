//! The operation guard of a call on one object: an implicit lease that begins before the operation
//! and lasts until the end of the operation.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::Arc;

use futures_channel::oneshot;
use leasehold_base::units::FileTime;
use leasehold_core::leases::clients;
use leasehold_core::leases::table::{self, Access, Ask, Outcome, Run};
use leasehold_core::leases::{Client, Kind, Modrev, Object, Serial, Ticket};
use leasehold_fs::{ExportId, FsError, ObjectId};

use super::{LeaseWaits, Leases};
use crate::shard::Shard;

/// The access of a call to an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct GuardRequest {
    pub(super) object: Object,
    pub(super) export: ExportId,
    /// The object key, which is equal for all handles of the object.
    pub(super) identity: ObjectId,
    /// The object id by which the client knows the object. A recall of a granted lease contains
    /// this id.
    pub(super) named: ObjectId,
    pub(super) access: Access,
    pub(super) client: Option<Client>,
    /// The lease under which the client made the change.
    pub(super) under: ChangeLease,
    pub(super) ask: Option<Ask>,
    /// Another existing object with the same file id.
    pub(super) beside: Option<ObjectId>,
}

/// The lease under which a client made a change.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChangeLease {
    /// The lease that the call contains, if any.
    Named(Option<Serial>),
    /// The lease that the client holds.
    Held,
    /// The lease that the client holds, or one that it held before the server restarted.
    HeldOrLost,
}

/// The operation guard of a call on one object, until this value is dropped.
pub(super) struct OperationGuard {
    leases: Arc<Leases>,
    pub(super) object: Object,
    /// The export and object key, for the guard of a call; None for a guard without a caller.
    name: Option<(ExportId, ObjectId)>,
    ticket: Ticket,
    receiver: oneshot::Receiver<Option<Run>>,
    runs: bool,
    pub(super) outcome: Outcome,
}

impl OperationGuard {
    /// Requests a guard.
    ///
    /// # Errors
    /// [`FsError::Delay`] if too many calls wait, or if another object got the file id of this
    /// object after the call read the attributes.
    pub(super) fn ask(leases: &Arc<Leases>, wanted: &GuardRequest) -> Result<Self, FsError> {
        let GuardRequest { object, export, identity, named, access, client, ask, beside, .. } =
            *wanted;
        let (ticket, receiver, names_lease, waits) = leases.on(object, |shard, effects| {
            let other = shard.names.another(object, (export, identity));
            if other.is_some() && other != beside {
                return Err(FsError::Delay);
            }
            let (ticket, receiver) = shard.park(object)?;
            if let (Some(client), Some(_)) = (client, ask) {
                let name = (export, identity, named);
                let Shard { names, common, .. } = shard;
                names.note(&common.handles, client, object, name);
            }
            let under = shard.under(wanted);
            let call = table::Call { ticket, object, client, access, under, ask };
            shard.step(table::Event::Call(call), effects);
            let waits = shard.waits(ticket);
            if waits {
                let LeaseWaits { clients, plain, .. } = &mut shard.waits;
                *if client.is_some() { clients } else { plain } += 1;
            }
            if client.is_none() {
                shard.bound_wait(ticket);
            }
            Ok((ticket, receiver, access == Access::Write && under.is_some(), waits))
        })?;
        if names_lease && leases.common.is_recovering() {
            // After a restart, a client may write under a lease that the server has forgotten, and
            // further such writes may follow. The event records the time of the last such write,
            // because the server stays in its grace period until no such write has arrived for a
            // while.
            leases.progressed(clients::Event::Wrote);
        }
        if waits && client.is_some_and(|client| leases.registry().repeats(client)) {
            leases.on(object, |shard, _| shard.bound_wait(ticket));
        }
        let (leases, outcome) = (Arc::clone(leases), Outcome::default());
        let name = Some((export, identity));
        Ok(Self { leases, object, name, ticket, receiver, runs: false, outcome })
    }

    /// Requests a guard without a caller. The guard begins when all clients have returned their
    /// leases on the object.
    ///
    /// # Errors
    /// [`FsError::Delay`] if too many calls wait.
    pub(super) fn of_nobody(leases: &Arc<Leases>, object: Object) -> Result<Self, FsError> {
        let (ticket, receiver) = leases.on(object, |shard, effects| {
            let (ticket, receiver) = shard.park(object)?;
            shard.step(table::Event::Vacate(object, ticket), effects);
            shard.bound_wait(ticket);
            Ok((ticket, receiver))
        })?;
        let (leases, outcome) = (Arc::clone(leases), Outcome::default());
        Ok(Self { leases, object, name: None, ticket, receiver, runs: false, outcome })
    }

    /// Waits for the guard to begin.
    ///
    /// # Errors
    /// [`FsError::Delay`] if the wait fails or times out.
    pub(super) async fn begin(&mut self) -> Result<Run, FsError> {
        poll_fn(|context| self.poll_begin(context)).await
    }

    /// The poll function of [`OperationGuard::begin`], for callers that wait for several guards.
    pub(super) fn poll_begin(&mut self, context: &mut Context<'_>) -> Poll<Result<Run, FsError>> {
        let told = ready!(Pin::new(&mut self.receiver).poll(context));
        let run = told.ok().flatten().ok_or(FsError::Delay);
        self.runs = run.is_ok();
        Poll::Ready(run)
    }

    /// Records a change by this call, after which the object has the change time `changed`. Returns
    /// the new modrev of the object.
    pub(super) fn changed(
        &self,
        client: Option<Client>,
        before: Modrev,
        changed: FileTime,
    ) -> Modrev {
        self.leases.on(self.object, |shard, _| {
            shard.unacknowledged.changed(self.object, client);
            shard.modrevs.changed(shard.now, self.object, before, changed)
        })
    }

    /// Returns the kind of lease under which the caller may cache the object, if any.
    pub(super) fn cached(&self, client: Client) -> Option<Kind> {
        let shard = self.leases.shard(self.object);
        let own = shard.lease_of(self.object, client);
        own.filter(|lease| lease.cachable).map(|lease| lease.kind)
    }

    /// Returns true if the lease with this lease sequence number still exists.
    pub(super) fn stands(&self, serial: Serial) -> bool {
        self.leases.shard(self.object).stands(self.object, serial)
    }

    /// Drops all leases on a removed object, unless a new object has the same file id.
    pub(super) fn gone(&self) {
        self.leases.on(self.object, |shard, effects| {
            let another = self.name.and_then(|name| shard.names.another(self.object, name));
            if another.is_none() {
                shard.gone(self.object, effects);
            }
        });
    }
}

impl Drop for OperationGuard {
    fn drop(&mut self) {
        let Self { object, ticket, outcome, .. } = *self;
        // After the close a later send of the guard fails, and the sender then ends the guard
        // ([`Leases::tell_settled`]). The code below handles only a guard that was sent before the
        // close.
        self.receiver.close();
        self.leases.on(object, |shard, effects| {
            let waits = shard.forget_waiting(ticket);
            // The lease table may have sent the guard before the close, although the receiver was
            // never polled. Such a guard has begun, so it must be ended.
            let runs = self.runs || matches!(self.receiver.try_recv(), Ok(Some(Some(_))));
            if runs {
                shard.step(table::Event::Done(object, ticket, outcome), effects);
            } else if waits {
                shard.step(table::Event::GivenUp(object, ticket), effects);
            }
        });
    }
}

impl Leases {
    /// Returns the object key of another object with the same file id.
    pub(super) fn another(&self, object: Object, name: (ExportId, ObjectId)) -> Option<ObjectId> {
        self.shard(object).names.another(object, name)
    }

    /// Drops all leases on a former object, and forgets its handle, even if a new object has the
    /// same file id.
    pub(super) fn gone(self: &Arc<Self>, object: Object, name: (ExportId, ObjectId)) {
        self.on(object, |shard, effects| {
            let Shard { names, common, .. } = shard;
            if common.handles.object(&name) == Some(object) {
                names.forget_name(&common.handles, object, &name);
                shard.gone(object, effects);
            }
        });
    }

    /// Returns the modrev of an object with this change time; `upkeep` is the interval of change
    /// times in which only internal maintenance changed the object.
    pub(super) fn seen(
        self: &Arc<Self>,
        object: Object,
        changed: FileTime,
        upkeep: Option<(FileTime, FileTime)>,
    ) -> Modrev {
        self.on(object, |shard, _| {
            let Shard { now, modrevs, unacknowledged, .. } = shard;
            // The store may have recorded more maintenance after the caller read the attributes.
            // The interval of maintenance counts only if it contains the change time that the
            // caller read.
            let upkeep = upkeep.filter(|(since, until)| (*since..=*until).contains(&changed));
            let Some((since, _)) = upkeep else { return modrevs.seen(*now, object, changed) };
            let (before, after) = modrevs.seen_since(*now, object, (since, changed));
            unacknowledged.kept_up(object, before, after);
            after
        })
    }
}

impl Shard {
    /// Returns the lease that a call contains, or the lease that its client holds.
    fn under(&self, wanted: &GuardRequest) -> Option<Serial> {
        let held = || Some(self.lease_of(wanted.object, wanted.client?)?.serial);
        match wanted.under {
            ChangeLease::Named(serial) => serial,
            ChangeLease::Held => held(),
            // No lease has the lease sequence number zero. The zero makes the lease table treat the
            // call as a call under a lease that the server has forgotten.
            ChangeLease::HeldOrLost => held().or(Some(Serial(0))),
        }
    }
}
