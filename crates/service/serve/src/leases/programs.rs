//! Programs of this machine beside clients that hold leases: to the table they are calls of plain
//! clients, which run for as long as it takes to let the program go on.

use std::sync::Arc;

use leasehold_base::units::Time;
use leasehold_core::leases::table::{self, Access, Call, Outcome};
use leasehold_core::leases::{Kind, Object, Ticket};
use leasehold_fs::{Disturbance, ExportId, Guard, ObjectId, Store};

use super::gate::guard;
use super::{Leases, Waiting};

/// A program that waits, by what keeps it waiting.
pub(super) struct Program {
    pub(super) store: Arc<dyn Store>,
    pub(super) id: ObjectId,
}

impl Leases {
    /// A program is to use an object of a store: see [`Leases::disturbed`].
    pub(crate) fn used_by_program(
        self: &Arc<Self>,
        now: Time,
        export: ExportId,
        (store, id): (Arc<dyn Store>, ObjectId),
        disturbance: Disturbance,
    ) {
        self.tell(now);
        let object = self.lock().names.object(&(export, store.identity(&id)));
        let program = Program { store, id };
        match (object, disturbance) {
            (Some(object), Disturbance::Reads) => self.disturbed(object, program, Access::Read),
            (Some(object), Disturbance::Changes) => {
                self.disturbed(object, program, Access::Write);
            }
            (Some(object), Disturbance::Nothing) if self.cached(object).is_some() => {}
            (_, Disturbance::Nothing) | (None, _) => {
                // To guard no more cannot fail.
                let _ = program.store.guard(&program.id, Guard::Nothing);
                // A grant of this moment found the guard still there: its holder would cache an
                // object that no guard protects, so the lease is recalled.
                if let Some(object) = object.filter(|object| self.cached(*object).is_some()) {
                    self.disturbed(object, program, Access::Write);
                }
            }
        }
    }

    /// What anybody may cache of an object, if that is anything.
    fn cached(&self, object: Object) -> Option<Kind> {
        let state = self.lock();
        let leases = state.table.leases(object).iter().filter(|lease| lease.cachable);
        leases.map(|lease| lease.kind).max()
    }

    /// Who holds leases that do not go with what a program does is evicted; then it goes on.
    pub(super) fn disturbed(self: &Arc<Self>, object: Object, program: Program, access: Access) {
        self.with(Time::ZERO, |state, outs| {
            let ticket = Ticket(state.next_ticket);
            state.next_ticket += 1;
            state.waiting.insert(ticket, Waiting::Program(object, program));
            let call = Call { ticket, object, client: None, access, under: None, ask: None };
            state.step(table::Event::Call(call), outs);
            state.waits.programs += u64::from(state.waiting.contains_key(&ticket));
        });
    }

    /// Lets a program go on. Who still caches is guarded anew, or evicted as well where the program
    /// does not go with that.
    pub(super) fn free(self: &Arc<Self>, program: Program, ran: Option<(Object, Ticket)>) {
        let _ = program.store.guard(&program.id, Guard::Nothing);
        let Some((object, ticket)) = ran else { return };
        let kept = self.cached(object).map(|kind| program.store.guard(&program.id, guard(kind)));
        self.with(Time::ZERO, |state, outs| {
            state.step(table::Event::Done(object, ticket, Outcome::default()), outs);
        });
        if kept.is_some_and(|kept| kept.is_err()) {
            self.disturbed(object, program, Access::Write);
        }
    }
}
