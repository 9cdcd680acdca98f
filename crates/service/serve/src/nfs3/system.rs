//! File system properties: FSSTAT, FSINFO and PATHCONF.

use leasehold_fs::ops;
use leasehold_wire::nfs3 as wire;

use super::{After, convert};
use crate::context::Context;
use crate::procedure::Refusal;

/// The preferred size of READDIR and READDIRPLUS, in bytes: enough for hundreds of entries, and
/// small relative to a client's memory.
const DIRECTORY_BYTES_BEST: u32 = 64 << 10;

/// The recommended multiple of the sizes of READs and WRITEs, in bytes. Reads and writes of whole
/// pages use the page cache without extra work.
const PAGE_BYTES: u32 = 4096;

pub(super) async fn fsstat(
    context: &Context,
    args: wire::fsstat::Args,
) -> Result<wire::fsstat::Done, Refusal<After>> {
    let target = context.target(args.root.as_bytes()).await?;
    let (space, attributes) = ops::space(&target.request, &target.object).await?;
    Ok(wire::fsstat::Done {
        attributes: Some(convert::attributes(&attributes)),
        bytes: space.bytes,
        free_bytes: space.free_bytes,
        available_bytes: space.available_bytes,
        files: space.files,
        free_files: space.free_files,
        available_files: space.available_files,
        // Other programs use the same file system and may change its free space at any time, so the
        // server guarantees no period.
        steady_seconds: 0,
    })
}

pub(super) async fn fsinfo(
    context: &Context,
    args: wire::fsinfo::Args,
) -> Result<wire::fsinfo::Done, Refusal<After>> {
    let target = context.target(args.root.as_bytes()).await?;
    let attributes = ops::getattr(&target.request, &target.object).await?;
    let properties = target.request.export.store.properties(&target.object);
    let bytes_max = target.offer.transfer_bytes_max(context.arrival.transport());
    Ok(wire::fsinfo::Done {
        attributes: Some(convert::attributes(&attributes)),
        read_bytes_max: bytes_max,
        read_bytes_best: bytes_max,
        read_bytes_multiple: PAGE_BYTES,
        write_bytes_max: bytes_max,
        write_bytes_best: bytes_max,
        write_bytes_multiple: PAGE_BYTES,
        directory_bytes_best: DIRECTORY_BYTES_BEST.min(bytes_max),
        file_bytes_max: properties.file_bytes_max,
        time_step: convert::time_step(properties.time_step),
        properties: wire::fsinfo::Properties {
            links: properties.links,
            symlinks: properties.symlinks,
            homogeneous: true,
            can_set_time: properties.can_set_time,
        },
    })
}

pub(super) async fn pathconf(
    context: &Context,
    args: wire::pathconf::Args,
) -> Result<wire::pathconf::Done, Refusal<After>> {
    let target = context.target(args.object.as_bytes()).await?;
    let attributes = ops::getattr(&target.request, &target.object).await?;
    let properties = target.request.export.store.properties(&target.object);
    Ok(wire::pathconf::Done {
        attributes: Some(convert::attributes(&attributes)),
        link_max: properties.link_max,
        name_bytes_max: properties.name_bytes_max,
        refuses_long_names: true,
        chown_restricted: properties.chown_restricted,
        case_insensitive: properties.case_insensitive,
        case_preserving: true,
    })
}
