//! The clients of NQNFS. Such a client is a host with all its ports, and its client id follows from
//! its address.

use core::net::IpAddr;
use std::sync::Arc;

use leasehold_base::units::Time;
use leasehold_core::leases::clients::{Name, Refusal};
use leasehold_core::leases::{Client, Kind, Open, Serial, table};
use leasehold_fs::{ExportId, ObjectId};

use super::{Leases, Way};

impl Leases {
    /// Returns the client of a known host.
    ///
    /// # Errors
    /// The reason for which the server does not know the host.
    pub fn admit_host(
        self: &Arc<Self>,
        now: Time,
        way: Way,
        host: IpAddr,
    ) -> Result<Client, Refusal> {
        let who = (Name(self.handles.name_of(host)), 0);
        self.with(now, |state, outs| {
            let epoch = state.clients.epoch();
            let client = state.clients.admit(state.now, who, epoch)?;
            state.heard(client, way, outs);
            Ok(client)
        })
    }

    /// Returns true if a host may have had leases before the server restarted.
    #[must_use]
    pub fn waits_for_host(&self, host: IpAddr) -> bool {
        let name = Name(self.handles.name_of(host));
        let state = self.lock();
        state.clients.missing().is_some_and(|mut missing| missing.any(|one| one == name))
    }

    /// Records that a host has returned a recalled lease. NQNFS does not report if the file is
    /// still open, so the server assumes that a writer continues to write.
    pub fn vacated(self: &Arc<Self>, now: Time, host: IpAddr, handle: (ExportId, ObjectId)) {
        let who = (Name(self.handles.name_of(host)), 0);
        self.with(now, |state, outs| {
            let epoch = state.clients.epoch();
            let (Ok(client), Some(object)) =
                (state.clients.admit(state.now, who, epoch), state.names.object(&handle))
            else {
                return;
            };
            // A late duplicate of VACATED refers to a lease that no longer exists. The message
            // therefore ends only a lease that the server has recalled.
            let is_meant = |lease: &&table::Lease| lease.client == client && lease.evicted;
            let Some(lease) = state.table.leases(object).iter().find(is_meant) else { return };
            let open = match lease.kind {
                Kind::Read => Open::Read,
                Kind::Write => Open::Write,
            };
            let serial: Serial = lease.serial;
            state.step(table::Event::Returned(client, object, serial, open), outs);
        });
    }
}
