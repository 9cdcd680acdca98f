//! Mounting and unmounting: MNT, UMNT, UMNTALL, and PATHCONF of version 2.

use leasehold_fs::{FileType, FsError, ops};
use leasehold_leases::HandleBytes;
use leasehold_wire::mount::{Path, mnt, pathconf as wire_pathconf};
use leasehold_wire::rpc::flavor;
use leasehold_wire::{nfs2, nfs3};

use crate::context::{Context, Target};
use crate::events::Event;
use crate::exports::{names, plain_path};
use crate::procedure::Refusal;

/// The accepted authentication flavours. AUTH_SYS, which distinguishes users, precedes AUTH_NONE,
/// because clients take the first flavour that they support.
const FLAVORS: [u32; 2] = [flavor::SYS, flavor::NONE];

pub(super) async fn mnt(context: &Context, path: Path<'_>) -> Result<mnt::Done, Refusal<()>> {
    let directory = mount(context, path.0).await?;
    Ok(mnt::Done {
        directory: nfs3::Handle::from(directory),
        flavors: mnt::Flavors(FLAVORS.to_vec()),
    })
}

pub(super) async fn old_mnt(
    context: &Context,
    path: Path<'_>,
) -> Result<nfs2::Handle, Refusal<()>> {
    Ok(nfs2::Handle(mount(context, path.0).await?))
}

async fn mount(context: &Context, path: &[u8]) -> Result<HandleBytes, FsError> {
    let service = &context.service;
    let from = context.arrival.from;
    match walk(context, path).await {
        Ok(directory) => {
            let mut path = path;
            if let Some((offer, below)) = context.exports.by_path(path, from.ip()) {
                service.mounts.add(from.ip(), plain_path(&offer.export, below));
                if offer.secret.is_some() {
                    path = offer.export.name.as_bytes();
                }
            }
            service.observer.event(&Event::Mounted { from, path });
            Ok(service.handles.seal(directory.request.export.id, &directory.object))
        }
        Err(error) => {
            let exports = &context.exports;
            let hidden = exports.meant(path).filter(|offer| !offer.access.has(from.ip()));
            let hidden = hidden.map(|offer| &*offer.export.name);
            service.observer.event(&Event::MountRefused { from, path, error, hidden, exports });
            Err(error)
        }
    }
}

/// Returns the directory of a path: the root of an export, or a directory below that root.
async fn walk<'a>(context: &'a Context, path: &[u8]) -> Result<Target<'a>, FsError> {
    let client = context.arrival.from.ip();
    let (offer, below) = context.exports.by_path(path, client).ok_or(FsError::NotFound)?;
    let mut target = context.target_in(offer, offer.export.store.root()).await?;
    for name in names(below) {
        let found = ops::lookup(&target.request, &target.object, name)
            .await
            .map_err(|failed| failed.error)?;
        if found.attributes.file_type != FileType::Directory {
            return Err(FsError::NotDirectory);
        }
        target.object = found.object;
    }
    Ok(target)
}

pub(super) async fn umnt(context: &Context, path: Path<'_>) -> Result<(), Refusal<()>> {
    let client = context.arrival.from.ip();
    if let Some((offer, below)) = context.exports.by_path(path.0, client) {
        context.service.mounts.remove(client, plain_path(&offer.export, below));
    }
    Ok(())
}

pub(super) async fn umntall(context: &Context, (): ()) -> Result<(), Refusal<()>> {
    context.service.mounts.remove_all(context.arrival.from.ip());
    Ok(())
}

/// The mask of version 2's PATHCONF, with bit numbers of POSIX's limits in SunOS, the origin of the
/// procedure. A bit is set for an undefined limit, and for a property that holds.
mod mask {
    const WITHOUT_TERMINAL: u32 = 1 << 2 | 1 << 3 | 1 << 8;
    const WITHOUT_PIPE: u32 = 1 << 6;
    const REFUSES_LONG_NAMES: u32 = 1 << 7;
    const CHOWN_RESTRICTED: u32 = 1 << 9;

    /// Returns the mask of a directory; properties of terminals and pipes are undefined.
    pub(super) const fn of_directory(chown_restricted: bool) -> u32 {
        let chown = if chown_restricted { CHOWN_RESTRICTED } else { 0 };
        WITHOUT_TERMINAL | WITHOUT_PIPE | REFUSES_LONG_NAMES | chown
    }
}

/// PATHCONF of version 2. Returns only the limits that hold for every path: the limits of links,
/// names and paths.
pub(super) async fn pathconf(
    context: &Context,
    path: Path<'_>,
) -> Result<wire_pathconf::Reply, Refusal<()>> {
    let Ok(directory) = walk(context, path.0).await else {
        return Ok(wire_pathconf::Reply { mask: u32::MAX, ..Default::default() });
    };
    let properties = directory.request.export.store.properties(&directory.object);
    Ok(wire_pathconf::Reply {
        link_max: properties.link_max,
        name_bytes_max: properties.name_bytes_max,
        path_bytes_max: leasehold_base::limits::PATH_V2_BYTES_MAX,
        mask: mask::of_directory(properties.chown_restricted),
        ..Default::default()
    })
}
