//! One file for each operation: what holds in every protocol version and for every store.
//!
//! Here names are read, read-only exports refuse changes, values that no store takes are turned
//! away, and a failed operation gets the attributes that its caller wants all the same. What
//! remains is the store's.

mod access;
mod commit;
mod create;
mod getattr;
mod link;
mod lookup;
mod make;
mod read;
mod readdir;
mod readlink;
mod remove;
mod rename;
mod setattr;
mod space;
mod write;

pub use access::access;
pub use commit::commit;
pub use create::create;
pub use getattr::getattr;
pub use link::link;
pub use lookup::lookup;
pub use make::make;
pub use read::read;
pub use readdir::readdir;
pub use readlink::readlink;
pub use remove::{remove, rmdir};
pub use rename::rename;
pub use setattr::setattr;
pub use space::space;
pub use write::write;

use crate::{
    Attributes, Changed, Export, FileType, FsError, NO_USER, ObjectId, Place, Request,
    SetAttributes, SetTime, Step, Wcc,
};

/// Why an operation that changes nothing failed, with the object that it was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The cause.
    pub error: FsError,
    /// The object, where it is still there.
    pub attributes: Option<Attributes>,
}

impl Failed {
    async fn new(export: &Export, object: &ObjectId, error: FsError) -> Self {
        Self { error, attributes: attributes(export, object, error).await }
    }
}

/// The attributes that go with a failure. Callers are free to do without, so an error is none.
async fn attributes(export: &Export, object: &ObjectId, error: FsError) -> Option<Attributes> {
    // Who is to ask again later does not wait once more for these.
    if matches!(error, FsError::Stale | FsError::BadHandle | FsError::Later) {
        return None;
    }
    export.store.getattr(object).await.ok()
}

/// What a change comes to that was turned away before it reached the store.
async fn refused<T>(export: &Export, object: &ObjectId, error: FsError) -> Changed<T> {
    Changed {
        result: Err(error),
        wcc: Wcc { before: None, after: attributes(export, object, error).await },
    }
}

/// Fails with [`FsError::ReadOnly`] where nothing may be changed.
fn writable(request: &Request<'_>) -> Result<(), FsError> {
    if request.read_only { Err(FsError::ReadOnly) } else { Ok(()) }
}

/// The place of a new name; `.` and `..` are always there already.
fn new_place<'a>(
    request: &Request<'_>,
    directory: &ObjectId,
    name: &'a [u8],
) -> Result<Place<'a>, FsError> {
    writable(request)?;
    place(request.export, directory, name, FsError::AlreadyExists)
}

/// The place of a name that is neither `.` nor `..`, for which the error is `dots`.
fn place<'a>(
    export: &Export,
    directory: &ObjectId,
    name: &'a [u8],
    dots: FsError,
) -> Result<Place<'a>, FsError> {
    let name = Step::parse(name)?.child(dots)?;
    if name.as_bytes().len() > export.store.properties().name_bytes_max as usize {
        return Err(FsError::NameTooLong);
    }
    Ok(Place { directory: *directory, name })
}

/// Fails with [`FsError::Invalid`] where a time has more nanoseconds than a second does, and where
/// an object is to belong to the number of no user.
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
