//! Routes each call to the NFS service, or to the program that metaservers use among themselves.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::units::{ConnectionId, Time};
use leasehold_base::xdr::{Encode as _, Reader, Writer};
use leasehold_fs::MaybeReady;
use leasehold_serve::{Arrival, Response, Service, Transport};
use leasehold_shell::Handler;
use leasehold_store_replica::{Metaserver, PROGRAM};
use leasehold_wire::rpc::{Call, Reply, ReplyStatus};
use leasehold_wire::{binding, lease, nqnfs};

use crate::referral::Referral;
use crate::server_state::Serving;

/// All programs of the server.
pub(crate) struct Answering {
    service: Arc<Service>,
    /// The program that other metaservers call; `None` if this server is the only metaserver.
    metaserver: Option<Metaserver>,
    /// The referrals to other metaservers; `None` if this server is the only metaserver.
    referral: Option<Arc<Referral>>,
}

impl Answering {
    /// Creates the router over the service and the programs of metaservers.
    pub(crate) fn by(service: &Arc<Service>, serving: &Serving) -> Self {
        let referral = Referral::of(serving).map(Arc::new);
        Self { service: Arc::clone(service), metaserver: serving.metaserver(), referral }
    }
}

impl Handler for Answering {
    fn answer(&self, arrival: Arrival, message: Bytes, mut writer: Writer) -> Response {
        if let Some(metaserver) = &self.metaserver
            && let Ok(call) = Call::decode(&mut Reader::new(&message))
        {
            let is_by_stream = arrival.transport() == Transport::Stream;
            if call.program == PROGRAM && is_by_stream {
                return metaserver.answer(&message, writer).into();
            }
            if call.program == binding::PROGRAM
                && is_by_stream
                && let Some(referral) = &self.referral
            {
                return referral.answer(&self.service, arrival.from.ip(), &message, writer);
            }
            // A lazy metaserver grants no leases: it cannot recall leases when another metaserver
            // changes a file, and it cannot notify an NQNFS client of changes that leases do not
            // cover. So it rejects the lease programs.
            let grants = metaserver.lends() && call.program == lease::PROGRAM;
            if [lease::PROGRAM, nqnfs::PROGRAM].contains(&call.program) && !grants {
                let (xid, status) = (call.xid, ReplyStatus::ProgramUnavailable);
                Reply { xid, status }.encode(&mut writer);
                return MaybeReady::now(Some(writer.finish())).into();
            }
        }
        self.service.answer(arrival, message, writer)
    }

    fn connection_closed(&self, from: SocketAddr, connection: ConnectionId) {
        self.service.connection_closed(from, connection);
    }

    fn wake(&self, now: Time) -> Option<Time> {
        self.service.wake(now)
    }
}
