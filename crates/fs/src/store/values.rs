//! The arguments and results of the operations of a store.

use bytes::Bytes;

use crate::{Attributes, Device, FsError, Name, ObjectId, SetAttributes, Wcc};

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

/// The outcome of [`Store::rename`](crate::Store::rename).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// The result.
    pub result: Result<(), FsError>,
    /// The attributes of the directory of the old name, before and after the operation.
    pub from: Wcc,
    /// The attributes of the directory of the new name, before and after the operation.
    pub to: Wcc,
}

/// The outcome of [`Store::link`](crate::Store::link).
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
    /// the file. A call that finds this file changes nothing.
    Exclusive {
        /// The create verifier. The store recognises it until the next SETATTR, also after a
        /// restart.
        verifier: [u8; 8],
        /// The attributes of a new file (RFC 8881 18.16.3, `EXCLUSIVE4_1`); the store ignores a
        /// size. A store that can keep the verifier only in the times of the file fails with
        /// [`FsError::NotSupported`] if the attributes contain times.
        attributes: SetAttributes,
    },
}

impl NewFile {
    /// Returns the exclusive creation of a file with the default attributes, as in version 3.
    #[must_use]
    pub fn exclusive(verifier: [u8; 8]) -> Self {
        Self::Exclusive { verifier, attributes: SetAttributes::default() }
    }

    /// Returns the attributes for a new file, and the verifier of an exclusive creation.
    #[must_use]
    pub const fn parts(&self) -> (SetAttributes, Option<[u8; 8]>) {
        match *self {
            Self::Unchecked(attributes) | Self::Guarded(attributes) => (attributes, None),
            Self::Exclusive { verifier, attributes } => {
                (SetAttributes { size: None, ..attributes }, Some(verifier))
            }
        }
    }
}

/// The kind of object that [`Store::make`](crate::Store::make) creates.
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
    /// files. If other servers share the names, [`Coherence::acquire`](super::Coherence::acquire)
    /// makes the final decision.
    pub leases_names: bool,
}
