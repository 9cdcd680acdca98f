//! The trait that every store implements.
//!
//! The trait contains the operations that every store has. Operations that only some stores have
//! are in the capability traits of [`capabilities`] and of the modules that it names.

mod capabilities;
mod extended_attributes;
mod forward;
mod layout;
mod listing;
mod open_files;
mod ranges;
mod values;

pub use capabilities::{
    Capabilities, Capability, Coherence, Completeness, DirectLayouts, Disturbance, ExclusiveAccess,
    Guard, LayoutPolicies, LocalGuard, LocalMetadata, Reservations,
};
pub use extended_attributes::{
    ExtendedAttributes, SetXattr, XATTR_BYTES_MAX, XattrName, XattrPage,
};
pub use layout::{ClientKey, LaidOut, Layout, Owner, Purpose, Spot};
pub use listing::{Allowance, Budget, Entries, Entry, Page, Wanted};
pub use open_files::{Held, OpenFiles};
pub use ranges::{ByteRange, Content, RangeCopy, Ranges, Seek};
pub use values::{
    Access, Changed, Committed, Found, Linked, NewFile, NewNode, Place, Properties, ReadDone,
    Renamed, Space, Stability, Target, Verifier, WriteDone,
};

use bytes::Bytes;
use leasehold_base::units::{Cookie, FileTime};

use crate::{Attributes, Caller, FsError, MaybeReady, Name, ObjectId, SetAttributes};

/// A file-system back end: a local directory, memory, or stripes on other servers.
///
/// These rules hold for every operation:
/// - An [`ObjectId`] identifies an object; an operation on a removed object fails with
///   [`FsError::Stale`], unless a caller keeps the object ([`OpenFiles::hold`]).
/// - The store checks the permissions of `caller`. The layer above handles `.`, `..` and read-only
///   exports.
/// - An operation that changes an object returns the attributes before and after the change. Both
///   are present only if no other operation can have changed the object in between.
/// - Names and attributes are on stable storage when an operation returns. Data is on stable
///   storage after a write that requested stable storage, or after a commit.
/// - A name longer than [`Properties::name_bytes_max`] fails with [`FsError::NameTooLong`].
/// - An operation that must sleep returns a future; an operation never blocks the thread.
///
/// The trait has no default methods, so that a wrapper of a store must decide about each operation
/// and each capability. [`forward_store`](crate::forward_store) defines the operations that a
/// wrapper forwards unchanged.
pub trait Store: Send + Sync {
    /// Returns the exported directory.
    fn root(&self) -> ObjectId;

    /// Returns the object key: the part of an id that is equal for all ids of one object. Leases,
    /// locks and write stability are recorded under the object key.
    fn identity(&self, object: &ObjectId) -> ObjectId;

    /// Returns a path from the root to an object, with slashes between the names, for display; the
    /// path of the root is empty. The path may be out of date as soon as this method returns. An
    /// object with several names has one of several paths. Returns None if no path exists, or if
    /// the store would have to search or wait for it.
    fn path(&self, object: &ObjectId) -> Option<Vec<u8>>;

    /// Returns the properties of the file system that contains an object. A store of several file
    /// systems returns the properties of the root's file system if it would have to search for the
    /// object.
    fn properties(&self, object: &ObjectId) -> Properties;

    /// Returns the capabilities of the store. A wrapper returns a capability only if the store
    /// below has it, and implements it by calls of the store below.
    fn capabilities(&self) -> Capabilities<'_>;

    /// Returns the attributes of an object; needs no permission.
    fn getattr<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<Attributes, FsError>>;

    /// Changes either all the given attributes or none. Changes that need ownership or the
    /// superuser fail with [`FsError::NotOwner`] for other callers. A caller with write permission
    /// may set the size, and may set times to the current time; the owner may do both without that
    /// permission. Setting the size of a directory fails with [`FsError::IsDirectory`], and of any
    /// other object that is not a file with [`FsError::Invalid`].
    ///
    /// If `guard` is given, the operation changes the object only if the object's change time
    /// equals `guard`; otherwise it fails with [`FsError::NotSynchronized`].
    fn setattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        changes: &'a SetAttributes,
        guard: Option<FileTime>,
    ) -> MaybeReady<'a, Changed<()>>;

    /// Returns the object that a name identifies.
    fn lookup<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        name: Name<'a>,
    ) -> MaybeReady<'a, Result<Found, FsError>>;

    /// Returns the parent of a directory; the parent of the root is the root.
    fn parent<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Found, FsError>>;

    /// Returns the subset of the wanted kinds of access that the caller has.
    fn access<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        wanted: Access,
    ) -> MaybeReady<'a, Result<(Access, Attributes), FsError>>;

    /// Returns the target of a symbolic link; [`FsError::Invalid`] for any other object.
    fn readlink<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Target, Attributes), FsError>>;

    /// Reads up to `count` bytes; fewer only at the end of the file. The owner may always read,
    /// because the client checked the permission when it opened the file; a caller with execute
    /// permission may also read (RFC 1813 4.4). Fails with [`FsError::IsDirectory`] for a
    /// directory, and with [`FsError::Invalid`] for any other object that is not a file.
    fn read<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        count: u32,
    ) -> MaybeReady<'a, Result<ReadDone, FsError>>;

    /// Writes data, and returns when the data is as stable as `stability` requires. The owner may
    /// always write. Returns the errors of [`Store::read`] for an object that is not a regular
    /// file.
    fn write<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> MaybeReady<'a, Changed<WriteDone>>;

    /// Creates a regular file; `wcc` describes the directory.
    ///
    /// The new file belongs to the caller, and to the directory's group if the directory has the
    /// set-group-id bit. The default mode of a file is 0600. Only the superuser may choose another
    /// owner.
    fn create<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        file: &'a NewFile,
    ) -> MaybeReady<'a, Changed<Found>>;

    /// Creates any object except a regular file; `wcc` describes the directory. The rules of
    /// [`Store::create`] determine the owner.
    ///
    /// The default mode of a directory is 0700, and of other objects 0600. A size in `attributes`,
    /// and a mode for a symbolic link, are ignored.
    fn make<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        node: &'a NewNode<'a>,
        attributes: &'a SetAttributes,
    ) -> MaybeReady<'a, Changed<Found>>;

    /// Removes a name of any object except a directory, which fails with [`FsError::IsDirectory`];
    /// `wcc` describes the directory that contains the name.
    fn remove<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>>;

    /// Removes an empty directory; `wcc` describes its parent. Fails with [`FsError::NotEmpty`] if
    /// the directory contains names, and with [`FsError::NotDirectory`] for any other object.
    fn rmdir<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>>;

    /// Renames an object atomically and replaces an object that has the new name. Does nothing if
    /// both names identify one object.
    ///
    /// A directory replaces only an empty directory ([`FsError::NotEmpty`],
    /// [`FsError::NotDirectory`]) and cannot move below itself ([`FsError::Invalid`]). Any other
    /// object replaces any object except a directory ([`FsError::IsDirectory`]).
    fn rename<'a>(
        &'a self,
        caller: &'a Caller,
        from: Place<'a>,
        to: Place<'a>,
    ) -> MaybeReady<'a, Renamed>;

    /// Adds a name to an object; [`FsError::Invalid`] for a directory.
    fn link<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        place: Place<'a>,
    ) -> MaybeReady<'a, Linked>;

    /// Returns the entries of a directory that follow `cookie`, including `.` and `..`. A listing
    /// returns every name that exists throughout the listing exactly once. A page contains as many
    /// entries as the budget permits; [`FsError::TooSmall`] if the budget is too small for the next
    /// entry.
    fn readdir<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        cookie: Cookie,
        budget: Budget,
        wanted: Wanted,
    ) -> MaybeReady<'a, Result<Page, FsError>>;

    /// Returns the space of the file system that is available to the caller.
    fn space<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Space, Attributes), FsError>>;

    /// Makes the unstable data within a range stable; a length of zero means to the end of the
    /// file. Needs no permission; returns the errors of [`Store::read`] for an object that is not a
    /// regular file.
    fn commit<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        length: u32,
    ) -> MaybeReady<'a, Changed<Committed>>;
}
