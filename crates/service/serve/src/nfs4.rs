//! The front end of versions 4.1 and 4.2 (RFC 8881, RFC 7862).
//!
//! COMPOUND is one procedure with many operations: [`compound`] interprets a compound, and
//! [`operations`] is the table of the operations. [`clients`] owns the clients and their sessions,
//! [`state`] owns their opens and locks, and [`pseudo`] is the tree of directories above the
//! exports. `docs/design/0039-nfs4.md` lists the parts that are not built yet.

mod attribute_ops;
mod attributes;
mod callbacks;
mod changes;
mod clients;
mod compound;
mod convert;
mod counts;
mod data;
mod handles;
mod locks;
mod names;
mod objects;
mod opens;
mod operations;
mod properties;
mod pseudo;
mod ranges;
mod recovery;
#[cfg(test)]
mod reference;
mod sessions;
mod stable;
mod state;
mod statuses;
mod view;
mod xattrs;

use core::net::SocketAddr;
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use leasehold_base::units::{ConnectionId, Time};
use leasehold_base::xdr::{Encode as _, Reader, Writer};
use leasehold_fs::MaybeReady;
use leasehold_wire::nfs4::COMPOUND;
use leasehold_wire::rpc::{Call, Reply, ReplyStatus};

use crate::router::{Program, Row, Transports};
use crate::service::refuse;
use crate::table::NULL;
use crate::{Arrival, HandleKey, Response, Service};
use leasehold_leases::Post;

use clients::Clients;
pub use counts::OperationCounts;
pub use stable::{ClientLedger, ClientRecords, NoClientRecords};
pub use view::{Nfs4Client, Nfs4Totals};

/// Version 4 of NFS over a service.
pub struct Nfs4 {
    service: Arc<Service>,
    clients: Arc<Clients>,
}

impl Nfs4 {
    /// Creates the front end over a service, without stable storage: no client may reclaim its state
    /// after a restart. `epoch` is not zero, and greater than in each earlier
    /// run of the server; `key` determines the name of the server.
    #[must_use]
    pub fn new(service: Arc<Service>, key: HandleKey, epoch: u32, now: Time) -> Self {
        let of = (Arc::clone(&service), key.server_name());
        let records = ClientRecords::default().begin_run(0, u64::from(epoch));
        let clients = Clients::new(of, (records, None), now);
        Self { service, clients: Arc::new(clients) }
    }

    /// Creates the front end of a server with stable storage for its client records. `records` are
    /// the records of this run, which are stored already, and whose clients may reclaim their state
    /// in the grace period, which begins now.
    #[must_use]
    pub fn restarted(
        service: Arc<Service>,
        key: HandleKey,
        (records, ledger): (ClientRecords, Arc<dyn ClientLedger>),
        now: Time,
    ) -> Self {
        let of = (Arc::clone(&service), key.server_name());
        let clients = Clients::new(of, (records, Some(ledger)), now);
        Self { service, clients: Arc::new(clients) }
    }

    /// Sets the sender of callbacks.
    pub fn call_clients_by(&self, post: Arc<dyn Post>) {
        self.clients.call_by(post);
    }

    /// Returns the row of the router for a front end.
    #[must_use]
    pub fn row(self: &Arc<Self>) -> Row {
        Row {
            number: leasehold_wire::nfs4::PROGRAM,
            versions: leasehold_wire::nfs4::VERSION..=leasehold_wire::nfs4::VERSION,
            // RFC 8881 2.9.1: a transport must control congestion.
            transports: Transports::Streams,
            handler: Arc::<Self>::clone(self),
        }
    }
}

impl Program for Nfs4 {
    fn answer(&self, arrival: Arrival, mut message: Bytes, mut writer: Writer) -> Response {
        let mut reader = Reader::new(&message);
        let Ok(call) = Call::decode(&mut reader) else { return MaybeReady::now(None).into() };
        let xid = call.xid;
        let context = match self.service.context(arrival, &call) {
            Ok(context) => context,
            Err(status) => return refuse(&Reply { xid, status }, writer),
        };
        match call.procedure {
            NULL => {
                Reply { xid, status: ReplyStatus::Success }.encode(&mut writer);
                MaybeReady::now(Some(writer.finish())).into()
            }
            COMPOUND => {
                let head_bytes = message.len() - reader.rest().len();
                message.advance(head_bytes);
                let clients = Arc::clone(&self.clients);
                let reply = compound::run(context, clients, (xid, head_bytes), message, writer);
                // A retry of the request must receive the reply of this run.
                Response { reply: MaybeReady::Later(reply), must_end: true }
            }
            _ => refuse(&Reply { xid, status: ReplyStatus::ProcedureUnavailable }, writer),
        }
    }

    fn replied(&self, arrival: &Arrival, message: &Bytes) -> bool {
        let connection = arrival.connection;
        connection.is_some_and(|from| self.clients.answered(arrival.now, from, message))
    }

    fn connection_closed(&self, _: SocketAddr, connection: ConnectionId) {
        self.clients.connection_closed(connection);
    }

    fn wake(&self, now: Time) -> Option<Time> {
        self.clients.wake(now)
    }
}
