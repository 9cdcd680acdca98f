//! The trait that every store implements.

mod layout;
mod listing;

pub use layout::{ClientKey, LaidOut, Layout, Owner, Purpose, Spot};
pub use listing::{Allowance, Budget, Entries, Entry, Page, Wanted};

use core::fmt;

use bytes::Bytes;
use leasehold_base::units::{Cookie, FileTime};

use crate::{Attributes, Caller, Device, FsError, MaybeReady, Name, ObjectId, SetAttributes, Wcc};

/// A file-system back end: a local directory, memory, or stripes on other servers.
///
/// These rules hold for every operation:
/// - An [`ObjectId`] identifies an object; an operation on a removed object fails with
///   [`FsError::Stale`].
/// - The store checks the permissions of `caller`. The layer above handles `.`, `..` and read-only
///   exports.
/// - An operation that changes an object returns the attributes before and after the change. Both
///   are present only if no other operation can have changed the object in between.
/// - Names and attributes are on stable storage when an operation returns. Data is on stable
///   storage after a write that requested stable storage, or after a commit.
/// - A name longer than [`Properties::name_bytes_max`] fails with [`FsError::NameTooLong`].
/// - An operation that must sleep returns a future; an operation never blocks the thread.
pub trait Store: Send + Sync {
    /// Returns the exported directory.
    fn root(&self) -> ObjectId;

    /// Returns the object key: the part of an id that is equal for all ids of one object. Leases,
    /// locks and write stability are recorded under the object key.
    fn identity(&self, object: &ObjectId) -> ObjectId {
        *object
    }

    /// Returns a path from the root to an object, with slashes between the names, for display; the
    /// path of the root is empty. The path may be out of date as soon as this method returns. An
    /// object with several names has one of several paths. Returns None if no path exists, or if
    /// the store would have to search or wait for it.
    fn path(&self, _object: &ObjectId) -> Option<Vec<u8>> {
        None
    }

    /// Sets the local-access interlock of an object: while clients hold leases on the object, local
    /// programs that open it wait, or the store reports them. A store without an interlock does
    /// nothing.
    ///
    /// # Errors
    /// [`FsError::Delay`] if a local program has already opened the object in a mode that conflicts
    /// with `guard`.
    fn guard(&self, _object: &ObjectId, _guard: Guard) -> Result<(), FsError> {
        Ok(())
    }

    /// Acquires a server-side lease from the object's home metaserver before clients receive leases
    /// that need `guard`. While the server holds that lease, no client of another server writes the
    /// object, or, for [`Guard::Everything`], reads it. If `opportune` is set, the method fails
    /// instead of contacting the home.
    ///
    /// # Errors
    /// [`FsError::Delay`] if the lease is not available soon, [`FsError::NotSupported`] if the
    /// lease is never available.
    fn cover<'a>(
        &'a self,
        _object: &'a ObjectId,
        _guard: Guard,
        _opportune: bool,
    ) -> MaybeReady<'a, Result<(), FsError>> {
        MaybeReady::now(Ok(()))
    }

    /// Acquires exclusive access to an object: other servers of the same files, and their clients,
    /// cannot access it until the result is dropped. Their cached copies are void before this
    /// method returns.
    ///
    /// # Errors
    /// [`FsError::Delay`] if exclusive access is not available soon.
    fn alone<'a>(&'a self, _object: &'a ObjectId) -> MaybeReady<'a, Result<Alone, FsError>> {
        MaybeReady::now(Ok(Alone::default()))
    }

    /// Returns the change times `(before, after)` of the last internal maintenance of an object,
    /// for example a data migration, if no other change followed. The contents are the same at both
    /// times. A store may forget the two times and then returns None.
    fn upkeep(&self, _object: &ObjectId) -> Option<(FileTime, FileTime)> {
        None
    }

    /// Returns the layout policy that an administrator set for a file, or for new files of a
    /// directory, encoded by the store that wraps this store. Returns None if no policy is set.
    fn layout<'a>(
        &'a self,
        _object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Option<Bytes>, FsError>> {
        MaybeReady::now(Ok(None))
    }

    /// Sets the layout policy of an object.
    fn set_layout<'a>(
        &'a self,
        _object: &'a ObjectId,
        _layout: Bytes,
    ) -> MaybeReady<'a, Result<(), FsError>> {
        MaybeReady::now(Err(FsError::NotSupported))
    }

    /// Returns the properties of the store as a whole.
    fn properties(&self) -> Properties;

    /// Returns the properties of the file system that contains an object.
    fn properties_of(&self, _object: &ObjectId) -> Properties {
        self.properties()
    }

    /// Returns the attributes of an object; needs no permission.
    fn getattr<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<Attributes, FsError>>;

    /// Like [`Store::getattr`], but never waits for an unreachable server. The flag is false if the
    /// size and the bytes used may be out of date.
    fn known<'a>(
        &'a self,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Attributes, bool), FsError>> {
        MaybeReady::later(async move { Ok((self.getattr(object).await?, true)) })
    }

    /// Returns the change time of an object. The time is available even while other attributes need
    /// a wait.
    fn changed<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<FileTime, FsError>> {
        MaybeReady::later(async move { Ok(self.getattr(object).await?.changed) })
    }

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

    /// Like [`Store::access`], but the result contains no attributes and does not wait for them.
    fn rights<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        wanted: Access,
    ) -> MaybeReady<'a, Result<Access, FsError>> {
        MaybeReady::later(async move { Ok(self.access(caller, object, wanted).await?.0) })
    }

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

    /// Returns the space that the server may reserve for a client that sends its data later. The
    /// result contains no attributes, so it does not wait for them. The result may be less than the
    /// result of [`Store::space`].
    fn room<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Space, FsError>> {
        MaybeReady::later(async move { Ok(self.space(caller, object).await?.0) })
    }

    /// Returns the layout of a file for direct data access by a client, or None if only this server
    /// can access the data. A layout for writing is valid until [`Store::recall`]; while such a
    /// layout exists, the servers of the stripe objects determine the size of the file.
    fn open_layout<'a>(
        &'a self,
        _caller: &'a Caller,
        _object: &'a ObjectId,
        _purpose: Purpose,
    ) -> MaybeReady<'a, Result<Option<Layout>, FsError>> {
        MaybeReady::now(Ok(None))
    }

    /// Ends a layout for writing (layout recall). After this method returns, no write under the
    /// layout succeeds, and the file's attributes include the effects of earlier writes under it.
    fn recall<'a>(&'a self, _object: &'a ObjectId) -> MaybeReady<'a, Result<(), FsError>> {
        MaybeReady::now(Ok(()))
    }

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

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The directory.
    pub directory: ObjectId,
    /// The name in the directory.
    pub name: Name<'a>,
}

/// The outcome of an operation that changes an object, or the names in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed<T> {
    /// The result.
    pub result: Result<T, FsError>,
    /// The attributes of the changed object before and after the operation, also if the operation
    /// failed.
    pub wcc: Wcc,
}

impl<T> Changed<T> {
    /// Returns a failure without attributes.
    #[must_use]
    pub fn failed(error: FsError) -> Self {
        Self { result: Err(error), wcc: Wcc::default() }
    }
}

/// The outcome of [`Store::rename`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// The result.
    pub result: Result<(), FsError>,
    /// The attributes of the directory of the old name, before and after the operation.
    pub from: Wcc,
    /// The attributes of the directory of the new name, before and after the operation.
    pub to: Wcc,
}

/// The outcome of [`Store::link`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// The result.
    pub result: Result<(), FsError>,
    /// The attributes of the object after the operation.
    pub attributes: Option<Attributes>,
    /// The attributes of the directory of the new name, before and after the operation.
    pub directory: Wcc,
}

/// An object that a lookup or a creation returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The object.
    pub object: ObjectId,
    /// The attributes of the object.
    pub attributes: Attributes,
    /// The attributes of the searched directory; None if [`Changed`] contains them.
    pub directory: Option<Attributes>,
}

/// The target path of a symbolic link.
pub type Target = Vec<u8>;

/// An access by a local program to an object with a local-access interlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// No program has accessed the object for a long time; the object may no longer need the
    /// interlock.
    Nothing,
    /// A program is about to read the object.
    Reads,
    /// A program is about to change the object, or has changed names in it.
    Changes,
}

/// The accesses that the local-access interlock delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// No access is delayed.
    Nothing,
    /// Changes of data or names are delayed.
    Changes,
    /// Changes and reads are delayed.
    Everything,
}

/// Exclusive access to an object until this value is dropped.
#[derive(Default)]
pub struct Alone {
    /// A sequence number. If it equals the number of this server's previous exclusive access, no
    /// other server has accessed the object in between. Zero carries no information.
    pub number: u64,
    end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Alone {
    /// Returns a value that calls `end` when it is dropped.
    pub fn until(number: u64, end: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self { number, end: Some(Box::new(end)) }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.end.take().into_iter().for_each(|end| end());
    }
}

impl fmt::Debug for Alone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alone").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Kinds of access that a caller may have (RFC 1813 3.3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The right to read a file, or to list a directory.
    pub read: bool,
    /// The right to look up a name in a directory.
    pub lookup: bool,
    /// The right to overwrite existing bytes of a file, or to change names in a directory.
    pub modify: bool,
    /// The right to write beyond the end of a file, or to add names to a directory.
    pub extend: bool,
    /// The right to remove names from a directory.
    pub delete: bool,
    /// The right to run a file.
    pub execute: bool,
}

impl Access {
    /// Returns the kinds of access that both sets contain.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            read: self.read && other.read,
            lookup: self.lookup && other.lookup,
            modify: self.modify && other.modify,
            extend: self.extend && other.extend,
            delete: self.delete && other.delete,
            execute: self.execute && other.execute,
        }
    }
}

/// The result of a READ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadDone {
    /// The bytes.
    pub data: Bytes,
    /// True if the bytes reach the end of the file.
    pub end: bool,
    /// The attributes of the file after the READ.
    pub attributes: Attributes,
}

/// The stability of written data (RFC 1813 3.3.7, `stable_how`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stability {
    /// The data may be lost in a crash; a COMMIT will follow.
    Unstable,
    /// The data is on stable storage, with the metadata that a later read needs.
    DataSync,
    /// The data and all attributes are on stable storage.
    FileSync,
}

/// The write verifier, which changes whenever unstable data may be lost (RFC 1813 3.3.7,
/// `writeverf3`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Verifier(pub [u8; 8]);

/// The result of a WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteDone {
    /// The number of bytes written.
    pub count: u32,
    /// The stability of the bytes, at least as high as requested.
    pub stability: Stability,
    /// The write verifier; a later COMMIT returns an equal verifier unless the server lost data.
    pub verifier: Verifier,
}

/// The result of a COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The write verifier, equal to the verifier of the WRITEs if the server lost no data.
    pub verifier: Verifier,
}

/// The mode of a file creation (RFC 1813 3.3.8, `createhow3`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewFile {
    /// Accepts an existing file, and then sets only the size of the given attributes. Any other
    /// existing object fails with [`FsError::AlreadyExists`].
    Unchecked(SetAttributes),
    /// Fails with [`FsError::AlreadyExists`] if the name exists.
    Guarded(SetAttributes),
    /// Fails with [`FsError::AlreadyExists`] unless an earlier call with the same verifier created
    /// the file.
    Exclusive([u8; 8]),
}

/// The kind of object that [`Store::make`] creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewNode<'a> {
    /// A directory.
    Directory,
    /// A symbolic link to a path.
    Symlink(&'a [u8]),
    /// A block special device.
    BlockDevice(Device),
    /// A character special device.
    CharacterDevice(Device),
    /// A socket.
    Socket,
    /// A named pipe.
    Fifo,
}

/// Space on a file system (RFC 1813 3.3.18).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// The size of the file system in bytes.
    pub bytes: u64,
    /// The number of free bytes.
    pub free_bytes: u64,
    /// The number of free bytes that the caller may use.
    pub available_bytes: u64,
    /// The maximum number of files.
    pub files: u64,
    /// The number of files that can still be created.
    pub free_files: u64,
    /// The number of files that the caller can still create.
    pub available_files: u64,
}

impl Space {
    /// The maximum margin that [`Space::promised`] subtracts, in bytes.
    const MARGIN_BYTES_MAX: u64 = 1 << 30;

    /// The divisor that derives the margin from the size of the file system.
    const MARGIN_PARTS: u64 = 16;

    /// Returns the space of the file system, where `available_bytes` is reduced to the bytes that a
    /// server may reserve for data that arrives later.
    ///
    /// The reduction is a margin for the blocks that the file system itself needs: a file occupies
    /// whole blocks, and each extent needs metadata blocks (a btrfs of 128 MiB refused data with 3
    /// MiB available). A write beyond the reserved space is still sent to the file system, which
    /// accepts or refuses it.
    #[must_use]
    pub const fn promised(self) -> Self {
        let part = self.bytes / Self::MARGIN_PARTS;
        let margin = if part < Self::MARGIN_BYTES_MAX { part } else { Self::MARGIN_BYTES_MAX };
        Self { available_bytes: self.available_bytes.saturating_sub(margin), ..self }
    }
}

/// The properties of a store as a whole (RFC 1813 3.3.19 and 3.3.20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties {
    /// The maximum size of a file, in bytes.
    pub file_bytes_max: u64,
    /// The maximum length of a name, in bytes.
    pub name_bytes_max: u32,
    /// The maximum number of names of one file.
    pub link_max: u32,
    /// The resolution of file times.
    pub time_step: core::time::Duration,
    /// True if names that differ only in case are equal.
    pub case_insensitive: bool,
    /// True if only the superuser may change the owner of a file.
    pub chown_restricted: bool,
    /// True if a caller can set times to any value.
    pub can_set_time: bool,
    /// True if the store supports symbolic links.
    pub symlinks: bool,
    /// True if a file can have several names.
    pub links: bool,
    /// True if clients may hold leases on directories and on all other objects that are not regular
    /// files. If other servers share the names, [`Store::cover`] makes the final decision.
    pub leases_names: bool,
}
