//! What there is: DUMP and EXPORT.

use leasehold_base::xdr::{Encode, Writer};
use leasehold_wire::list::{List, ListOf};
use leasehold_wire::mount::{Name, Path, dump as wire_dump, export as wire_export};

use super::table::Mount;
use crate::context::Context;
use crate::procedure::Refusal;

pub(super) async fn dump(context: &Context, (): ()) -> Result<Mounts, Refusal<()>> {
    Ok(Mounts(context.service.mounts.list()))
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
    let names = context.service.exports.iter().map(|export| format!("/{}", export.name));
    Ok(Exports(names.collect()))
}

/// The names of all exports, each for everybody.
pub(super) struct Exports(Vec<String>);

impl Encode for Exports {
    fn encode(&self, writer: &mut Writer) {
        ListOf(|| {
            self.0.iter().map(|name| wire_export::Entry {
                directory: Path(name.as_bytes()),
                groups: List(Vec::new()),
            })
        })
        .encode(writer);
    }
}
