//! The recall of client leases on behalf of a metaserver of a group.

use std::sync::Weak;

use leasehold_fs::{ExportId, ObjectId};
use leasehold_serve::Service;
use leasehold_store_replica::{Later, Lender};

/// Recalls the leases of an export's clients. The service owns the metaserver that owns this value,
/// so this value holds only a weak reference to the service.
pub struct Clients {
    /// The service that has granted the leases.
    pub service: Weak<Service>,
    /// The export.
    pub export: ExportId,
}

impl Lender for Clients {
    fn is_recovering(&self) -> bool {
        self.service.upgrade().is_none_or(|service| service.is_recovering())
    }

    fn evict(&self, object: ObjectId) -> Later<bool> {
        let (service, export) = (self.service.upgrade(), self.export);
        Box::pin(async move {
            match service {
                Some(service) => service.vacate(export, object).await,
                // The service has ended without a recall. Its clients may still use their leases,
                // so the recall is not confirmed.
                None => false,
            }
        })
    }

    fn lost(&self, object: ObjectId) {
        if let Some(service) = self.service.upgrade() {
            service.end_leases(self.export, object);
        }
    }
}
