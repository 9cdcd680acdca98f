//! CREATE, operation 6: makes an object other than a regular file in the current directory (RFC
//! 8881 18.4).

use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::xdr_struct;

use super::{Bitmap, ChangeInfo, Device, EncodedAttributes, FileType, Name, Path};

xdr_struct! {
    /// The new object.
    #[doc(alias = "CREATE4args")]
    #[derive(Copy)]
    pub struct Args<'a> {
        /// The kind of object.
        pub kind: Kind<'a>,
        /// The name.
        pub name: Name<'a>,
        /// The attributes.
        pub attributes: EncodedAttributes<'a>,
    }

    /// The results.
    #[doc(alias = "CREATE4resok")]
    #[derive(Copy)]
    pub struct Done {
        /// The change of the directory.
        pub directory: ChangeInfo,
        /// The attributes that the server has set.
        pub set: Bitmap,
    }
}

/// The results.
#[doc(alias = "CREATE4res")]
pub type Reply = super::Reply<Done>;

/// A kind of object, with the data that belongs to the kind.
#[doc(alias = "createtype4")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// A directory.
    Directory,
    /// A block special device.
    BlockDevice(Device),
    /// A character special device.
    CharacterDevice(Device),
    /// A symbolic link with this target.
    Symlink(Path<'a>),
    /// A socket.
    Socket,
    /// A named pipe.
    Fifo,
    /// A kind that the operation cannot make: BADTYPE.
    Other(u32),
}

const DIRECTORY: u32 = FileType::Directory as u32;
const BLOCK_DEVICE: u32 = FileType::BlockDevice as u32;
const CHARACTER_DEVICE: u32 = FileType::CharacterDevice as u32;
const SYMLINK: u32 = FileType::Symlink as u32;
const SOCKET: u32 = FileType::Socket as u32;
const FIFO: u32 = FileType::Fifo as u32;

impl<'a> Decode<'a> for Kind<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(match reader.u32()? {
            DIRECTORY => Self::Directory,
            BLOCK_DEVICE => Self::BlockDevice(Decode::decode(reader)?),
            CHARACTER_DEVICE => Self::CharacterDevice(Decode::decode(reader)?),
            SYMLINK => Self::Symlink(Decode::decode(reader)?),
            SOCKET => Self::Socket,
            FIFO => Self::Fifo,
            other => Self::Other(other),
        })
    }
}

impl Encode for Kind<'_> {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Directory => writer.u32(DIRECTORY),
            Self::BlockDevice(device) => {
                writer.u32(BLOCK_DEVICE);
                device.encode(writer);
            }
            Self::CharacterDevice(device) => {
                writer.u32(CHARACTER_DEVICE);
                device.encode(writer);
            }
            Self::Symlink(target) => {
                writer.u32(SYMLINK);
                target.encode(writer);
            }
            Self::Socket => writer.u32(SOCKET),
            Self::Fifo => writer.u32(FIFO),
            Self::Other(other) => writer.u32(*other),
        }
    }
}
