//! Listing directories: READDIR and READDIRPLUS.

use std::sync::Arc;

use leasehold_base::limits::DIRECTORY_REPLY_BYTES_MAX;
use leasehold_base::xdr::{Encode, Writer};
use leasehold_fs::{Allowance, Budget, ExportId, FsError, Page, Wanted, ops};
use leasehold_wire::list::ListOf;
use leasehold_wire::nfs3::{self as wire, Name};

use super::{After, convert};
use crate::context::Context;
use crate::procedure::Refusal;
use crate::{Service, Transport};

/// The cookie verifier. Cookies stay valid as long as their directory exists, so the verifier never
/// changes.
const VERIFIER: [u8; 8] = [0; 8];

pub(super) async fn readdir(
    context: &Context,
    args: wire::readdir::Args,
) -> Result<NamePage, Refusal<After>> {
    let target = context.target(args.directory.as_bytes()).await?;
    let bytes = entry_bytes(context, args.count, wire::readdir::EMPTY_BYTES)?;
    let budget = Budget {
        reply: Allowance { bytes, entry_bytes: wire::readdir::ENTRY_BYTES },
        names: Allowance::UNLIMITED,
    };
    let directory = &target.object;
    ops::readdir(&target.request, directory, args.cookie, budget, Wanted::Names)
        .await
        .map(NamePage)
        .map_err(Into::into)
}

pub(super) async fn readdirplus(
    context: &Context,
    args: wire::readdirplus::Args,
) -> Result<Everything, Refusal<After>> {
    let target = context.target(args.directory.as_bytes()).await?;
    let bytes = entry_bytes(context, args.count, wire::readdirplus::EMPTY_BYTES)?;
    // Some clients request very few bytes, so the budget for names always permits one entry.
    // Otherwise the listing could not continue.
    let one = wire::readdir::ENTRY_BYTES
        + target.request.export.store.properties(&target.object).name_bytes_max;
    let budget = Budget {
        reply: Allowance { bytes, entry_bytes: wire::readdirplus::ENTRY_BYTES },
        names: Allowance {
            bytes: args.names_count.max(one),
            entry_bytes: wire::readdir::ENTRY_BYTES,
        },
    };
    let directory = &target.object;
    let page =
        ops::readdir(&target.request, directory, args.cookie, budget, Wanted::Everything).await?;
    Ok(Everything { page, export: target.request.export.id, service: Arc::clone(&context.service) })
}

/// Returns the bytes for entries in a reply of at most `count` bytes.
fn entry_bytes(context: &Context, count: u32, empty_bytes: u32) -> Result<u32, FsError> {
    let most = match context.arrival.transport() {
        Transport::Stream => DIRECTORY_REPLY_BYTES_MAX,
        Transport::Datagram => context.arrival.transport().transfer_bytes_max(),
    };
    count.min(most).checked_sub(empty_bytes).ok_or(FsError::TooSmall)
}

/// A page of names, which the front end encodes entry by entry without a second list.
pub(super) struct NamePage(Page);

impl Encode for NamePage {
    fn encode(&self, writer: &mut Writer) {
        let entries = || {
            self.0.entries.iter().map(|entry| wire::readdir::Entry {
                file_id: entry.file_id,
                name: Name(entry.name),
                cookie: entry.cookie,
            })
        };
        encode(&self.0, ListOf(entries), writer);
    }
}

/// A page of names with handles and attributes.
pub(super) struct Everything {
    page: Page,
    export: ExportId,
    service: Arc<Service>,
}

impl Encode for Everything {
    fn encode(&self, writer: &mut Writer) {
        let handles = &self.service.handles;
        let entries = || {
            self.page.entries.iter().map(|entry| wire::readdirplus::Entry {
                file_id: entry.file_id,
                name: Name(entry.name),
                cookie: entry.cookie,
                attributes: entry.attributes.as_ref().map(convert::attributes),
                object: entry
                    .object
                    .map(|object| wire::Handle::from(handles.seal(self.export, &object))),
            })
        };
        encode(&self.page, ListOf(entries), writer);
    }
}

fn encode(page: &Page, entries: impl Encode, writer: &mut Writer) {
    wire::readdir::Done {
        attributes: Some(convert::attributes(&page.attributes)),
        verifier: VERIFIER,
        entries,
        end: page.end,
    }
    .encode(writer);
}
