//! The lists of mounts and exports: DUMP and EXPORT.

use leasehold_base::xdr::{Encode, Writer};
use leasehold_wire::list::List;
use leasehold_wire::mount::{Name, Path, dump as wire_dump, export as wire_export};

use super::table::Mount;
use crate::Transport;
use crate::context::Context;
use crate::exports::{Offer, plain_path};
use crate::procedure::Refusal;

/// The maximum size of a list's entries in a datagram, in bytes; the server omits the other
/// entries. A datagram does not prove its source address, so an attacker could direct a long list
/// at a victim. This size is enough for a few exports.
const DATAGRAM_LIST_BYTES_MAX: usize = 224;

/// Truncates a list to the entries that the server may send to the caller.
fn told<T: Encode>(context: &Context, mut entries: Vec<T>) -> Vec<T> {
    if context.arrival.transport() == Transport::Datagram {
        let mut left = DATAGRAM_LIST_BYTES_MAX;
        let fit = entries.iter().take_while(|entry| {
            let mut writer = Writer::new();
            true.encode(&mut writer);
            entry.encode(&mut writer);
            let rest = left.checked_sub(writer.finish().len());
            left = rest.unwrap_or(0);
            rest.is_some()
        });
        let count = fit.count();
        entries.truncate(count);
    }
    entries
}

/// DUMP. The source address of a datagram may be forged, so a reply by datagram contains only the
/// mounts of that address. A long reply to a short call would amplify an attack.
pub(super) async fn dump(context: &Context, (): ()) -> Result<Mounts, Refusal<()>> {
    let (mounts, asking) = (&context.service.mounts, context.arrival.from.ip());
    let mut mounts = match context.arrival.transport() {
        Transport::Stream => mounts.list(),
        Transport::Datagram => mounts.list_of(asking),
    };
    // The access rules may have changed since a client mounted. The list therefore omits mounts of
    // exports that are hidden from the calling client.
    mounts.retain(|(client, path)| {
        let access = context.exports.meant(path).map(|offer| &offer.access);
        access.is_some_and(|access| [*client, asking].into_iter().all(|one| access.has(one)))
    });
    let mounts = mounts.into_iter().map(Mounted).collect();
    Ok(List(told(context, mounts)))
}

/// The reply to DUMP: clients, each with a path that it has mounted.
pub(super) type Mounts = List<Mounted>;

/// A client, and the path that it mounted.
pub(super) struct Mounted(Mount);

impl Encode for Mounted {
    fn encode(&self, writer: &mut Writer) {
        let (client, path) = &self.0;
        let host = client.to_string();
        wire_dump::Entry { host: Name(host.as_bytes()), directory: Path(path) }.encode(writer);
    }
}

/// EXPORT. Because a source address may be forged, a list over datagrams is truncated and omits the
/// other clients that may mount an export.
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
            // In the protocol an empty list of names means all clients.
            names: if everybody { Vec::new() } else { names },
        }
    };
    let found = context.exports.found_by(client).filter(|offer| offer.secret.is_none());
    Ok(List(told(context, found.map(entry).collect())))
}

/// The reply to EXPORT: the exports that are visible to a client, each with the clients that may
/// mount the export.
pub(super) type Exports = List<Entry>;

/// An export, with the clients that may mount the export.
pub(super) struct Entry {
    path: Vec<u8>,
    names: Vec<Vec<u8>>,
}

impl Encode for Entry {
    fn encode(&self, writer: &mut Writer) {
        let Self { path, names } = self;
        let groups = List(names.iter().map(|name| Name(name)).collect());
        wire_export::Entry { directory: Path(path), groups }.encode(writer);
    }
}
