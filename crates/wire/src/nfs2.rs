//! NFS version 2 (RFC 1094): program 100003, version 2.
//!
//! The structure is the same as in [`nfs3`](crate::nfs3).

mod attributes;

pub mod create;
pub mod getattr;
pub mod link;
pub mod lookup;
pub mod mkdir;
pub mod read;
pub mod readdir;
pub mod readlink;
pub mod remove;
pub mod rename;
pub mod rmdir;
pub mod setattr;
pub mod statfs;
pub mod symlink;
pub mod write;

pub use attributes::{ATTRIBUTES_BYTES, Attributes, FileType, SetAttributes, SetTime, Time};

use leasehold_base::limits::{HANDLE_V2_BYTES, NAME_V2_BYTES_MAX, PATH_V2_BYTES_MAX};
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::{xdr_enum, xdr_struct};

use crate::outcome::Outcome;

/// The program's number.
pub const PROGRAM: u32 = 100_003;

/// The program's version.
pub const VERSION: u32 = 2;

/// ROOT, procedure 3: obsolete, as MOUNT does its work (RFC 1094 2.2.4).
pub mod root {
    pub use crate::rpc::null::{Args, Reply};

    /// The procedure's number.
    pub const NUMBER: u32 = 3;
}

/// WRITECACHE, procedure 7: was never used (RFC 1094 2.2.8).
pub mod writecache {
    pub use crate::rpc::null::{Args, Reply};

    /// The procedure's number.
    pub const NUMBER: u32 = 7;
}

/// A file handle: 32 bytes that only the server understands (RFC 1094 2.3.3).
#[doc(alias = "fhandle")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub [u8; HANDLE_V2_BYTES]);

impl<'a> Decode<'a> for Handle {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        reader.fixed().copied().map(Self)
    }
}

impl Encode for Handle {
    fn encode(&self, writer: &mut Writer) {
        writer.fixed(&self.0);
    }
}

opaques! {
    /// A name in a directory, not validated: it may be empty or contain a slash (RFC 1094 2.3.7).
    #[doc(alias = "filename")]
    Name <= NAME_V2_BYTES_MAX;

    /// The target of a symbolic link (RFC 1094 2.3.8).
    #[doc(alias = "path")]
    Path <= PATH_V2_BYTES_MAX;
}

words! {
    /// A file id: the number of a file within its file system.
    FileId;

    /// A position in a directory; zero is the start (RFC 1094 2.2.17).
    #[doc(alias = "nfscookie")]
    Cookie;
}

xdr_struct! {
    /// A name and the directory that contains it (RFC 1094 2.3.10).
    #[doc(alias = "diropargs")]
    #[derive(Copy)]
    pub struct DirectoryArgs<'a> {
        /// The directory.
        pub directory: Handle,
        /// The name in it.
        pub name: Name<'a>,
    }

    /// An object that a lookup found (RFC 1094 2.3.11).
    #[doc(alias = "diropok")]
    #[derive(Copy)]
    pub struct Found {
        /// The object.
        pub object: Handle,
        /// The attributes of the object.
        pub attributes: Attributes,
    }
}

/// The reply of a procedure: a failure has a status and no body.
pub type Reply<Done> = Outcome<Done, Status>;

xdr_enum! {
    /// The error codes of the version (RFC 1094 2.3.1).
    #[doc(alias = "stat")]
    pub enum Status {
        /// Not owner.
        #[doc(alias = "NFSERR_PERM")]
        NotOwner = 1,
        /// No such file or directory.
        #[doc(alias = "NFSERR_NOENT")]
        NotFound = 2,
        /// I/O error.
        #[doc(alias = "NFSERR_IO")]
        Io = 5,
        /// No such device or address.
        #[doc(alias = "NFSERR_NXIO")]
        NoSuchAddress = 6,
        /// Permission denied.
        #[doc(alias = "NFSERR_ACCES")]
        Access = 13,
        /// File exists.
        #[doc(alias = "NFSERR_EXIST")]
        AlreadyExists = 17,
        /// No such device.
        #[doc(alias = "NFSERR_NODEV")]
        NoSuchDevice = 19,
        /// Not a directory.
        #[doc(alias = "NFSERR_NOTDIR")]
        NotDirectory = 20,
        /// Is a directory.
        #[doc(alias = "NFSERR_ISDIR")]
        IsDirectory = 21,
        /// File too large.
        #[doc(alias = "NFSERR_FBIG")]
        FileTooBig = 27,
        /// No space left.
        #[doc(alias = "NFSERR_NOSPC")]
        NoSpace = 28,
        /// Read-only file system.
        #[doc(alias = "NFSERR_ROFS")]
        ReadOnly = 30,
        /// Name too long.
        #[doc(alias = "NFSERR_NAMETOOLONG")]
        NameTooLong = 63,
        /// Directory not empty.
        #[doc(alias = "NFSERR_NOTEMPTY")]
        NotEmpty = 66,
        /// Quota exceeded.
        #[doc(alias = "NFSERR_DQUOT")]
        QuotaExceeded = 69,
        /// The object is gone.
        #[doc(alias = "NFSERR_STALE")]
        Stale = 70,
        /// The write cache of WRITECACHE was flushed.
        #[doc(alias = "NFSERR_WFLUSH")]
        WriteCacheFlushed = 99,
    }
}

#[cfg(test)]
mod tests;
