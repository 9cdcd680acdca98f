//! What a directory holds: READDIR.

use leasehold_base::limits::TRANSFER_V2_BYTES_MAX;
use leasehold_base::xdr::{Encode, Writer};
use leasehold_fs::{Allowance, Budget, FsError, Page, Wanted, ops};
use leasehold_wire::list::ListOf;
use leasehold_wire::nfs2::{self as wire, Name};

use super::{convert, cookies};
use crate::context::Context;
use crate::procedure::Refusal;

pub(super) async fn readdir(
    context: &Context,
    args: wire::readdir::Args,
) -> Result<Names, Refusal<()>> {
    let target = context.target(&args.directory.0)?;
    let cookie = context.service.cookies.widen(&target, args.cookie).await?;
    let count = args.count.min(TRANSFER_V2_BYTES_MAX);
    let bytes = count.checked_sub(wire::readdir::EMPTY_BYTES).ok_or(FsError::TooSmall)?;
    let budget = Budget {
        reply: Allowance { bytes, entry_bytes: wire::readdir::ENTRY_BYTES },
        names: Allowance::UNLIMITED,
    };
    let directory = &target.object;
    let page = ops::readdir(&target.request, directory, cookie, budget, Wanted::Names).await?;
    context.service.cookies.remember(&target, page.entries.iter().map(|entry| entry.cookie));
    Ok(Names(page))
}

/// A page of names: written entry by entry, without a second list.
pub(super) struct Names(Page);

impl Encode for Names {
    fn encode(&self, writer: &mut Writer) {
        let entries = ListOf(|| {
            self.0.entries.iter().map(|entry| wire::readdir::Entry {
                file_id: convert::file_id(entry.file_id),
                name: Name(entry.name),
                cookie: cookies::narrow(entry.cookie),
            })
        });
        wire::readdir::Done { entries, end: self.0.end }.encode(writer);
    }
}
