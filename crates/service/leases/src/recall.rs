//! Recalls on behalf of other servers of the same files.

use std::sync::Arc;

use leasehold_core::leases::Object;
use leasehold_core::leases::table;
use leasehold_fs::{ExportId, ObjectId, Store};

use super::Leases;
use super::operation_guard::OperationGuard;

impl Leases {
    /// Recalls all leases of clients on an object. Returns true if no client has a lease or a
    /// layout any more. Returns false in the grace period or if the recall takes too long; the
    /// caller may retry at once.
    pub async fn vacate(
        self: &Arc<Self>,
        export: ExportId,
        store: &dyn Store,
        id: ObjectId,
    ) -> bool {
        if self.standing().1 {
            return false;
        }
        let identity = store.identity(&id);
        let Some(object) = self.known(export, identity) else { return true };
        let Ok(mut turn) = OperationGuard::of_nobody(self, object) else { return false };
        if turn.begin().await.is_err() {
            return false;
        }
        // WRITEs under a layout may still be in transit to the iods, so the layout must end before
        // another server accesses the file.
        let Some(laid_out) = self.laid_out(object) else { return true };
        let is_ended = store.recall_layout(&laid_out.id).await.is_ok();
        if is_ended {
            self.recalled(object, &laid_out);
        }
        is_ended
    }

    /// Ends all leases on an object without notice to their holders.
    pub fn end(self: &Arc<Self>, export: ExportId, identity: ObjectId) {
        if let Some(object) = self.known(export, identity) {
            self.on(object, |shard, effects| shard.step(table::Event::Gone(object), effects));
        }
    }

    /// Returns an object on which a client may have a lease or a layout.
    fn known(&self, export: ExportId, identity: ObjectId) -> Option<Object> {
        let is_it = |id, of| (of, id) == (export, identity);
        let laid_out = || {
            self.shards().find_map(|shard| {
                let mut layouts = shard.layouts.iter();
                let found = layouts.find(|(_, (it, _))| is_it(it.id, it.export));
                found.map(|(object, _)| *object)
            })
        };
        self.common.handles.object(&(export, identity)).or_else(laid_out)
    }
}
