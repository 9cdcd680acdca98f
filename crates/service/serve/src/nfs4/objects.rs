//! Operations that read objects: ACCESS, READLINK and READDIR.

use leasehold_base::limits::DIRECTORY_REPLY_BYTES_MAX;
use leasehold_base::units::Cookie;
use leasehold_base::xdr::{Encode, Writer};
use leasehold_fs::{self as fs, Allowance, Budget, FileType, FsError, Page, Wanted, ops};
use leasehold_wire::nfs4::{
    self as wire, Attribute, Attributes, Bitmap, CookieVerifier, Status, access, readdir,
};

use super::attribute_ops;
use super::compound::{Compound, Place};
use super::convert;
use super::pseudo::Step;

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
    let supported =
        access::Access { read, lookup, modify, extend, delete, execute, ..Default::default() };
    if let Place::Node(_) = compound.place()? {
        let access = access::Access { read, lookup, execute, ..Default::default() };
        return Ok(access::Done { supported, access });
    }
    let target = compound.target(Status::ServerFault).await?;
    let wanted = fs::Access { read, lookup, modify, extend, delete, execute };
    let granted = ops::access(&target.request, &target.object, wanted).await;
    let (granted, attributes) = granted.map_err(|failed| convert::status(failed.error))?;
    let fs::Access { read, lookup, modify, extend, delete, execute } = granted;
    let access =
        access::Access { read, lookup, modify, extend, delete, execute, ..Default::default() };
    // LOOKUP and DELETE have no meaning for other objects, and EXECUTE none for directories.
    let is_directory = attributes.file_type == FileType::Directory;
    let supported = match is_directory {
        true => access::Access { execute: false, ..supported },
        false => access::Access { lookup: false, delete: false, ..supported },
    };
    Ok(access::Done { supported, access: both(access, supported) })
}

/// Returns the kinds of access that both sets contain.
const fn both(one: access::Access, other: access::Access) -> access::Access {
    access::Access {
        read: one.read && other.read,
        lookup: one.lookup && other.lookup,
        modify: one.modify && other.modify,
        extend: one.extend && other.extend,
        delete: one.delete && other.delete,
        execute: one.execute && other.execute,
        read_xattrs: one.read_xattrs && other.read_xattrs,
        write_xattrs: one.write_xattrs && other.write_xattrs,
        list_xattrs: one.list_xattrs && other.list_xattrs,
    }
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

/// The encoded result of READDIR after the status.
pub(super) struct Listed(Vec<u8>);

impl Encode for Listed {
    fn encode(&self, writer: &mut Writer) {
        writer.raw(&self.0);
    }
}

pub(super) async fn readdir(
    compound: &mut Compound,
    args: readdir::Args,
) -> Result<Listed, Status> {
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
    match place {
        Place::Node(_) => list_node(compound, &args, most).await,
        Place::Object(..) => list_object(compound, &args, most).await,
    }
}

/// Lists a directory above the exports. The cookie of an entry is its position.
async fn list_node(
    compound: &Compound,
    args: &readdir::Args,
    most: usize,
) -> Result<Listed, Status> {
    let Place::Node(node) = compound.place()? else { return Err(Status::ServerFault) };
    let mut listing = Entries::new(most);
    let first = args.cookie.0.saturating_sub(COOKIE_SHIFT - 1);
    let first = usize::try_from(first).unwrap_or(usize::MAX);
    for (index, entry) in compound.pseudo().list(node).iter().enumerate().skip(first) {
        let cookie = Cookie(index as u64 + COOKIE_SHIFT);
        let place = compound.place_of(&entry.step);
        let is_added = match attribute_ops::of_place(compound, place, &args.requested).await {
            Ok(found) => listing.append(cookie, entry.name, &found),
            Err(status) => listing.append_error(cookie, entry.name, &args.requested, status)?,
        };
        if !is_added {
            return listing.finish(false);
        }
        debug_assert!(matches!(entry.step, Step::Node(_) | Step::Export(_)));
    }
    listing.finish(true)
}

async fn list_object(
    compound: &Compound,
    args: &readdir::Args,
    most: usize,
) -> Result<Listed, Status> {
    let target = compound.target(Status::ServerFault).await?;
    let mut listing = Entries::new(most);
    let mut cookie = Cookie(args.cookie.0.saturating_sub(COOKIE_SHIFT));
    loop {
        let page = page(&target, cookie, most, &args.requested).await?;
        for entry in page.entries.iter() {
            cookie = entry.cookie;
            if entry.name == b"." || entry.name == b".." {
                continue;
            }
            let shown = Cookie(cookie.0.wrapping_add(COOKIE_SHIFT));
            let found = attribute_ops::of_entry(compound, &target, &entry, &args.requested).await;
            let is_added = match found {
                Ok(found) => listing.append(shown, entry.name, &found),
                // A name that is gone meanwhile is no longer part of the directory.
                Err(Status::NotFound | Status::Stale) => true,
                Err(status) => listing.append_error(shown, entry.name, &args.requested, status)?,
            };
            if !is_added {
                return listing.finish(false);
            }
        }
        if page.end {
            return listing.finish(true);
        }
        // The store's page was full, but the entries `.` and `..` took a part of it.
        if !listing.is_empty() || page.entries.is_empty() {
            return listing.finish(false);
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

/// The entries of a listing, within the limit of the client.
struct Entries {
    writer: Writer,
    bytes_max: usize,
    count: usize,
}

impl Entries {
    fn new(bytes_max: usize) -> Self {
        let mut writer = Writer::new();
        CookieVerifier([0; 8]).encode(&mut writer);
        Self { writer, bytes_max, count: 0 }
    }

    const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends an entry if there is room.
    fn append(&mut self, cookie: Cookie, name: &[u8], values: &impl Encode) -> bool {
        let mark = self.writer.mark();
        true.encode(&mut self.writer);
        cookie.encode(&mut self.writer);
        writer_name(&mut self.writer, name);
        values.encode(&mut self.writer);
        // The flag at the end of the list, and the flag for the end of the directory.
        let fits = self.writer.len() + 8 <= self.bytes_max;
        if fits {
            self.count += 1;
        } else {
            self.writer.rewind(&mark);
        }
        fits
    }

    /// Appends an entry with the error of its attributes, if the client requested errors of entries.
    fn append_error(
        &mut self,
        cookie: Cookie,
        name: &[u8],
        requested: &Bitmap,
        status: Status,
    ) -> Result<bool, Status> {
        if !requested.has(Attribute::ReadError) {
            return Err(status);
        }
        let error = Attributes {
            read_error: Some(wire::Completion::Failed(status)),
            ..Attributes::default()
        };
        Ok(self.append(cookie, name, &error.select(Bitmap::of(&[Attribute::ReadError]))))
    }

    fn finish(mut self, end: bool) -> Result<Listed, Status> {
        if self.is_empty() && !end {
            return Err(Status::TooSmall);
        }
        false.encode(&mut self.writer);
        end.encode(&mut self.writer);
        Ok(Listed(self.writer.finish().into_bytes().to_vec()))
    }
}

fn writer_name(writer: &mut Writer, name: &[u8]) {
    writer.opaque(name);
}
