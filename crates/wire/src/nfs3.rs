//! NFS version 3 (RFC 1813): program 100003, version 3.
//!
//! Here are the types that several procedures share; each procedure has a module of its own.

pub mod read;

use leasehold_base::limits::HANDLE_BYTES_MAX;
use leasehold_base::units::{FileId, FileSystemId, FileTime};
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::{xdr_enum, xdr_struct};

/// The program's number.
pub const PROGRAM: u32 = 100_003;

/// The program's version.
pub const VERSION: u32 = 3;

/// A file handle: at most 64 bytes that only the server understands (RFC 1813 2.3.3).
#[doc(alias = "nfs_fh3")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle<'a>(pub &'a [u8]);

impl<'a> Decode<'a> for Handle<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        reader.opaque(HANDLE_BYTES_MAX).map(Self)
    }
}

impl Encode for Handle<'_> {
    fn encode(&self, writer: &mut Writer) {
        writer.opaque(self.0);
    }
}

/// What a procedure answers: the status, and behind it one body for success and one for failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<Done, Failed> {
    /// Status NFS3_OK.
    Done(Done),
    /// Any other status.
    Failed(Status, Failed),
}

/// The word of NFS3_OK.
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
    /// Why a procedure failed (RFC 1813 2.6).
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
        /// Names in different file systems.
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
        /// The handle is none of this server's.
        #[doc(alias = "NFS3ERR_BADHANDLE")]
        BadHandle = 10001,
        /// The object changed since the caller last looked.
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
        /// The kind of object cannot be made here.
        #[doc(alias = "NFS3ERR_BADTYPE")]
        BadType = 10007,
        /// To be asked again later.
        #[doc(alias = "NFS3ERR_JUKEBOX")]
        Jukebox = 10008,
    }

    /// The kinds of objects (RFC 1813 2.5).
    #[doc(alias = "ftype3")]
    pub enum FileType {
        /// Regular file.
        Regular = 1,
        /// Directory.
        Directory = 2,
        /// Block special device.
        BlockDevice = 3,
        /// Character special device.
        CharacterDevice = 4,
        /// Symbolic link.
        Symlink = 5,
        /// Socket.
        Socket = 6,
        /// Named pipe.
        Fifo = 7,
    }
}

xdr_struct! {
    /// The number of a device (RFC 1813 2.5).
    #[doc(alias = "specdata3")]
    #[derive(Copy, Default)]
    pub struct Device {
        /// Its driver.
        pub major: u32,
        /// Which of the driver's devices.
        pub minor: u32,
    }

    /// A time, in seconds since 1970 and nanoseconds (RFC 1813 2.5).
    #[doc(alias = "nfstime3")]
    #[derive(Copy, Default)]
    pub struct Time {
        /// Whole seconds.
        pub seconds: u32,
        /// Nanoseconds within the second.
        pub nanoseconds: u32,
    }

    /// All attributes of an object (RFC 1813 2.5).
    #[doc(alias = "fattr3")]
    #[derive(Copy)]
    pub struct Attributes {
        /// What kind of object it is.
        pub file_type: FileType,
        /// Permission bits.
        pub mode: u32,
        /// Number of names.
        pub link_count: u32,
        /// Owner.
        pub uid: u32,
        /// Owning group.
        pub gid: u32,
        /// Size in bytes.
        pub size: u64,
        /// Bytes that it takes on the disk.
        pub used: u64,
        /// The device of a device special file.
        pub device: Device,
        /// The file system that it belongs to.
        pub file_system: FileSystemId,
        /// Its number within the file system.
        pub file_id: FileId,
        /// Last time the data was read.
        pub accessed: Time,
        /// Last time the data was changed.
        pub modified: Time,
        /// Last time data or attributes were changed.
        pub changed: Time,
    }

    /// Attributes from before an operation (RFC 1813 2.6).
    #[doc(alias = "wcc_attr")]
    #[derive(Copy)]
    pub struct Before {
        /// Size in bytes.
        pub size: u64,
        /// Last time the data was changed.
        pub modified: Time,
        /// Last time data or attributes were changed.
        pub changed: Time,
    }

    /// Weak cache consistency data: an object before and after an operation (RFC 1813 2.6).
    #[doc(alias = "wcc_data")]
    #[derive(Copy, Default)]
    pub struct Wcc {
        /// Before the operation.
        pub before: Option<Before>,
        /// After the operation.
        pub after: Option<Attributes>,
    }
}

/// Seconds are 32 bits without a sign on the wire: what lies outside is the nearest end.
impl From<FileTime> for Time {
    fn from(time: FileTime) -> Self {
        match u32::try_from(time.seconds) {
            Ok(seconds) => Self { seconds, nanoseconds: time.nanoseconds },
            Err(_) if time.seconds < 0 => Self::default(),
            Err(_) => Self { seconds: u32::MAX, nanoseconds: 999_999_999 },
        }
    }
}

impl From<Time> for FileTime {
    fn from(time: Time) -> Self {
        Self { seconds: i64::from(time.seconds), nanoseconds: time.nanoseconds }
    }
}
