//! The clients of NQNFS. Such a client is a host with all its ports, and its client id follows from
//! its address.

use core::net::IpAddr;
use std::sync::Arc;

use leasehold_base::units::Time;
use leasehold_core::leases::clients::{Name, Refusal};
use leasehold_core::leases::{Client, Kind, Open, table};
use leasehold_fs::{ExportId, ObjectId};

use super::{Leases, ReturnPath};

impl Leases {
    /// Returns the client of a known host.
    ///
    /// # Errors
    /// The reason for which the server does not know the host.
    pub fn admit_host(
        self: &Arc<Self>,
        now: Time,
        way: ReturnPath,
        host: IpAddr,
    ) -> Result<Client, Refusal> {
        self.admit_of_epoch(now, way, (Name(self.handles.name_of(host)), 0), self.epoch)
    }

    /// Returns true if a host may have had leases before the server restarted.
    #[must_use]
    pub fn waits_for_host(&self, host: IpAddr) -> bool {
        let name = Name(self.handles.name_of(host));
        let registry = self.registry();
        registry.clients.missing().is_some_and(|mut missing| missing.any(|one| one == name))
    }

    /// Records that a host has returned a recalled lease. NQNFS does not report if the file is
    /// still open, so the server assumes that a writer continues to write.
    pub fn vacated(self: &Arc<Self>, now: Time, host: IpAddr, handle: (ExportId, ObjectId)) {
        let who = (Name(self.handles.name_of(host)), 0);
        let client =
            self.register(now, |registry, _| registry.clients.admit(registry.now, who, self.epoch));
        let (Ok(client), Some(object)) = (client, self.common.handles.object(&handle)) else {
            return;
        };
        self.on(object, |shard, effects| {
            // A late duplicate of VACATED refers to a lease that no longer exists. The message
            // therefore ends only a lease that the server has recalled.
            let recalled = shard.lease_of(object, client).filter(|lease| lease.evicted);
            let Some(lease) = recalled else { return };
            let open = match lease.kind {
                Kind::Read => Open::Read,
                Kind::Write => Open::Write,
            };
            let returned = table::Event::Returned(client, object, lease.serial, open);
            shard.step(returned, effects);
        });
    }
}
