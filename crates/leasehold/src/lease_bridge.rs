//! The recall of client leases on behalf of a metaserver of a group.

use std::sync::Weak;

use leasehold_fs::{ExportId, ObjectId};
use leasehold_serve::Service;
use leasehold_store_replica::{Later, Lender};

/// The clients of an export. The service owns the metaserver, so this holds only a weak reference.
pub(crate) struct Clients {
    pub(crate) service: Weak<Service>,
    pub(crate) export: ExportId,
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
                // The service has ended, and its clients may not know.
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
