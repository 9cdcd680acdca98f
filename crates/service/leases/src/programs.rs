//! Local programs that access leased objects. The lease table treats the access of a local program
//! as a call of a client without leases, which runs until the program may continue.

use std::sync::Arc;

use leasehold_base::units::Time;
use leasehold_core::leases::table::{self, Access, Call, Outcome};
use leasehold_core::leases::{Kind, Object, Ticket};
use leasehold_fs::{Disturbance, ExportId, Guard, ObjectId, Store};

use super::Leases;
use super::leased_store::guard;
use crate::shard::Waiting;

/// A waiting local program, as the store and the object whose local-access interlock delays the
/// program.
pub(super) struct Program {
    pub(super) store: Arc<dyn Store>,
    pub(super) id: ObjectId,
}

impl Leases {
    /// Reports an access by a local program to an object of a store; see `Leases::disturbed`.
    pub fn used_by_program(
        self: &Arc<Self>,
        now: Time,
        export: ExportId,
        (store, id): (Arc<dyn Store>, ObjectId),
        disturbance: Disturbance,
    ) {
        self.tell(now);
        let object = self.common.handles.object(&(export, store.identity(&id)));
        let program = Program { store, id };
        match (object, disturbance) {
            (Some(object), Disturbance::Reads) => self.disturbed(object, program, Access::Read),
            (Some(object), Disturbance::Changes) => {
                self.disturbed(object, program, Access::Write);
            }
            (Some(object), Disturbance::Nothing) if self.cached(object).is_some() => {}
            (_, Disturbance::Nothing) | (None, _) => {
                // The removal of an interlock cannot fail, so the result is ignored.
                let _ = program.store.guard(&program.id, Guard::Nothing);
                // A call may have received a grant while the interlock was still in place. The
                // holder of that lease would cache an object without an interlock, so the server
                // recalls the lease.
                if let Some(object) = object.filter(|object| self.cached(*object).is_some()) {
                    self.disturbed(object, program, Access::Write);
                }
            }
        }
    }

    /// Returns the strongest kind of lease under which a client caches an object, if any.
    fn cached(&self, object: Object) -> Option<Kind> {
        let shard = self.shard(object);
        let leases = shard.table.leases(object).iter().filter(|lease| lease.cachable);
        leases.map(|lease| lease.kind).max()
    }

    /// Recalls the leases that conflict with the access of a local program. When the leases have
    /// ended, the program continues.
    pub(super) fn disturbed(self: &Arc<Self>, object: Object, program: Program, access: Access) {
        self.on(object, |shard, effects| {
            let ticket = shard.keep_waiting(Waiting::Program(object, program));
            let call = Call { ticket, object, client: None, access, under: None, ask: None };
            shard.step(table::Event::Call(call), effects);
            shard.waits.programs += u64::from(shard.waits(ticket));
        });
    }

    /// Lets a local program continue. Sets the interlock again for the leases that remain on the
    /// object, or recalls those leases if the program's access conflicts with the interlock.
    pub(super) fn free(self: &Arc<Self>, program: Program, ran: Option<(Object, Ticket)>) {
        let _ = program.store.guard(&program.id, Guard::Nothing);
        let Some((object, ticket)) = ran else { return };
        let kept = self.cached(object).map(|kind| program.store.guard(&program.id, guard(kind)));
        self.on(object, |shard, effects| {
            shard.step(table::Event::Done(object, ticket, Outcome::default()), effects);
        });
        if kept.is_some_and(|kept| kept.is_err()) {
            self.disturbed(object, program, Access::Write);
        }
    }
}
