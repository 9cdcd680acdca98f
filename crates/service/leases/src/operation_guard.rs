//! The operation guard (`Turn`) of a call on one object: an implicit lease that begins before the
//! operation and lasts until the end of the operation.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::Arc;

use futures_channel::oneshot;
use leasehold_base::units::{FileTime, Time};
use leasehold_core::leases::clients;
use leasehold_core::leases::table::{self, Access, Ask, Outcome, Run};
use leasehold_core::leases::{Client, Kind, Modrev, Object, Serial, Ticket};
use leasehold_fs::{ExportId, FsError, ObjectId};

use super::{LeaseWaits, Leases, Outs, State};

/// The access of a call to an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
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
    pub(super) under: Under,
    pub(super) ask: Option<Ask>,
    /// Another existing object with the same file id.
    pub(super) beside: Option<ObjectId>,
}

/// The lease under which a client made a change.
#[derive(Clone, Copy, Debug)]
pub(super) enum Under {
    /// The lease that the call contains, if any.
    Named(Option<Serial>),
    /// The lease that the client holds.
    Held,
    /// The lease that the client holds, or one that it held before the server restarted.
    HeldOrLost,
}

/// The operation guard of a call on one object, until this value is dropped.
pub(super) struct Turn {
    leases: Arc<Leases>,
    pub(super) object: Object,
    /// The export and object key, for the guard of a call; None for a guard without a caller.
    name: Option<(ExportId, ObjectId)>,
    ticket: Ticket,
    receiver: oneshot::Receiver<Option<Run>>,
    runs: bool,
    pub(super) outcome: Outcome,
}

impl Turn {
    /// Requests a guard.
    ///
    /// # Errors
    /// [`FsError::Delay`] if too many calls wait, or if another object got the file id of this
    /// object after the call read the attributes.
    pub(super) fn ask(leases: &Arc<Leases>, wanted: &Wanted) -> Result<Self, FsError> {
        let Wanted { object, export, identity, named, access, client, ask, beside, .. } = *wanted;
        let (ticket, receiver) = leases.with(Time::ZERO, |state, outs| {
            let other = state.names.another(object, (export, identity));
            if other.is_some() && other != beside {
                return Err(FsError::Delay);
            }
            let (ticket, receiver) = state.park(object)?;
            if let (Some(client), Some(_)) = (client, ask) {
                state.names.note(client, object, (export, identity, named));
            }
            let under = state.under(wanted);
            if access == Access::Write && under.is_some() {
                // After a restart, a client may write under a lease that the server has forgotten,
                // and further such writes may follow. The event records the time of the last such
                // write, because the server stays in its grace period until no such write has
                // arrived for a while.
                state.registry(clients::Event::Wrote, outs);
            }
            let call = table::Call { ticket, object, client, access, under, ask };
            state.step(table::Event::Call(call), outs);
            if state.waiting.contains_key(&ticket) {
                let LeaseWaits { clients, plain, .. } = &mut state.waits;
                *if client.is_some() { clients } else { plain } += 1;
            }
            if client.is_none_or(|client| state.repeats(client)) {
                state.be_patient(ticket);
            }
            Ok((ticket, receiver))
        })?;
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
        let (ticket, receiver) = leases.with(Time::ZERO, |state, outs| {
            let (ticket, receiver) = state.park(object)?;
            state.step(table::Event::Vacate(object, ticket), outs);
            state.be_patient(ticket);
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

    /// The poll function of [`Turn::begin`], for callers that wait for several guards.
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
        self.leases.with(Time::ZERO, |state, _| {
            let now = state.now;
            state.unacknowledged.changed(self.object, client);
            state.modrevs.changed(now, self.object, before, changed)
        })
    }

    /// Returns the kind of lease under which the caller may cache the object, if any.
    pub(super) fn cached(&self, client: Client) -> Option<Kind> {
        let state = self.leases.lock();
        let mut leases = state.table.leases(self.object).iter();
        let own = leases.find(|lease| lease.client == client);
        own.filter(|lease| lease.cachable).map(|lease| lease.kind)
    }

    /// Returns true if the lease with this lease sequence number still exists.
    pub(super) fn stands(&self, serial: Serial) -> bool {
        let state = self.leases.lock();
        let mut leases = state.table.leases(self.object).iter();
        leases.any(|lease| lease.serial == serial)
    }

    /// Drops all leases on a removed object, unless a new object has the same file id.
    pub(super) fn gone(&self) {
        self.leases.with(Time::ZERO, |state, outs| {
            let another = self.name.and_then(|name| state.names.another(self.object, name));
            if another.is_none() {
                state.gone(self.object, outs);
            }
        });
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Self { object, ticket, outcome, .. } = *self;
        // After the close a later send of the guard fails, and the sender then ends the guard
        // ([`Leases::tell_settled`]). The code below handles only a guard that was sent before the
        // close.
        self.receiver.close();
        self.leases.with(Time::ZERO, |state, outs| {
            let waits = state.waiting.remove(&ticket).is_some();
            // The lease table may have sent the guard before the close, although the receiver was
            // never polled. Such a guard has begun, so it must be ended.
            let runs = self.runs || matches!(self.receiver.try_recv(), Ok(Some(Some(_))));
            if runs {
                state.step(table::Event::Done(object, ticket, outcome), outs);
            } else if waits {
                state.step(table::Event::GivenUp(object, ticket), outs);
            }
        });
    }
}

impl Leases {
    /// Returns the object key of another object with the same file id.
    pub(super) fn another(&self, object: Object, name: (ExportId, ObjectId)) -> Option<ObjectId> {
        self.lock().names.another(object, name)
    }

    /// Drops all leases on a former object, and forgets its handle, even if a new object has the
    /// same file id.
    pub(super) fn gone(self: &Arc<Self>, object: Object, name: (ExportId, ObjectId)) {
        self.with(Time::ZERO, |state, outs| {
            if state.names.object(&name) == Some(object) {
                state.names.forget_name(object, &name);
                state.gone(object, outs);
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
        self.with(Time::ZERO, |state, _| {
            let now = state.now;
            // The store may have recorded more maintenance after the caller read the attributes.
            // The interval of maintenance counts only if it contains the change time that the
            // caller read.
            let upkeep = upkeep.filter(|(since, until)| (*since..=*until).contains(&changed));
            let Some((since, _)) = upkeep else { return state.modrevs.seen(now, object, changed) };
            let (before, after) = state.modrevs.seen_since(now, object, (since, changed));
            state.unacknowledged.kept_up(object, before, after);
            after
        })
    }
}

impl State {
    fn gone(&mut self, object: Object, outs: &mut Outs) {
        self.step(table::Event::Gone(object), outs);
        self.forget_layout(object);
    }

    /// Returns the lease that a call contains, or the lease that its client holds.
    fn under(&self, wanted: &Wanted) -> Option<Serial> {
        let held = || {
            let mut leases = self.table.leases(wanted.object).iter();
            leases.find(|lease| Some(lease.client) == wanted.client).map(|lease| lease.serial)
        };
        match wanted.under {
            Under::Named(serial) => serial,
            Under::Held => held(),
            // No lease has the lease sequence number zero. The zero makes the lease table treat the
            // call as a call under a lease that the server has forgotten.
            Under::HeldOrLost => held().or(Some(Serial(0))),
        }
    }
}
