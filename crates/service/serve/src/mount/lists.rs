//! What there is: DUMP and EXPORT.

use leasehold_base::xdr::{Encode, Writer};
use leasehold_wire::list::{List, ListOf};
use leasehold_wire::mount::{Name, Path, dump as wire_dump, export as wire_export};

use super::table::Mount;
use crate::Transport;
use crate::context::Context;
use crate::exports::plain_path;
use crate::procedure::Refusal;

/// The address on a datagram may be another's, who would be sent a long list for a short
/// question: so that one is told no more than what it mounted itself.
pub(super) async fn dump(context: &Context, (): ()) -> Result<Mounts, Refusal<()>> {
    let mounts = &context.service.mounts;
    Ok(Mounts(match context.arrival.transport() {
        Transport::Stream => mounts.list(),
        Transport::Datagram => mounts.list_of(context.arrival.from.ip()),
    }))
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

pub(super) async fn export(context: &Context, (): ()) -> Result<Exports, Refusal<()>> {
    Ok(Exports(context.service.exports.iter().map(|export| plain_path(export, b"")).collect()))
}

/// The names of all exports, each for everybody.
pub(super) struct Exports(Vec<Vec<u8>>);

impl Encode for Exports {
    fn encode(&self, writer: &mut Writer) {
        ListOf(|| {
            self.0
                .iter()
                .map(|name| wire_export::Entry { directory: Path(name), groups: List(Vec::new()) })
        })
        .encode(writer);
    }
}
