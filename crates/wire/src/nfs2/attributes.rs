//! Attributes of objects, and changes of attributes (RFC 1094 2.3.2 to 2.3.6).

use leasehold_base::units::FileTime;
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::{xdr_enum, xdr_struct};

use super::FileId;

xdr_enum! {
    /// The kinds of objects (RFC 1094 2.3.2).
    #[doc(alias = "ftype")]
    pub enum FileType {
        /// An object of none of the other types. With the mode's type bits 0140000, the object is a
        /// socket.
        NonFile = 0,
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
        /// Socket. The RFC does not define this value; servers send it.
        Socket = 6,
        /// Named pipe. The RFC does not define this value; servers send it.
        Fifo = 8,
    }
}

xdr_struct! {
    /// A time, in seconds since 1970 and microseconds (RFC 1094 2.3.4).
    #[doc(alias = "timeval")]
    #[derive(Copy, Default)]
    pub struct Time {
        /// The whole seconds.
        pub seconds: u32,
        /// The microseconds within the second.
        pub microseconds: u32,
    }

    /// All attributes of an object (RFC 1094 2.3.5).
    #[doc(alias = "fattr")]
    #[derive(Copy)]
    pub struct Attributes {
        /// The type of the object.
        pub file_type: FileType,
        /// The permission bits, and above them the type bits.
        pub mode: u32,
        /// The number of names of the object.
        pub link_count: u32,
        /// The user id of the owner.
        pub uid: u32,
        /// The group id of the owning group.
        pub gid: u32,
        /// The size in bytes.
        pub size: u32,
        /// The size of a block, in bytes.
        pub block_bytes: u32,
        /// The device of a device special file.
        pub device: u32,
        /// The number of blocks that the object occupies on the disk.
        pub blocks: u32,
        /// The file system that it belongs to.
        pub file_system: u32,
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

/// The encoded size of [`Attributes`], in bytes.
pub const ATTRIBUTES_BYTES: u32 = 68;

/// The value that stands for an unchanged attribute: -1.
const KEEP: u32 = u32::MAX;

/// The value that some clients send for an unchanged mode.
const KEEP_MODE: u32 = 0xffff;

/// The microseconds that stand for the server's time: no RFC defines the convention, but every
/// client uses it.
const NOW_MICROSECONDS: u32 = 1_000_000;

/// The change of a time. A time with -1 for seconds or microseconds cannot be set.
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
        let time = Time::decode(reader)?;
        Ok(match time {
            Time { seconds: KEEP, .. } | Time { microseconds: KEEP, .. } => Self::Keep,
            Time { microseconds: NOW_MICROSECONDS, .. } => Self::Now,
            Time { .. } => Self::To(time),
        })
    }
}

impl Encode for SetTime {
    fn encode(&self, writer: &mut Writer) {
        let time = match self {
            Self::Keep => Time { seconds: KEEP, microseconds: KEEP },
            Self::Now => Time { seconds: 0, microseconds: NOW_MICROSECONDS },
            Self::To(time) => *time,
        };
        time.encode(writer);
    }
}

/// The attributes to change, and their new values. The value -1 and the mode 0xffff cannot be set,
/// because these values stand for unchanged attributes (RFC 1094 2.3.6).
#[doc(alias = "sattr")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// The permission bits.
    pub mode: Option<u32>,
    /// The user id of the owner.
    pub uid: Option<u32>,
    /// The group id of the owning group.
    pub gid: Option<u32>,
    /// The size in bytes.
    pub size: Option<u32>,
    /// The time of the last read of the data.
    pub accessed: SetTime,
    /// The time of the last change of the data.
    pub modified: SetTime,
}

impl<'a> Decode<'a> for SetAttributes {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let mut word = || reader.u32().map(|word| (word != KEEP).then_some(word));
        Ok(Self {
            mode: word()?.filter(|mode| *mode != KEEP_MODE),
            uid: word()?,
            gid: word()?,
            size: word()?,
            accessed: Decode::decode(reader)?,
            modified: Decode::decode(reader)?,
        })
    }
}

impl Encode for SetAttributes {
    fn encode(&self, writer: &mut Writer) {
        writer.words(&[self.mode, self.uid, self.gid, self.size].map(|word| word.unwrap_or(KEEP)));
        self.accessed.encode(writer);
        self.modified.encode(writer);
    }
}

/// The last microsecond of a second.
const MICROSECONDS_MAX: u32 = 999_999;

/// Seconds are unsigned 32-bit numbers on the wire: values outside of the range become the nearest
/// limit.
impl From<FileTime> for Time {
    fn from(time: FileTime) -> Self {
        match u32::try_from(time.seconds) {
            Ok(seconds) => Self { seconds, microseconds: time.nanoseconds / 1000 },
            Err(_) if time.seconds < 0 => Self::default(),
            Err(_) => Self { seconds: u32::MAX, microseconds: MICROSECONDS_MAX },
        }
    }
}

/// A message may contain more than 999,999 microseconds: such values become the limit.
impl From<Time> for FileTime {
    fn from(time: Time) -> Self {
        Self {
            seconds: i64::from(time.seconds),
            nanoseconds: time.microseconds.min(MICROSECONDS_MAX) * 1000,
        }
    }
}
