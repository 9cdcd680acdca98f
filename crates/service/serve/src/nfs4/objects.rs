//! Operations that read objects: ACCESS, READLINK and READDIR.

use leasehold_base::limits::DIRECTORY_REPLY_BYTES_MAX;
use leasehold_base::units::Cookie;
use leasehold_base::xdr::{Encode, Writer};
use leasehold_fs::{self as fs, Allowance, Budget, FileType, FsError, Page, Wanted, ops};
use leasehold_wire::nfs4::readdir::{Entry, Listing};
use leasehold_wire::nfs4::{
    self as wire, Attribute, Attributes, Bitmap, CookieVerifier, Name, Status, access, readdir,
};

use super::attribute_ops;
use super::compound::{Compound, Place};
use super::convert;
use super::operations::Encoded;
use super::pseudo::NodeId;

/// The number that the server adds to each cookie of a store, because version 4 reserves the
/// cookies 0, 1 and 2 (RFC 8881 18.23.3).
const COOKIE_SHIFT: u64 = 3;

/// The size of an entry in a reply without name and attributes, in bytes: the flag of the list, the
/// cookie, and the length of the name.
const ENTRY_BYTES: u32 = 4 + 8 + 4;

pub(super) async fn access(
    compound: &mut Compound,
    args: access::Args,
) -> Result<access::Done, Status> {
    let access::Access { read, lookup, modify, extend, delete, execute, .. } = args.access;
    let wanted = fs::Access { read, lookup, modify, extend, delete, execute };
    if let Place::Node(_) = compound.place()? {
        let granted = fs::Access { modify: false, extend: false, delete: false, ..wanted };
        return Ok(access::Done { supported: shown(wanted), access: shown(granted) });
    }
    let target = compound.target(Status::ServerFault).await?;
    let granted = ops::access(&target.request, &target.object, wanted).await;
    let (granted, attributes) = granted.map_err(|failed| convert::status(failed.error))?;
    // LOOKUP and DELETE have no meaning for other objects, and EXECUTE none for directories.
    let is_directory = attributes.file_type == FileType::Directory;
    let supported = match is_directory {
        true => fs::Access { execute: false, ..wanted },
        false => fs::Access { lookup: false, delete: false, ..wanted },
    };
    Ok(access::Done { supported: shown(supported), access: shown(granted.and(supported)) })
}

/// Converts kinds of access. The server does not decide access to extended attributes.
fn shown(access: fs::Access) -> access::Access {
    let fs::Access { read, lookup, modify, extend, delete, execute } = access;
    access::Access { read, lookup, modify, extend, delete, execute, ..Default::default() }
}

/// The target of a symbolic link.
pub(super) struct Target(fs::Target);

impl Encode for Target {
    fn encode(&self, writer: &mut Writer) {
        writer.opaque(&self.0);
    }
}

pub(super) async fn readlink(compound: &mut Compound, (): ()) -> Result<Target, Status> {
    let target = compound.target(Status::WrongType).await?;
    match ops::readlink(&target.request, &target.object).await {
        Ok((path, _)) => Ok(Target(path)),
        Err(failed) if failed.error == FsError::Invalid => Err(Status::WrongType),
        Err(failed) => Err(convert::status(failed.error)),
    }
}

pub(super) async fn readdir(
    compound: &mut Compound,
    args: readdir::Args,
) -> Result<Encoded, Status> {
    let place = compound.place()?;
    if attribute_ops::has_write_only(&args.requested) {
        return Err(Status::Invalid);
    }
    if [1, 2].contains(&args.cookie.0) {
        return Err(Status::BadCookie);
    }
    // The reply without its status must fit into the count of the client (RFC 8881 18.23.3).
    let most = args.count.min(DIRECTORY_REPLY_BYTES_MAX) as usize;
    let most = most.min(compound.reply_bytes_left());
    if most < readdir::EMPTY_BYTES as usize {
        return Err(Status::TooSmall);
    }
    let mut writer = Writer::new();
    let mut listing = Listing::new(&mut writer, CookieVerifier([0; 8]), most);
    let end = match place {
        Place::Node(node) => list_node(compound, node, &args, &mut listing).await?,
        Place::Top(..) | Place::Object(..) => {
            list_object(compound, &args, most, &mut listing).await?
        }
    };
    if listing.is_empty() && !end {
        return Err(Status::TooSmall);
    }
    listing.finish(end);
    Ok(Encoded::from(writer))
}

/// Lists a directory above the exports. The cookie of an entry is its position. Returns true at the
/// end of the directory.
async fn list_node(
    compound: &Compound,
    node: NodeId,
    args: &readdir::Args,
    listing: &mut Listing<'_>,
) -> Result<bool, Status> {
    let first = args.cookie.0.saturating_sub(COOKIE_SHIFT - 1);
    let first = usize::try_from(first).unwrap_or(usize::MAX);
    for (index, entry) in compound.pseudo().list(node).iter().enumerate().skip(first) {
        let cookie = Cookie(index as u64 + COOKIE_SHIFT);
        let (name, place) = (Name(entry.name), compound.place_of(&entry.step));
        let is_added = match attribute_ops::of_place(compound, place, &args.requested).await {
            Ok(attributes) => listing.append(&Entry { cookie, name, attributes }),
            Err(status) => append_error(listing, (cookie, name), &args.requested, status)?,
        };
        if !is_added {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Lists the current directory. Returns true at its end.
async fn list_object(
    compound: &Compound,
    args: &readdir::Args,
    most: usize,
    listing: &mut Listing<'_>,
) -> Result<bool, Status> {
    let target = compound.target(Status::ServerFault).await?;
    let mut cookie = Cookie(args.cookie.0.saturating_sub(COOKIE_SHIFT));
    loop {
        let page = page(&target, cookie, most, &args.requested).await?;
        for entry in page.entries.iter() {
            cookie = entry.cookie;
            if entry.name == b"." || entry.name == b".." {
                continue;
            }
            let (shown, name) = (Cookie(cookie.0.wrapping_add(COOKIE_SHIFT)), Name(entry.name));
            let found = attribute_ops::of_entry(compound, &target, &entry, &args.requested).await;
            let is_added = match found {
                Ok(attributes) => listing.append(&Entry { cookie: shown, name, attributes }),
                // A name that is gone meanwhile is no longer part of the directory.
                Err(Status::NotFound | Status::Stale) => true,
                Err(status) => append_error(listing, (shown, name), &args.requested, status)?,
            };
            if !is_added {
                return Ok(false);
            }
        }
        if page.end {
            return Ok(true);
        }
        // The store's page was full, but the entries `.` and `..` took a part of it.
        if !listing.is_empty() || page.entries.is_empty() {
            return Ok(false);
        }
    }
}

/// Returns a page of a directory with enough entries for a reply.
async fn page(
    target: &crate::context::Target<'_>,
    cookie: Cookie,
    most: usize,
    requested: &Bitmap,
) -> Result<Page, Status> {
    let bytes = u32::try_from(most).unwrap_or(u32::MAX);
    // The store counts names and this size for each entry; the reply itself counts exactly.
    let entry_bytes = ENTRY_BYTES + 4 * u32::try_from(requested.iter().count()).unwrap_or(0);
    // `.` and `..` are not part of the reply.
    let spare = 2 * (entry_bytes + 8);
    let budget = Budget {
        reply: Allowance { bytes: bytes.saturating_add(spare), entry_bytes },
        names: Allowance::UNLIMITED,
    };
    let wanted = if requested.is_empty() { Wanted::Names } else { Wanted::Everything };
    ops::readdir(&target.request, &target.object, cookie, budget, wanted)
        .await
        .map_err(|failed| convert::status(failed.error))
}

/// Appends an entry with the error of its attributes, if the client requested errors of entries.
fn append_error(
    listing: &mut Listing<'_>,
    (cookie, name): (Cookie, Name<'_>),
    requested: &Bitmap,
    status: Status,
) -> Result<bool, Status> {
    if !requested.has(Attribute::ReadError) {
        return Err(status);
    }
    let error =
        Attributes { read_error: Some(wire::Completion::Failed(status)), ..Attributes::default() };
    let attributes = error.select(Bitmap::of(&[Attribute::ReadError]));
    Ok(listing.append(&Entry { cookie, name, attributes }))
}
