//! A call's turn on one object: an implicit lease from before it runs until it has ended.

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

/// What a call is to do to an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) object: Object,
    pub(super) export: ExportId,
    /// By which the object is one, whatever it is named.
    pub(super) identity: ObjectId,
    /// How its client knows it, should it be granted a lease.
    pub(super) named: ObjectId,
    pub(super) access: Access,
    pub(super) client: Option<Client>,
    /// The lease that what it changes was changed under.
    pub(super) under: Under,
    pub(super) ask: Option<Ask>,
    /// Another of the same number that is there as well.
    pub(super) beside: Option<ObjectId>,
}

/// The lease that a change was made under.
#[derive(Clone, Copy, Debug)]
pub(super) enum Under {
    /// The one that its client names, if it does.
    Named(Option<Serial>),
    /// The one that its client holds.
    Held,
    /// The same, or one that it held before the server was started anew.
    HeldOrLost,
}

/// A call's turn on one object; it ends when this is dropped.
pub(super) struct Turn {
    leases: Arc<Leases>,
    pub(super) object: Object,
    /// By what the object is known, where somebody asked for it.
    name: Option<(ExportId, ObjectId)>,
    ticket: Ticket,
    receiver: oneshot::Receiver<Option<Run>>,
    runs: bool,
    pub(super) outcome: Outcome,
}

impl Turn {
    /// Asks for a turn.
    ///
    /// # Errors
    /// [`FsError::Later`] when too many wait, or when another came to have the number of the object
    /// since that was looked at.
    pub(super) fn ask(leases: &Arc<Leases>, wanted: &Wanted) -> Result<Self, FsError> {
        let Wanted { object, export, identity, named, access, client, ask, beside, .. } = *wanted;
        let (ticket, receiver) = leases.with(Time::ZERO, |state, outs| {
            let other = state.names.another(object, (export, identity));
            if other.is_some() && other != beside {
                return Err(FsError::Later);
            }
            let (ticket, receiver) = state.park(object)?;
            if let (Some(client), Some(_)) = (client, ask) {
                state.names.note(client, object, (export, identity, named));
            }
            let under = state.under(wanted);
            if access == Access::Write && under.is_some() {
                // Where the server was started anew, more of the kind may come.
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

    /// Asks for a turn of nobody's: it begins when all who hold the object have given it back.
    ///
    /// # Errors
    /// [`FsError::Later`] when too many wait.
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

    /// Waits for it to begin.
    ///
    /// # Errors
    /// [`FsError::Later`] when it does not.
    pub(super) async fn begin(&mut self) -> Result<Run, FsError> {
        poll_fn(|context| self.poll_begin(context)).await
    }

    /// The same, for who waits for several.
    pub(super) fn poll_begin(&mut self, context: &mut Context<'_>) -> Poll<Result<Run, FsError>> {
        let told = ready!(Pin::new(&mut self.receiver).poll(context));
        let run = told.ok().flatten().ok_or(FsError::Later);
        self.runs = run.is_ok();
        Poll::Ready(run)
    }

    /// The modrev of the object, which was changed by this call of a client's, and has this change
    /// time.
    pub(super) fn changed(
        &self,
        client: Option<Client>,
        before: Modrev,
        changed: FileTime,
    ) -> Modrev {
        self.leases.with(Time::ZERO, |state, _| {
            let now = state.now;
            state.untold.changed(self.object, client);
            state.modrevs.changed(now, self.object, before, changed)
        })
    }

    /// What the caller may cache of the object, if that is anything.
    pub(super) fn cached(&self, client: Client) -> Option<Kind> {
        let state = self.leases.lock();
        let mut leases = state.table.leases(self.object).iter();
        let own = leases.find(|lease| lease.client == client);
        own.filter(|lease| lease.cachable).map(|lease| lease.kind)
    }

    /// Whether what was granted with this number is held still.
    pub(super) fn stands(&self, serial: Serial) -> bool {
        let state = self.leases.lock();
        let mut leases = state.table.leases(self.object).iter();
        leases.any(|lease| lease.serial == serial)
    }

    /// The object is no more. Its number may be another's by now, who keeps what it has.
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
        // What is sent from now on is ended by who sends it.
        self.receiver.close();
        self.leases.with(Time::ZERO, |state, outs| {
            let waits = state.waiting.remove(&ticket).is_some();
            // It may have begun without being looked at.
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
    /// By what another object of that number is known.
    pub(super) fn another(&self, object: Object, name: (ExportId, ObjectId)) -> Option<ObjectId> {
        self.lock().names.another(object, name)
    }

    /// An object that was known by that is no more: nobody holds it, whatever has its number now.
    pub(super) fn gone(self: &Arc<Self>, object: Object, name: (ExportId, ObjectId)) {
        self.with(Time::ZERO, |state, outs| {
            if state.names.object(&name) == Some(object) {
                state.names.forget_name(object, &name);
                state.gone(object, outs);
            }
        });
    }

    /// The modrev of an object, which has this change time; and between those its store did nothing
    /// to it but upkeep.
    pub(super) fn seen(
        self: &Arc<Self>,
        object: Object,
        changed: FileTime,
        upkeep: Option<(FileTime, FileTime)>,
    ) -> Modrev {
        self.with(Time::ZERO, |state, _| {
            let now = state.now;
            // There may be more of it by now than what was seen of the object.
            let upkeep = upkeep.filter(|(since, until)| (*since..=*until).contains(&changed));
            let Some((since, _)) = upkeep else { return state.modrevs.seen(now, object, changed) };
            let (before, after) = state.modrevs.seen_since(now, object, (since, changed));
            state.untold.kept_up(object, before, after);
            after
        })
    }
}

impl State {
    fn gone(&mut self, object: Object, outs: &mut Outs) {
        self.step(table::Event::Gone(object), outs);
        self.forget_layout(object);
    }

    /// The lease that a call names, or that its client has.
    fn under(&self, wanted: &Wanted) -> Option<Serial> {
        let held = || {
            let mut leases = self.table.leases(wanted.object).iter();
            leases.find(|lease| Some(lease.client) == wanted.client).map(|lease| lease.serial)
        };
        match wanted.under {
            Under::Named(serial) => serial,
            Under::Held => held(),
            // No lease has that number.
            Under::HeldOrLost => held().or(Some(Serial(0))),
        }
    }
}
