//! One file for each operation, with the rules of every protocol version and every store.
//!
//! This layer parses names, refuses changes on read-only exports, rejects values that no store
//! accepts, and adds attributes to the reply of a failed operation. The store performs the
//! operation and checks the permissions.

mod access;
mod commit;
mod create;
mod getattr;
mod link;
mod lookup;
mod make;
mod ranges;
mod read;
mod readdir;
mod readlink;
mod remove;
mod rename;
mod setattr;
mod space;
mod write;
mod xattrs;

pub use access::access;
pub use commit::commit;
pub use create::create;
pub use getattr::getattr;
pub use link::link;
pub use lookup::lookup;
pub use make::make;
pub use ranges::{allocate, clone_range, copy_range, deallocate, seek};
pub use read::read;
pub use readdir::readdir;
pub use readlink::readlink;
pub use remove::{remove, rmdir};
pub use rename::rename;
pub use setattr::setattr;
pub use space::space;
pub use write::write;
pub use xattrs::{list_xattrs, remove_xattr, set_xattr, xattr};

use crate::{
    Attributes, Changed, Export, FileType, FsError, NO_USER, ObjectId, Place, Request,
    SetAttributes, SetTime, Step, Wcc,
};

/// The failure of an operation that only reads, with the attributes of the operation's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The cause.
    pub error: FsError,
    /// The attributes of the object, if it still exists.
    pub attributes: Option<Attributes>,
}

impl Failed {
    async fn new(export: &Export, object: &ObjectId, error: FsError) -> Self {
        Self { error, attributes: attributes(export, object, error).await }
    }
}

/// Returns the attributes for the reply of a failed operation. They are optional, so an error
/// yields None.
async fn attributes(export: &Export, object: &ObjectId, error: FsError) -> Option<Attributes> {
    // An object that is gone has no attributes. After `Delay` the caller retries the request, so
    // the reply does not wait for attributes.
    if matches!(error, FsError::Stale | FsError::BadHandle | FsError::Delay) {
        return None;
    }
    export.store.getattr(object).await.ok()
}

/// Returns the outcome of a change that this layer refused before the store received it.
async fn refused<T>(export: &Export, object: &ObjectId, error: FsError) -> Changed<T> {
    Changed {
        result: Err(error),
        wcc: Wcc { before: None, after: attributes(export, object, error).await },
    }
}

/// Fails with [`FsError::ReadOnly`] if the request may not change anything.
fn writable(request: &Request<'_>) -> Result<(), FsError> {
    if request.read_only { Err(FsError::ReadOnly) } else { Ok(()) }
}

/// Parses the place of a new name; `.` and `..` always exist.
fn new_place<'a>(
    request: &Request<'_>,
    directory: &ObjectId,
    name: &'a [u8],
) -> Result<Place<'a>, FsError> {
    writable(request)?;
    place(request.export, directory, name, FsError::AlreadyExists)
}

/// Parses the place of a name; `dots` is the error for `.` and `..`.
fn place<'a>(
    export: &Export,
    directory: &ObjectId,
    name: &'a [u8],
    dots: FsError,
) -> Result<Place<'a>, FsError> {
    let name = Step::parse(name)?.child(dots)?;
    if name.as_bytes().len() > export.store.properties(directory).name_bytes_max as usize {
        return Err(FsError::NameTooLong);
    }
    Ok(Place { directory: *directory, name })
}

/// Fails with [`FsError::Invalid`] if a time has 1,000,000,000 nanoseconds or more, or if the new
/// owner or group is [`NO_USER`].
fn valid(changes: &SetAttributes) -> Result<(), FsError> {
    if [changes.uid, changes.gid].contains(&Some(NO_USER)) {
        return Err(FsError::Invalid);
    }
    let valid = |time: SetTime| match time {
        SetTime::Keep | SetTime::Now => true,
        SetTime::To(time) => time.nanoseconds < 1_000_000_000,
    };
    if valid(changes.accessed) && valid(changes.modified) { Ok(()) } else { Err(FsError::Invalid) }
}

/// Fails unless the object is a directory.
fn directory(attributes: &Attributes) -> Result<(), FsError> {
    match attributes.file_type {
        FileType::Directory => Ok(()),
        FileType::Regular
        | FileType::BlockDevice
        | FileType::CharacterDevice
        | FileType::Symlink
        | FileType::Socket
        | FileType::Fifo => Err(FsError::NotDirectory),
    }
}
