//! NFS version 3 (RFC 1813): program 100003, version 3.
//!
//! This module has the types that several procedures share. Each procedure has a module of its own,
//! with its `NUMBER`, its `Args`, its `Reply` and the body `Done` of a successful reply. Procedure
//! 0 (NULL) has neither arguments nor results.

mod attributes;
mod handle;

pub mod access;
pub mod commit;
pub mod create;
pub mod fsinfo;
pub mod fsstat;
pub mod getattr;
pub mod link;
pub mod lookup;
pub mod mkdir;
pub mod mknod;
pub mod pathconf;
pub mod read;
pub mod readdir;
pub mod readdirplus;
pub mod readlink;
pub mod remove;
pub mod rename;
pub mod rmdir;
pub mod setattr;
pub mod symlink;
pub mod write;

pub use attributes::{
    ATTRIBUTES_BYTES, Attributes, Before, Device, FileType, SetAttributes, SetTime, Time, Wcc,
};
pub use handle::Handle;

use leasehold_base::limits::{NAME_BYTES_MAX, PATH_BYTES_MAX};
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::{xdr_enum, xdr_struct};

/// The program's number.
pub const PROGRAM: u32 = 100_003;

/// The program's version.
pub const VERSION: u32 = 3;

opaques! {
    /// A name in a directory, not validated: it may be empty or contain a slash (RFC 1813 2.4).
    #[doc(alias = "filename3")]
    Name <= NAME_BYTES_MAX;

    /// The target of a symbolic link (RFC 1813 2.4).
    #[doc(alias = "nfspath3")]
    Path <= PATH_BYTES_MAX;
}

xdr_struct! {
    /// A name and the directory that contains it (RFC 1813 2.6).
    #[doc(alias = "diropargs3")]
    #[derive(Copy)]
    pub struct DirectoryArgs<'a> {
        /// The directory.
        pub directory: Handle,
        /// The name in it.
        pub name: Name<'a>,
    }

    /// The results of CREATE, MKDIR, SYMLINK and MKNOD when they have made an object.
    #[doc(alias("CREATE3resok", "MKDIR3resok", "SYMLINK3resok", "MKNOD3resok"))]
    #[derive(Copy)]
    pub struct Made {
        /// The object.
        pub object: Option<Handle>,
        /// The attributes of the object.
        pub attributes: Option<Attributes>,
        /// The directory of the new object.
        pub directory: Wcc,
    }
}

/// The reply of a procedure: the status, then one body for success and another for failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<Done, Failed> {
    /// Status NFS3_OK.
    Done(Done),
    /// Any other status.
    Failed(Status, Failed),
}

impl<Done, Failed> Reply<Done, Failed> {
    /// Returns the results of a successful reply.
    ///
    /// # Errors
    /// The status of a failed reply.
    pub fn done(self) -> Result<Done, Status> {
        match self {
            Self::Done(done) => Ok(done),
            Self::Failed(status, _) => Err(status),
        }
    }

    /// Converts the results of a successful reply.
    pub fn map<Other>(self, change: impl FnOnce(Done) -> Other) -> Reply<Other, Failed> {
        match self {
            Self::Done(done) => Reply::Done(change(done)),
            Self::Failed(status, failed) => Reply::Failed(status, failed),
        }
    }
}

/// The status value of NFS3_OK.
const OK: u32 = 0;

impl<'a, Done: Decode<'a>, Failed: Decode<'a>> Decode<'a> for Reply<Done, Failed> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        if reader.clone().u32()? == OK {
            reader.u32()?;
            return Ok(Self::Done(Done::decode(reader)?));
        }
        Ok(Self::Failed(Status::decode(reader)?, Failed::decode(reader)?))
    }
}

impl<Done: Encode, Failed: Encode> Encode for Reply<Done, Failed> {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Done(done) => {
                writer.u32(OK);
                done.encode(writer);
            }
            Self::Failed(status, failed) => {
                status.encode(writer);
                failed.encode(writer);
            }
        }
    }
}

xdr_enum! {
    /// The error codes of the version (RFC 1813 2.6).
    #[doc(alias = "nfsstat3")]
    pub enum Status {
        /// Not owner.
        #[doc(alias = "NFS3ERR_PERM")]
        NotOwner = 1,
        /// No such file or directory.
        #[doc(alias = "NFS3ERR_NOENT")]
        NotFound = 2,
        /// I/O error.
        #[doc(alias = "NFS3ERR_IO")]
        Io = 5,
        /// No such device or address.
        #[doc(alias = "NFS3ERR_NXIO")]
        NoSuchAddress = 6,
        /// Permission denied.
        #[doc(alias = "NFS3ERR_ACCES")]
        Access = 13,
        /// File exists.
        #[doc(alias = "NFS3ERR_EXIST")]
        AlreadyExists = 17,
        /// The names are in different file systems.
        #[doc(alias = "NFS3ERR_XDEV")]
        CrossDevice = 18,
        /// No such device.
        #[doc(alias = "NFS3ERR_NODEV")]
        NoSuchDevice = 19,
        /// Not a directory.
        #[doc(alias = "NFS3ERR_NOTDIR")]
        NotDirectory = 20,
        /// Is a directory.
        #[doc(alias = "NFS3ERR_ISDIR")]
        IsDirectory = 21,
        /// Invalid argument.
        #[doc(alias = "NFS3ERR_INVAL")]
        Invalid = 22,
        /// File too large.
        #[doc(alias = "NFS3ERR_FBIG")]
        FileTooBig = 27,
        /// No space left.
        #[doc(alias = "NFS3ERR_NOSPC")]
        NoSpace = 28,
        /// Read-only file system.
        #[doc(alias = "NFS3ERR_ROFS")]
        ReadOnly = 30,
        /// Too many hard links.
        #[doc(alias = "NFS3ERR_MLINK")]
        TooManyLinks = 31,
        /// Name too long.
        #[doc(alias = "NFS3ERR_NAMETOOLONG")]
        NameTooLong = 63,
        /// Directory not empty.
        #[doc(alias = "NFS3ERR_NOTEMPTY")]
        NotEmpty = 66,
        /// Quota exceeded.
        #[doc(alias = "NFS3ERR_DQUOT")]
        QuotaExceeded = 69,
        /// The object is gone.
        #[doc(alias = "NFS3ERR_STALE")]
        Stale = 70,
        /// Too many levels of remote in path.
        #[doc(alias = "NFS3ERR_REMOTE")]
        Remote = 71,
        /// The server did not issue the handle.
        #[doc(alias = "NFS3ERR_BADHANDLE")]
        BadHandle = 10001,
        /// The object has changed since the caller's last attributes.
        #[doc(alias = "NFS3ERR_NOT_SYNC")]
        NotSynchronized = 10002,
        /// The directory position is stale.
        #[doc(alias = "NFS3ERR_BAD_COOKIE")]
        BadCookie = 10003,
        /// The operation is not supported.
        #[doc(alias = "NFS3ERR_NOTSUPP")]
        NotSupported = 10004,
        /// The caller's buffer is too small.
        #[doc(alias = "NFS3ERR_TOOSMALL")]
        TooSmall = 10005,
        /// The server failed.
        #[doc(alias = "NFS3ERR_SERVERFAULT")]
        ServerFault = 10006,
        /// The server cannot make an object of this kind.
        #[doc(alias = "NFS3ERR_BADTYPE")]
        BadType = 10007,
        /// The client must retry the call later.
        #[doc(alias = "NFS3ERR_JUKEBOX")]
        Jukebox = 10008,
    }
}

#[cfg(test)]
mod tests;
