//! Listing directories: READDIR.

use leasehold_base::limits::TRANSFER_V2_BYTES_MAX;
use leasehold_base::xdr::{Encode, Writer};
use leasehold_fs::{Allowance, Budget, FsError, Page, Wanted, ops};
use leasehold_wire::list::ListOf;
use leasehold_wire::nfs2::{self as wire, Name};

use super::convert;
use crate::context::Context;
use crate::procedure::Refusal;

pub(super) async fn readdir(
    context: &Context,
    args: wire::readdir::Args,
) -> Result<NamePage, Refusal<()>> {
    let target = context.target(&args.directory.0).await?;
    let cookie = context.service.cookies.widen(&target, args.cookie).await?;
    let count = args.count.min(TRANSFER_V2_BYTES_MAX);
    let bytes = count.checked_sub(wire::readdir::EMPTY_BYTES).ok_or(FsError::TooSmall)?;
    let budget = Budget {
        reply: Allowance { bytes, entry_bytes: wire::readdir::ENTRY_BYTES },
        names: Allowance::UNLIMITED,
    };
    let directory = &target.object;
    let page = ops::readdir(&target.request, directory, cookie, budget, Wanted::Names).await?;
    let cookies =
        context.service.cookies.tell(&target, page.entries.iter().map(|entry| entry.cookie));
    Ok(NamePage { page, cookies })
}

/// A page of names, encoded entry by entry, with cookies of 4 bytes.
pub(super) struct NamePage {
    page: Page,
    cookies: Vec<wire::Cookie>,
}

impl Encode for NamePage {
    fn encode(&self, writer: &mut Writer) {
        let entries = ListOf(|| {
            self.page.entries.iter().zip(&self.cookies).map(|(entry, cookie)| {
                wire::readdir::Entry {
                    file_id: convert::file_id(entry.file_id),
                    name: Name(entry.name),
                    cookie: *cookie,
                }
            })
        });
        wire::readdir::Done { entries, end: self.page.end }.encode(writer);
    }
}
