//! The attributes of objects, and changes of attributes.

use crate::units::{FileId, FileSystemId, FileTime};

/// The kinds of objects, in the order of RFC 1813 2.5 (`ftype3`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileType {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Block special device.
    BlockDevice,
    /// Character special device.
    CharacterDevice,
    /// Symbolic link.
    Symlink,
    /// Socket.
    Socket,
    /// Named pipe.
    Fifo,
}

/// Permission bits with set-user-id, set-group-id and sticky: the low 12 bits of Unix' mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mode(u16);

impl Mode {
    const BITS: u32 = 0o7777;

    /// Returns the mode of the low 12 bits of `bits`, and drops the others.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self((bits & Self::BITS) as u16)
    }

    /// Returns the 12 bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0 as u32
    }
}

/// The number of a device special file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device {
    /// Its driver.
    pub major: u32,
    /// The number of the device among the devices of the driver.
    pub minor: u32,
}

/// All attributes of an object (RFC 1813 2.5, `fattr3`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The kind of object.
    pub file_type: FileType,
    /// Permission bits.
    pub mode: Mode,
    /// Number of names.
    pub link_count: u32,
    /// Owner.
    pub uid: u32,
    /// Owning group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Disk space in bytes.
    pub used: u64,
    /// The device of a device special file, else zero.
    pub device: Device,
    /// The file system that it belongs to.
    pub file_system: FileSystemId,
    /// Its number within the file system.
    pub file_id: FileId,
    /// Last time the data was read.
    pub accessed: FileTime,
    /// Last time the data was changed.
    pub modified: FileTime,
    /// Last time data or attributes were changed.
    pub changed: FileTime,
}

impl Attributes {
    /// Returns the part by which a client detects changes by other clients.
    #[must_use]
    pub const fn before(&self) -> Before {
        Before { size: self.size, modified: self.modified, changed: self.changed }
    }
}

/// Attributes from before an operation (RFC 1813 2.6, `wcc_attr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// Size in bytes.
    pub size: u64,
    /// Last time the data was changed.
    pub modified: FileTime,
    /// Last time data or attributes were changed.
    pub changed: FileTime,
}

/// Weak cache consistency data: an object before and after an operation (RFC 1813 2.6, `wcc_data`).
/// Both parts are present only if no concurrent change of the object was possible in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wcc {
    /// Before the operation.
    pub before: Option<Before>,
    /// After the operation.
    pub after: Option<Attributes>,
}

/// The change of a time (RFC 1813 2.6, `time_how`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetTime {
    /// Not at all.
    #[default]
    Keep,
    /// To the server's time.
    Now,
    /// To the client's time.
    To(FileTime),
}

/// The attributes to change, and their new values (RFC 1813 2.6, `sattr3`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permission bits.
    pub mode: Option<Mode>,
    /// Owner.
    pub uid: Option<u32>,
    /// Owning group.
    pub gid: Option<u32>,
    /// Size in bytes; a larger size leaves a hole.
    pub size: Option<u64>,
    /// Last time the data was read.
    pub accessed: SetTime,
    /// Last time the data was changed.
    pub modified: SetTime,
}
