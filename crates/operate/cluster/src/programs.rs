//! The programs of a metaserver that are not in the procedure table.

use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::xdr::Writer;
use leasehold_serve::router::{Row, Transports};
use leasehold_serve::{Arrival, Program, Response, Service};
use leasehold_store_replica::Metaserver;
use leasehold_wire::{binding, lease, nqnfs, replica};

use crate::Referral;
use crate::referral::Binding;

/// Returns the rows of the router for one of several metaservers.
#[must_use]
pub fn programs(service: &Arc<Service>, metaserver: &Metaserver, referral: Referral) -> Vec<Row> {
    let (referral, service) = (Arc::new(referral), Arc::clone(service));
    let mut rows = vec![
        row(replica::PROGRAM, replica::VERSION, Arc::new(Peers(metaserver.clone()))),
        row(binding::PROGRAM, binding::VERSION, Arc::new(Binding { referral, service })),
        // NQNFS clients need a notice of each change, also of changes that leases do not cover.
        Row::unavailable(nqnfs::PROGRAM),
    ];
    if !metaserver.lends() {
        // A lazy metaserver grants no leases, because it cannot recall leases when another
        // metaserver changes a file.
        rows.push(Row::unavailable(lease::PROGRAM));
    }
    rows
}

fn row(number: u32, version: u32, handler: Arc<dyn Program>) -> Row {
    Row { number, versions: version..=version, transports: Transports::Streams, handler }
}

/// The program that metaservers use among themselves.
struct Peers(Metaserver);

impl Program for Peers {
    fn answer(&self, _: Arrival, message: Bytes, writer: Writer) -> Response {
        self.0.answer(&message, writer).into()
    }
}
