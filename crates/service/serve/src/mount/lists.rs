//! What there is: DUMP and EXPORT.

use leasehold_base::xdr::{Encode, Writer};
use leasehold_wire::list::{List, ListOf};
use leasehold_wire::mount::{Name, Path, dump as wire_dump, export as wire_export};

use super::table::Mount;
use crate::Transport;
use crate::context::Context;
use crate::exports::{Offer, plain_path};
use crate::procedure::Refusal;

/// The address on a datagram may be another's, who would be sent a long list for a short
/// question: so that one is told no more than what it mounted itself.
pub(super) async fn dump(context: &Context, (): ()) -> Result<Mounts, Refusal<()>> {
    let (mounts, asking) = (&context.service.mounts, context.arrival.from.ip());
    let mut mounts = match context.arrival.transport() {
        Transport::Stream => mounts.list(),
        Transport::Datagram => mounts.list_of(asking),
    };
    // Rules may have changed since; and nobody learns here of an export that is hidden from it.
    mounts.retain(|(client, path)| {
        let access = context.exports.meant(path).map(|offer| &offer.access);
        access.is_some_and(|access| [*client, asking].into_iter().all(|one| access.has(one)))
    });
    Ok(Mounts(mounts))
}

/// Who mounted what.
pub(super) struct Mounts(Vec<Mount>);

impl Encode for Mounts {
    fn encode(&self, writer: &mut Writer) {
        for (client, path) in &self.0 {
            let host = client.to_string();
            true.encode(writer);
            wire_dump::Entry { host: Name(host.as_bytes()), directory: Path(path) }.encode(writer);
        }
        false.encode(writer);
    }
}

/// Over datagrams, for the same reason, who else may mount an export is left out.
pub(super) async fn export(context: &Context, (): ()) -> Result<Exports, Refusal<()>> {
    let client = context.arrival.from.ip();
    let entry = |offer: &Offer| {
        let rules = offer.access.rules().iter();
        let named = rules.flat_map(|rule| &rule.clients).filter(|clients| {
            context.arrival.transport() == Transport::Stream
                || clients.networks.iter().any(|network| network.contains(client))
        });
        let names: Vec<Vec<u8>> = named.map(|clients| clients.text.clone().into_bytes()).collect();
        let everybody = names.iter().any(|name| name == b"*");
        Entry {
            path: plain_path(&offer.export, b""),
            // To name nobody is how the protocol says that everybody may.
            names: if everybody { Vec::new() } else { names },
        }
    };
    let told = context.exports.found_by(client).filter(|offer| offer.secret.is_none());
    Ok(Exports(told.map(entry).collect()))
}

/// The exports that a client finds, and who may mount each.
pub(super) struct Exports(Vec<Entry>);

struct Entry {
    path: Vec<u8>,
    names: Vec<Vec<u8>>,
}

impl Encode for Exports {
    fn encode(&self, writer: &mut Writer) {
        ListOf(|| {
            self.0.iter().map(|Entry { path, names }| wire_export::Entry {
                directory: Path(path),
                groups: List(names.iter().map(|name| Name(name)).collect()),
            })
        })
        .encode(writer);
    }
}
