//! The operations on a server of version 2 (RFC 1094).

use bytes::Bytes;
use leasehold_base::limits::{NAME_V2_BYTES_MAX, PATH_V2_BYTES_MAX, TRANSFER_V2_BYTES_MAX};
use leasehold_base::units::{Cookie, FileId};
use leasehold_base::xdr::{Decode, Encode, Reader};
use leasehold_core::calls::Weight;
use leasehold_wire::nfs2::{self, DirectoryArgs, Name, Path};
use leasehold_wire::nfs3::{self, Handle, Made, SetAttributes, Status, Wcc};

use super::convert::{attributes, set_attributes};
use super::listing::{Entry, Listed, Listing, Place};
use super::{Link, LinkTarget, Nfs, convert};
use crate::credential::Credential;
use crate::error::Error;

/// The constant write verifier: all data is stable, so the server never loses any.
pub(super) const VERIFIER: [u8; 8] = [0; 8];

/// The results of a procedure, or its error status.
type Outcome<T> = Result<T, Status>;

/// Calls a procedure; `use_done` converts the borrowed results to a value that outlives them.
async fn call<Done: for<'a> Decode<'a>>(
    nfs: &Nfs,
    who: &Credential,
    (number, weight): (u32, Weight),
    args: &impl Encode,
) -> Result<Outcome<Done>, Error> {
    let results = nfs.run(who, number, weight, args).await?;
    read(results.bytes())
}

fn read<'a, Done: Decode<'a>>(results: &'a Bytes) -> Result<Outcome<Done>, Error> {
    let mut reader = Reader::new(results);
    match reader.u32().map_err(Error::Garbled)? {
        0 => Done::decode(&mut reader).map(Ok).map_err(Error::Garbled),
        word => Ok(Err(super::status(word))),
    }
}

fn handle(of: &Handle) -> Outcome<nfs2::Handle> {
    of.as_bytes().try_into().map(nfs2::Handle).map_err(|_| Status::BadHandle)
}

fn place<'a>(directory: &Handle, name: &'a [u8]) -> Outcome<DirectoryArgs<'a>> {
    if name.len() > NAME_V2_BYTES_MAX as usize {
        return Err(Status::NameTooLong);
    }
    Ok(DirectoryArgs { directory: handle(directory)?, name: Name(name) })
}

/// Returns the value, or returns from the function with the failure.
macro_rules! or_fail {
    ($outcome:expr) => {
        match $outcome {
            Ok(value) => value,
            Err(status) => return Ok(nfs3::Reply::Failed(status, Default::default())),
        }
    };
}

fn after(attributes: nfs3::Attributes) -> Wcc {
    Wcc { before: None, after: Some(attributes) }
}

pub(super) async fn getattr(
    nfs: &Nfs,
    who: &Credential,
    object: &Handle,
) -> Result<nfs3::getattr::Reply, Error> {
    let args = or_fail!(handle(object));
    let procedure = (nfs2::getattr::NUMBER, Weight::Light);
    let done: nfs2::getattr::Done = or_fail!(call(nfs, who, procedure, &args).await?);
    Ok(nfs3::Reply::Done(nfs3::getattr::Done { attributes: attributes(&done) }))
}

pub(super) async fn setattr(
    nfs: &Nfs,
    who: &Credential,
    object: &Handle,
    wanted: &SetAttributes,
) -> Result<nfs3::setattr::Reply, Error> {
    let (object, attributes) = (or_fail!(handle(object)), or_fail!(set_attributes(wanted)));
    let args = nfs2::setattr::Args { object, attributes };
    let procedure = (nfs2::setattr::NUMBER, Weight::Heavy);
    let done: nfs2::setattr::Done = or_fail!(call(nfs, who, procedure, &args).await?);
    Ok(nfs3::Reply::Done(after(convert::attributes(&done))))
}

pub(super) async fn lookup(
    nfs: &Nfs,
    who: &Credential,
    directory: &Handle,
    name: &[u8],
) -> Result<nfs3::lookup::Reply, Error> {
    let args = or_fail!(place(directory, name));
    let procedure = (nfs2::lookup::NUMBER, Weight::Light);
    let found: nfs2::Found = or_fail!(call(nfs, who, procedure, &args).await?);
    Ok(nfs3::Reply::Done(nfs3::lookup::Done {
        object: found.object.0.into(),
        attributes: Some(attributes(&found.attributes)),
        directory: None,
    }))
}

/// Computes access from mode bits; the server still checks each operation.
pub(super) async fn access(
    nfs: &Nfs,
    who: &Credential,
    object: &Handle,
    wanted: nfs3::access::Access,
) -> Result<nfs3::access::Reply, Error> {
    let attributes = match getattr(nfs, who, object).await? {
        nfs3::Reply::Done(done) => done.attributes,
        nfs3::Reply::Failed(status, ()) => return Ok(nfs3::Reply::Failed(status, None)),
    };
    let is_directory = attributes.file_type == nfs3::FileType::Directory;
    let bits = if who.uid() == 0 {
        let anybody_runs_it = attributes.mode & 0o111 != 0;
        if is_directory || anybody_runs_it { 7 } else { 6 }
    } else if who.uid() == attributes.uid {
        attributes.mode >> 6
    } else if who.is_in(attributes.gid) {
        attributes.mode >> 3
    } else {
        attributes.mode
    };
    let (read, write, execute) = (bits & 4 != 0, bits & 2 != 0, bits & 1 != 0);
    let access = nfs3::access::Access {
        read: wanted.read && read,
        lookup: wanted.lookup && is_directory && execute,
        modify: wanted.modify && write,
        extend: wanted.extend && write,
        delete: wanted.delete && is_directory && write,
        execute: wanted.execute && !is_directory && execute,
    };
    Ok(nfs3::Reply::Done(nfs3::access::Done { attributes: Some(attributes), access }))
}

pub(super) async fn readlink(nfs: &Nfs, who: &Credential, link: &Handle) -> Result<Link, Error> {
    let args = or_fail!(handle(link));
    let results = nfs.run(who, nfs2::readlink::NUMBER, Weight::Light, &args).await?;
    let path: Path<'_> = or_fail!(read(results.bytes())?);
    let target = Bytes::copy_from_slice(path.0);
    Ok(nfs3::Reply::Done(LinkTarget { attributes: None, target }))
}

pub(super) async fn read_file(
    nfs: &Nfs,
    who: &Credential,
    file: &Handle,
    offset: u64,
    count: u32,
) -> Result<nfs3::read::Reply, Error> {
    let file = or_fail!(handle(file));
    let count = count.min(TRANSFER_V2_BYTES_MAX);
    let Ok(offset) = u32::try_from(offset) else {
        // No file of version 2 has data at an offset above 32 bits, so the reply is an empty read
        // at the end of the file.
        let (attributes, data) = (None, Bytes::new());
        return Ok(nfs3::Reply::Done(nfs3::read::Done { attributes, count: 0, end: true, data }));
    };
    let args = nfs2::read::Args { file, offset, count, total_count: 0 };
    let procedure = (nfs2::read::NUMBER, Weight::Heavy);
    let mut done: nfs2::read::Done = or_fail!(call(nfs, who, procedure, &args).await?);
    done.data.truncate(count as usize);
    let count = u32::try_from(done.data.len()).unwrap_or(count);
    let end = u64::from(offset) + u64::from(count) >= u64::from(done.attributes.size);
    let attributes = Some(attributes(&done.attributes));
    Ok(nfs3::Reply::Done(nfs3::read::Done { attributes, count, end, data: done.data }))
}

pub(super) async fn write(
    nfs: &Nfs,
    who: &Credential,
    file: &Handle,
    offset: u64,
    data: Bytes,
) -> Result<nfs3::write::Reply, Error> {
    let file = or_fail!(handle(file));
    let data = data.slice(..data.len().min(TRANSFER_V2_BYTES_MAX as usize));
    let count = u32::try_from(data.len()).unwrap_or(TRANSFER_V2_BYTES_MAX);
    let fits = u32::try_from(offset).ok().filter(|offset| offset.checked_add(count).is_some());
    let offset = or_fail!(fits.ok_or(Status::FileTooBig));
    let args = nfs2::write::Args { file, begin_offset: 0, offset, total_count: 0, data };
    let procedure = (nfs2::write::NUMBER, Weight::Heavy);
    let done: nfs2::write::Done = or_fail!(call(nfs, who, procedure, &args).await?);
    Ok(nfs3::Reply::Done(nfs3::write::Done {
        file: after(attributes(&done)),
        count,
        stability: nfs3::write::Stability::FileSync,
        verifier: VERIFIER,
    }))
}

/// If the file must not exist, first looks up the name, because CREATE of version 2 always accepts
/// an existing file. Another client may create the file between the two calls.
pub(super) async fn create(
    nfs: &Nfs,
    who: &Credential,
    directory: &Handle,
    name: &[u8],
    how: nfs3::create::How,
) -> Result<nfs3::create::Reply, Error> {
    let wanted = match how {
        nfs3::create::How::Unchecked(wanted) => wanted,
        nfs3::create::How::Guarded(wanted) => wanted,
        nfs3::create::How::Exclusive(_) => SetAttributes::default(),
    };
    if !matches!(how, nfs3::create::How::Unchecked(_)) {
        match lookup(nfs, who, directory, name).await? {
            nfs3::Reply::Done(_) => or_fail!(Err(Status::AlreadyExists)),
            nfs3::Reply::Failed(Status::NotFound, _) => {}
            nfs3::Reply::Failed(status, _) => or_fail!(Err(status)),
        }
    }
    make(nfs, who, nfs2::create::NUMBER, (directory, name), &wanted).await
}

pub(super) async fn mkdir(
    nfs: &Nfs,
    who: &Credential,
    directory: &Handle,
    name: &[u8],
    wanted: &SetAttributes,
) -> Result<nfs3::mkdir::Reply, Error> {
    make(nfs, who, nfs2::mkdir::NUMBER, (directory, name), wanted).await
}

async fn make(
    nfs: &Nfs,
    who: &Credential,
    number: u32,
    (directory, name): (&Handle, &[u8]),
    wanted: &SetAttributes,
) -> Result<nfs3::create::Reply, Error> {
    let (place, wanted) = (or_fail!(place(directory, name)), or_fail!(set_attributes(wanted)));
    let args = nfs2::create::Args { place, attributes: wanted };
    let found: nfs2::Found = or_fail!(call(nfs, who, (number, Weight::Heavy), &args).await?);
    Ok(nfs3::Reply::Done(Made {
        object: Some(found.object.0.into()),
        attributes: Some(attributes(&found.attributes)),
        directory: Wcc::default(),
    }))
}

pub(super) async fn symlink(
    nfs: &Nfs,
    who: &Credential,
    directory: &Handle,
    name: &[u8],
    target: &[u8],
    wanted: &SetAttributes,
) -> Result<nfs3::symlink::Reply, Error> {
    if target.len() > PATH_V2_BYTES_MAX as usize {
        or_fail!(Err(Status::NameTooLong));
    }
    let (place, attributes) = (or_fail!(place(directory, name)), or_fail!(set_attributes(wanted)));
    let args = nfs2::symlink::Args { place, target: Path(target), attributes };
    let () = or_fail!(call(nfs, who, (nfs2::symlink::NUMBER, Weight::Heavy), &args).await?);
    Ok(nfs3::Reply::Done(Made { object: None, attributes: None, directory: Wcc::default() }))
}

pub(super) async fn remove(
    nfs: &Nfs,
    who: &Credential,
    directory: &Handle,
    name: &[u8],
) -> Result<nfs3::remove::Reply, Error> {
    let args = or_fail!(place(directory, name));
    let () = or_fail!(call(nfs, who, (nfs2::remove::NUMBER, Weight::Heavy), &args).await?);
    Ok(nfs3::Reply::Done(Wcc::default()))
}

pub(super) async fn rmdir(
    nfs: &Nfs,
    who: &Credential,
    directory: &Handle,
    name: &[u8],
) -> Result<nfs3::rmdir::Reply, Error> {
    let args = or_fail!(place(directory, name));
    let () = or_fail!(call(nfs, who, (nfs2::rmdir::NUMBER, Weight::Heavy), &args).await?);
    Ok(nfs3::Reply::Done(Wcc::default()))
}

pub(super) async fn rename(
    nfs: &Nfs,
    who: &Credential,
    from: (&Handle, &[u8]),
    to: (&Handle, &[u8]),
) -> Result<nfs3::rename::Reply, Error> {
    let (from, to) = (or_fail!(place(from.0, from.1)), or_fail!(place(to.0, to.1)));
    let args = nfs2::rename::Args { from, to };
    let () = or_fail!(call(nfs, who, (nfs2::rename::NUMBER, Weight::Heavy), &args).await?);
    Ok(nfs3::Reply::Done(nfs3::rename::Done::default()))
}

pub(super) async fn link(
    nfs: &Nfs,
    who: &Credential,
    file: &Handle,
    directory: &Handle,
    name: &[u8],
) -> Result<nfs3::link::Reply, Error> {
    let (file, link) = (or_fail!(handle(file)), or_fail!(place(directory, name)));
    let args = nfs2::link::Args { file, link };
    let () = or_fail!(call(nfs, who, (nfs2::link::NUMBER, Weight::Heavy), &args).await?);
    Ok(nfs3::Reply::Done(nfs3::link::Done::default()))
}

/// Returns the space; the counts of files are zero, because version 2 does not report them.
pub(super) async fn fsstat(
    nfs: &Nfs,
    who: &Credential,
    root: &Handle,
) -> Result<nfs3::fsstat::Reply, Error> {
    let args = or_fail!(handle(root));
    let procedure = (nfs2::statfs::NUMBER, Weight::Light);
    let done: nfs2::statfs::Done = or_fail!(call(nfs, who, procedure, &args).await?);
    let bytes = |blocks: u32| u64::from(blocks) * u64::from(done.block_bytes);
    Ok(nfs3::Reply::Done(nfs3::fsstat::Done {
        attributes: None,
        bytes: bytes(done.blocks),
        free_bytes: bytes(done.free_blocks),
        available_bytes: bytes(done.available_blocks),
        files: 0,
        free_files: 0,
        available_files: 0,
        steady_seconds: 0,
    }))
}

pub(super) async fn readdir(
    nfs: &Nfs,
    who: &Credential,
    directory: &Handle,
    from: Place,
    bytes: u32,
) -> Result<Listing, Error> {
    let directory = or_fail!(handle(directory));
    // A cookie of version 2 has 32 bits, so a larger cookie is invalid.
    let cookie = or_fail!(u32::try_from(from.cookie.0).map_err(|_| Status::BadCookie));
    let count = bytes.min(TRANSFER_V2_BYTES_MAX);
    let args = nfs2::readdir::Args { directory, cookie: nfs2::Cookie(cookie), count };
    let results = nfs.run(who, nfs2::readdir::NUMBER, Weight::Heavy, &args).await?;
    let done: nfs2::readdir::Done<leasehold_wire::list::List<nfs2::readdir::Entry<'_>>> =
        or_fail!(read(results.bytes())?);
    let entry = |entry: nfs2::readdir::Entry<'_>| Entry {
        file_id: FileId(entry.file_id.0.into()),
        name: results.bytes().slice_ref(entry.name.0),
        cookie: Cookie(entry.cookie.0.into()),
        attributes: None,
        object: None,
    };
    Ok(nfs3::Reply::Done(Listed {
        attributes: None,
        verifier: [0; 8],
        entries: done.entries.0.into_iter().map(entry).collect(),
        end: done.end,
    }))
}
