//! Attributes of objects, and changes of attributes (RFC 1813 2.5 and 2.6).

use leasehold_base::units::{FileId, FileSystemId, FileTime};
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer, halves};
use leasehold_base::{xdr_decode, xdr_enum, xdr_struct};

xdr_enum! {
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
    /// A device number (RFC 1813 2.5).
    #[doc(alias = "specdata3")]
    #[derive(Copy, Default)]
    pub struct Device {
        /// The major number, which identifies the driver.
        pub major: u32,
        /// The minor number, which identifies the device among the devices of the driver.
        pub minor: u32,
    }

    /// A time, in seconds since 1970 and nanoseconds (RFC 1813 2.5).
    #[doc(alias = "nfstime3")]
    #[derive(Copy, Default)]
    pub struct Time {
        /// The whole seconds.
        pub seconds: u32,
        /// The nanoseconds within the second.
        pub nanoseconds: u32,
    }

    /// Attributes from before an operation (RFC 1813 2.6).
    #[doc(alias = "wcc_attr")]
    #[derive(Copy)]
    pub struct Before {
        /// The size in bytes.
        pub size: u64,
        /// The time of the last change of the data.
        pub modified: Time,
        /// The time of the last change of data or attributes.
        pub changed: Time,
    }

    /// Weak cache consistency data: the attributes of an object before and after an operation (RFC
    /// 1813 2.6).
    #[doc(alias = "wcc_data")]
    #[derive(Copy, Default)]
    pub struct Wcc {
        /// The attributes before the operation.
        pub before: Option<Before>,
        /// The attributes after the operation.
        pub after: Option<Attributes>,
    }

    /// The attributes to change, and their new values (RFC 1813 2.6).
    #[doc(alias = "sattr3")]
    #[derive(Copy, Default)]
    pub struct SetAttributes {
        /// The permission bits.
        pub mode: Option<u32>,
        /// The user id of the owner.
        pub uid: Option<u32>,
        /// The group id of the owning group.
        pub gid: Option<u32>,
        /// The size in bytes.
        pub size: Option<u64>,
        /// The time of the last read of the data.
        pub accessed: SetTime,
        /// The time of the last change of the data.
        pub modified: SetTime,
    }
}

xdr_decode! {
    /// All attributes of an object (RFC 1813 2.5).
    #[doc(alias = "fattr3")]
    #[derive(Copy)]
    pub struct Attributes {
        /// The type of the object.
        pub file_type: FileType,
        /// The permission bits.
        pub mode: u32,
        /// The number of names of the object.
        pub link_count: u32,
        /// The user id of the owner.
        pub uid: u32,
        /// The group id of the owning group.
        pub gid: u32,
        /// The size in bytes.
        pub size: u64,
        /// The number of bytes that the object occupies on the disk.
        pub used: u64,
        /// The device of a device special file.
        pub device: Device,
        /// The file system that it belongs to.
        pub file_system: FileSystemId,
        /// The file id: the object's number within the file system.
        pub file_id: FileId,
        /// The time of the last read of the data.
        pub accessed: Time,
        /// The time of the last change of the data.
        pub modified: Time,
        /// The time of the last change of data or attributes.
        pub changed: Time,
    }
}

/// Nearly every reply contains attributes, so they are written in one step and not word by word.
impl Encode for Attributes {
    fn encode(&self, writer: &mut Writer) {
        let ([size, size_low], [used, used_low]) = (halves(self.size), halves(self.used));
        let [file_system, file_system_low] = halves(self.file_system.0);
        let [file_id, file_id_low] = halves(self.file_id.0);
        writer.words(&[
            self.file_type as u32,
            self.mode,
            self.link_count,
            self.uid,
            self.gid,
            size,
            size_low,
            used,
            used_low,
            self.device.major,
            self.device.minor,
            file_system,
            file_system_low,
            file_id,
            file_id_low,
            self.accessed.seconds,
            self.accessed.nanoseconds,
            self.modified.seconds,
            self.modified.nanoseconds,
            self.changed.seconds,
            self.changed.nanoseconds,
        ]);
    }
}

/// The encoded size of [`Attributes`], in bytes.
pub const ATTRIBUTES_BYTES: u32 = 84;

/// The change of a time (RFC 1813 2.6).
#[doc(alias("time_how", "set_atime", "set_mtime"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetTime {
    /// The time stays unchanged.
    #[default]
    Keep,
    /// The server sets the time to its current time.
    Now,
    /// The server sets the time to this value.
    To(Time),
}

impl<'a> Decode<'a> for SetTime {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        match reader.u32()? {
            0 => Ok(Self::Keep),
            1 => Ok(Self::Now),
            2 => Ok(Self::To(Time::decode(reader)?)),
            _ => Err(Error::BadValue),
        }
    }
}

impl Encode for SetTime {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Keep => writer.u32(0),
            Self::Now => writer.u32(1),
            Self::To(time) => {
                writer.u32(2);
                time.encode(writer);
            }
        }
    }
}

/// The last nanosecond of a second.
const NANOSECONDS_MAX: u32 = 999_999_999;

/// Seconds are unsigned 32-bit numbers on the wire: values outside of the range become the nearest
/// limit.
impl From<FileTime> for Time {
    fn from(time: FileTime) -> Self {
        match u32::try_from(time.seconds) {
            Ok(seconds) => Self { seconds, nanoseconds: time.nanoseconds },
            Err(_) if time.seconds < 0 => Self::default(),
            Err(_) => Self { seconds: u32::MAX, nanoseconds: NANOSECONDS_MAX },
        }
    }
}

/// A message may contain more than 999,999,999 nanoseconds: such values become the limit.
impl From<Time> for FileTime {
    fn from(time: Time) -> Self {
        Self {
            seconds: i64::from(time.seconds),
            nanoseconds: time.nanoseconds.min(NANOSECONDS_MAX),
        }
    }
}
