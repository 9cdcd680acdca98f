//! The trait that every store implements.

mod layout;
mod listing;

pub use layout::{ClientKey, LaidOut, Layout, Owner, Purpose, Spot};
pub use listing::{Allowance, Budget, Entries, Entry, Page, Wanted};

use core::fmt;

use bytes::Bytes;
use leasehold_base::units::{Cookie, FileTime};

use crate::{Answer, Attributes, Caller, Device, FsError, Name, ObjectId, SetAttributes, Wcc};

/// Where files lie: a local directory, memory, stripes on other servers.
///
/// What holds for every operation:
/// - Objects are named by [`ObjectId`]; one that is gone is [`FsError::Stale`].
/// - The store decides whether `caller` may; `.` and `..` and read-only exports were dealt with
///   above.
/// - An operation that changes something returns the attributes before and after it; both are
///   there only when nothing else can have changed the object in between.
/// - Names and attributes are on stable storage when an operation answers, data when it was
///   written so or committed.
/// - A name longer than [`Properties::name_bytes_max`] is [`FsError::NameTooLong`].
/// - An operation that cannot be answered without sleeping answers later; it never blocks.
pub trait Store: Send + Sync {
    /// The directory that is exported.
    fn root(&self) -> ObjectId;

    /// The part of an id that is equal for all ids of one object; what leases, locks and write
    /// stability are kept by.
    fn identity(&self, object: &ObjectId) -> ObjectId {
        *object
    }

    /// A path to an object from the root, its names parted by slashes, for people to read; empty for
    /// the root. It is true when it is told and need not be later, and is one of several where the
    /// object has several names. None where there is none, and where it would have to be searched or
    /// waited for.
    fn path(&self, _object: &ObjectId) -> Option<Vec<u8>> {
        None
    }

    /// Has programs that reach an object by other ways wait, or tells of them, while clients hold
    /// leases on it. Where that cannot be, it is not.
    ///
    /// # Errors
    /// [`FsError::Later`] when a program already has it open in a way that does not go with it.
    fn guard(&self, _object: &ObjectId, _guard: Guard) -> Result<(), FsError> {
        Ok(())
    }

    /// Makes sure of an object for clients that are to hold leases on it which go with this, where
    /// others serve the same files: until they are told to give those up no other's client changes it,
    /// or reads it, too. Where that is but opportune nobody is asked for it.
    ///
    /// # Errors
    /// [`FsError::Later`] when that cannot be had soon, [`FsError::NotSupported`] when it never can.
    fn cover<'a>(
        &'a self,
        _object: &'a ObjectId,
        _guard: Guard,
        _opportune: bool,
    ) -> Answer<'a, Result<(), FsError>> {
        Answer::now(Ok(()))
    }

    /// Keeps others who serve the same files, and their clients, from an object until the answer is
    /// dropped: what those cache of it is void before.
    ///
    /// # Errors
    /// [`FsError::Later`] when that cannot be had soon.
    fn alone<'a>(&'a self, _object: &'a ObjectId) -> Answer<'a, Result<Alone, FsError>> {
        Answer::now(Ok(Alone::default()))
    }

    /// From which change time of an object to which its store has changed it by itself alone, as
    /// where it has moved its data, if nobody else has changed it since: it is what it was at the
    /// first of them. A store need not remember that.
    fn upkeep(&self, _object: &ObjectId) -> Option<(FileTime, FileTime)> {
        None
    }

    /// Where an administrator wants the data of a file, or of files that are made in a directory, in
    /// the words of a store above this one; none where nothing was said.
    fn layout<'a>(&'a self, _object: &'a ObjectId) -> Answer<'a, Result<Option<Bytes>, FsError>> {
        Answer::now(Ok(None))
    }

    /// Says so of an object.
    fn set_layout<'a>(
        &'a self,
        _object: &'a ObjectId,
        _layout: Bytes,
    ) -> Answer<'a, Result<(), FsError>> {
        Answer::now(Err(FsError::NotSupported))
    }

    /// What is true of the store as a whole.
    fn properties(&self) -> Properties;

    /// The properties of the file system that an object lies on.
    fn properties_of(&self, _object: &ObjectId) -> Properties {
        self.properties()
    }

    /// The attributes of an object; needs no permission.
    fn getattr<'a>(&'a self, object: &'a ObjectId) -> Answer<'a, Result<Attributes, FsError>>;

    /// The same with nobody waited for who may be away, and whether all of it is true: where it is
    /// not, size and bytes used may be others.
    fn known<'a>(
        &'a self,
        object: &'a ObjectId,
    ) -> Answer<'a, Result<(Attributes, bool), FsError>> {
        Answer::later(async move { Ok((self.getattr(object).await?, true)) })
    }

    /// When an object was changed last, as its attributes say; known also while what else they say
    /// has to be waited for.
    fn changed<'a>(&'a self, object: &'a ObjectId) -> Answer<'a, Result<FileTime, FsError>> {
        Answer::later(async move { Ok(self.getattr(object).await?.changed) })
    }

    /// Changes attributes, all or none. [`FsError::NotOwner`] for what only the owner or the
    /// privileged may change; writers may set times to now and the size, which the owner always
    /// may. The size of a directory is [`FsError::IsDirectory`], of any other object that is no
    /// file [`FsError::Invalid`].
    ///
    /// With `guard`, only while the object's change time is still that one, else
    /// [`FsError::NotSynchronized`].
    fn setattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        changes: &'a SetAttributes,
        guard: Option<FileTime>,
    ) -> Answer<'a, Changed<()>>;

    /// The object of a name.
    fn lookup<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        name: Name<'a>,
    ) -> Answer<'a, Result<Found, FsError>>;

    /// The directory above a directory; of the root, the root.
    fn parent<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
    ) -> Answer<'a, Result<Found, FsError>>;

    /// Which of the wanted kinds of access the caller has.
    fn access<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        wanted: Access,
    ) -> Answer<'a, Result<(Access, Attributes), FsError>>;

    /// The wanted kinds of access that the caller has, without attributes. The answer comes also
    /// while attributes have to be waited for.
    fn rights<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        wanted: Access,
    ) -> Answer<'a, Result<Access, FsError>> {
        Answer::later(async move { Ok(self.access(caller, object, wanted).await?.0) })
    }

    /// The target of a symbolic link; [`FsError::Invalid`] for any other object.
    fn readlink<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> Answer<'a, Result<(Target, Attributes), FsError>>;

    /// Reads up to `count` bytes; fewer only at the end of the file. The owner may always read,
    /// for the client checked when the file was opened, and so may who may run the file (RFC 1813
    /// 4.4). [`FsError::Invalid`] for an object that is neither file nor directory,
    /// [`FsError::IsDirectory`] for a directory.
    fn read<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        count: u32,
    ) -> Answer<'a, Result<ReadDone, FsError>>;

    /// Writes, and makes it as stable as asked before it answers. The owner may always write.
    /// Fails on other objects as [`Store::read`] does.
    fn write<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Answer<'a, Changed<WriteDone>>;

    /// Makes a regular file; `wcc` is the directory's.
    ///
    /// What is made belongs to the caller, and to the directory's group where that is
    /// set-group-id; a mode that is not given is 0600. Only the privileged may give it to others.
    fn create<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        file: &'a NewFile,
    ) -> Answer<'a, Changed<Found>>;

    /// Makes anything but a regular file, which belongs as a file does; `wcc` is the directory's.
    ///
    /// A mode that is not given is 0600, of a directory 0700; a size is not looked at, nor the
    /// mode of a symbolic link.
    fn make<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        node: &'a NewNode<'a>,
        attributes: &'a SetAttributes,
    ) -> Answer<'a, Changed<Found>>;

    /// Removes a name of anything but a directory, which is [`FsError::IsDirectory`]; `wcc` is the
    /// directory's.
    fn remove<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> Answer<'a, Changed<()>>;

    /// Removes an empty directory; `wcc` is that of the directory above. [`FsError::NotEmpty`]
    /// where there are names in it, [`FsError::NotDirectory`] for any other object.
    fn rmdir<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> Answer<'a, Changed<()>>;

    /// Gives an object another name, over what had that name before, in one step. Nothing happens
    /// where both names lead to one object.
    ///
    /// A directory replaces only an empty directory ([`FsError::NotEmpty`],
    /// [`FsError::NotDirectory`]) and cannot go below itself ([`FsError::Invalid`]); other objects
    /// replace anything but a directory ([`FsError::IsDirectory`]).
    fn rename<'a>(
        &'a self,
        caller: &'a Caller,
        from: Place<'a>,
        to: Place<'a>,
    ) -> Answer<'a, Renamed>;

    /// Gives an object one more name; [`FsError::Invalid`] for a directory.
    fn link<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        place: Place<'a>,
    ) -> Answer<'a, Linked>;

    /// A part of a directory, from behind `cookie` on, `.` and `..` among the entries. Every name
    /// that is there throughout a listing comes exactly once. As many come as the budget holds;
    /// [`FsError::TooSmall`] when it does not hold the next entry.
    fn readdir<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        cookie: Cookie,
        budget: Budget,
        wanted: Wanted,
    ) -> Answer<'a, Result<Page, FsError>>;

    /// Room on the file system, as the caller may use it.
    fn space<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> Answer<'a, Result<(Space, Attributes), FsError>>;

    /// The bytes that may be promised to a client whose data comes later, without attributes. The
    /// answer may be less than [`Store::space`] has, and comes also while attributes have to be
    /// waited for.
    fn room<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> Answer<'a, Result<Space, FsError>> {
        Answer::later(async move { Ok(self.space(caller, object).await?.0) })
    }

    /// Where the data of a file lies, for a client that goes there itself; none where it is to be
    /// had here alone. One to write by is good until [`Store::recall`]; while there is one, sizes
    /// are those that the servers of objects tell.
    fn open_layout<'a>(
        &'a self,
        _caller: &'a Caller,
        _object: &'a ObjectId,
        _purpose: Purpose,
    ) -> Answer<'a, Result<Option<Layout>, FsError>> {
        Answer::now(Ok(None))
    }

    /// Ends a layout to write by: nothing that is written by it comes after the answer, and the
    /// file shows that it was changed.
    fn recall<'a>(&'a self, _object: &'a ObjectId) -> Answer<'a, Result<(), FsError>> {
        Answer::now(Ok(()))
    }

    /// Puts on stable storage what was written unstably within a range; a length of zero means
    /// to the end of the file. Needs no permission; fails on other objects as [`Store::read`] does.
    fn commit<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        length: u32,
    ) -> Answer<'a, Changed<Committed>>;
}

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The directory.
    pub directory: ObjectId,
    /// The name in it.
    pub name: Name<'a>,
}

/// What an operation that changes an object, or the names in a directory, comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed<T> {
    /// Its result.
    pub result: Result<T, FsError>,
    /// The changed object before and after, also when the operation failed.
    pub wcc: Wcc,
}

impl<T> Changed<T> {
    /// A failure of which nothing more is known.
    #[must_use]
    pub fn failed(error: FsError) -> Self {
        Self { result: Err(error), wcc: Wcc::default() }
    }
}

/// What [`Store::rename`] comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// Its result.
    pub result: Result<(), FsError>,
    /// The directory of the old name.
    pub from: Wcc,
    /// The directory of the new name.
    pub to: Wcc,
}

/// What [`Store::link`] comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// Its result.
    pub result: Result<(), FsError>,
    /// The object afterwards.
    pub attributes: Option<Attributes>,
    /// The directory of the new name.
    pub directory: Wcc,
}

/// An object that a name led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The object.
    pub object: ObjectId,
    /// Its attributes.
    pub attributes: Attributes,
    /// The attributes of the directory that was searched; none where [`Changed`] has them.
    pub directory: Option<Attributes>,
}

/// What a symbolic link says.
pub type Target = Vec<u8>;

/// What programs do to an object that is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// Nothing for long: it may be that it needs no guard any more.
    Nothing,
    /// One is to read it.
    Reads,
    /// One is to change it, or has changed names in it.
    Changes,
}

/// What programs that reach an object by other ways are to wait with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Nothing.
    Nothing,
    /// To change its data or names.
    Changes,
    /// To read it, too.
    Everything,
}

/// That nobody else is at an object, until it is dropped.
#[derive(Default)]
pub struct Alone {
    /// The same number as the last time means that nobody else was at it since; zero says nothing.
    pub number: u64,
    end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Alone {
    /// Does this at its end.
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

/// Kinds of access, each of which a caller may have or not (RFC 1813 3.3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Read a file, or list a directory.
    pub read: bool,
    /// Look up a name in a directory.
    pub lookup: bool,
    /// Write where a file has bytes, or change names in a directory.
    pub modify: bool,
    /// Write behind the end of a file, or add names to a directory.
    pub extend: bool,
    /// Remove names from a directory.
    pub delete: bool,
    /// Run a file.
    pub execute: bool,
}

impl Access {
    /// What is in both.
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

/// What a READ brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadDone {
    /// The bytes.
    pub data: Bytes,
    /// Whether they reach to the end of the file.
    pub end: bool,
    /// The file afterwards.
    pub attributes: Attributes,
}

/// How safe written data must be, or is (RFC 1813 3.3.7, `stable_how`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stability {
    /// Anywhere; a COMMIT will follow.
    Unstable,
    /// Data on stable storage, with as much as is needed to read it back.
    DataSync,
    /// Data and all attributes on stable storage.
    FileSync,
}

/// Changes whenever data that was written unstably may be lost (RFC 1813 3.3.7, `writeverf3`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Verifier(pub [u8; 8]);

/// What a WRITE comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteDone {
    /// How many bytes were written.
    pub count: u32,
    /// How safe they are, at least as asked.
    pub stability: Stability,
    /// The verifier of a later COMMIT, unless something was lost.
    pub verifier: Verifier,
}

/// What a COMMIT comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Equal to that of the WRITEs when nothing was lost.
    pub verifier: Verifier,
}

/// How a regular file is to be made (RFC 1813 3.3.8, `createhow3`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewFile {
    /// Takes a file that is already there, and then sets no attribute but a size; any other
    /// object there is [`FsError::AlreadyExists`].
    Unchecked(SetAttributes),
    /// Fails with [`FsError::AlreadyExists`] when the name is there.
    Guarded(SetAttributes),
    /// Fails so unless the file was made by an earlier call with the same verifier.
    Exclusive([u8; 8]),
}

/// What [`Store::make`] is to make.
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

/// Room on a file system (RFC 1813 3.3.18).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Size in bytes.
    pub bytes: u64,
    /// Free bytes.
    pub free_bytes: u64,
    /// Free bytes that the caller may use.
    pub available_bytes: u64,
    /// Number of files that there can be.
    pub files: u64,
    /// Files that can still be made.
    pub free_files: u64,
    /// Files that the caller can still make.
    pub available_files: u64,
}

impl Space {
    /// The largest margin of [`Space::promised`], in bytes.
    const MARGIN_BYTES_MAX: u64 = 1 << 30;

    /// The margin's share of the file system: one part of so many.
    const MARGIN_PARTS: u64 = 16;

    /// The same file system with the bytes that a server may promise for data which comes later.
    ///
    /// A margin stays out of the promise: a file takes whole blocks, and the file system needs
    /// blocks of its own for each extent (a btrfs of 128 MiB refused data with 3 MiB available). A
    /// write beyond the promise is still tried: the file system decides then.
    #[must_use]
    pub const fn promised(self) -> Self {
        let part = self.bytes / Self::MARGIN_PARTS;
        let margin = if part < Self::MARGIN_BYTES_MAX { part } else { Self::MARGIN_BYTES_MAX };
        Self { available_bytes: self.available_bytes.saturating_sub(margin), ..self }
    }
}

/// What is true of a store as a whole (RFC 1813 3.3.19 and 3.3.20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties {
    /// The largest size of a file, in bytes.
    pub file_bytes_max: u64,
    /// The longest name, in bytes.
    pub name_bytes_max: u32,
    /// The largest number of names of one file.
    pub link_max: u32,
    /// The steps in which times are kept.
    pub time_step: core::time::Duration,
    /// Whether names that differ in case alone are one name.
    pub case_insensitive: bool,
    /// Whether only the privileged may give files away.
    pub chown_restricted: bool,
    /// Whether times can be set to any value.
    pub can_set_time: bool,
    /// Whether there are symbolic links.
    pub symlinks: bool,
    /// Whether files can have several names.
    pub links: bool,
    /// Whether clients may hold leases on names: on directories, and on all else that is no regular
    /// file. Where others serve the same names, [`Store::cover`] has the last word.
    pub leases_names: bool,
}
