//! MKNOD, procedure 11: makes a special file (RFC 1813 3.3.11).

use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::xdr_struct;

use super::{Device, DirectoryArgs, FileType, Made, SetAttributes, Wcc};

/// The procedure's number.
pub const NUMBER: u32 = 11;

xdr_struct! {
    /// The special file to make.
    #[doc(alias = "MKNOD3args")]
    #[derive(Copy)]
    pub struct Args<'a> {
        /// The directory and the name of the file.
        pub place: DirectoryArgs<'a>,
        /// The kind of file, with its data.
        pub node: Node,
    }

    /// The attributes and the number of a device special file.
    #[doc(alias = "devicedata3")]
    #[derive(Copy)]
    pub struct DeviceData {
        /// The attributes of the file.
        pub attributes: SetAttributes,
        /// The device number.
        pub device: Device,
    }
}

/// The object to make. MKNOD rejects the kinds without data; they decode so that the server can
/// reply with [`Status::BadType`](super::Status::BadType).
#[doc(alias = "mknoddata3")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// A regular file, which only CREATE makes.
    Regular,
    /// A directory, which only MKDIR makes.
    Directory,
    /// Block special device.
    BlockDevice(DeviceData),
    /// Character special device.
    CharacterDevice(DeviceData),
    /// A symbolic link, which only SYMLINK makes.
    Symlink,
    /// Socket.
    Socket(SetAttributes),
    /// Named pipe.
    Fifo(SetAttributes),
}

impl Node {
    /// Returns the kind of the object to make.
    #[must_use]
    pub const fn file_type(&self) -> FileType {
        match self {
            Self::Regular => FileType::Regular,
            Self::Directory => FileType::Directory,
            Self::BlockDevice(_) => FileType::BlockDevice,
            Self::CharacterDevice(_) => FileType::CharacterDevice,
            Self::Symlink => FileType::Symlink,
            Self::Socket(_) => FileType::Socket,
            Self::Fifo(_) => FileType::Fifo,
        }
    }
}

impl<'a> Decode<'a> for Node {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(match FileType::decode(reader)? {
            FileType::Regular => Self::Regular,
            FileType::Directory => Self::Directory,
            FileType::BlockDevice => Self::BlockDevice(Decode::decode(reader)?),
            FileType::CharacterDevice => Self::CharacterDevice(Decode::decode(reader)?),
            FileType::Symlink => Self::Symlink,
            FileType::Socket => Self::Socket(Decode::decode(reader)?),
            FileType::Fifo => Self::Fifo(Decode::decode(reader)?),
        })
    }
}

impl Encode for Node {
    fn encode(&self, writer: &mut Writer) {
        self.file_type().encode(writer);
        match self {
            Self::Regular | Self::Directory | Self::Symlink => {}
            Self::BlockDevice(data) | Self::CharacterDevice(data) => data.encode(writer),
            Self::Socket(attributes) | Self::Fifo(attributes) => attributes.encode(writer),
        }
    }
}

/// The special file; in case of an error only the directory before and after.
#[doc(alias = "MKNOD3res")]
pub type Reply = super::Reply<Done, Wcc>;

/// The special file.
pub type Done = Made;
