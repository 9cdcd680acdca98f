//! What is known of an object, and what may be changed of it (RFC 1094 2.3.2 to 2.3.6).

use leasehold_base::units::FileTime;
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::{xdr_enum, xdr_struct};

use super::FileId;

xdr_enum! {
    /// The kinds of objects (RFC 1094 2.3.2).
    #[doc(alias = "ftype")]
    pub enum FileType {
        /// Neither of the others; with the mode's type bits 0140000, a socket.
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
        /// Socket. The RFC does not have it, servers send it.
        Socket = 6,
        /// Named pipe. The RFC does not have it, servers send it.
        Fifo = 8,
    }
}

xdr_struct! {
    /// A time, in seconds since 1970 and microseconds (RFC 1094 2.3.4).
    #[doc(alias = "timeval")]
    #[derive(Copy, Default)]
    pub struct Time {
        /// Whole seconds.
        pub seconds: u32,
        /// Microseconds within the second.
        pub microseconds: u32,
    }

    /// All attributes of an object (RFC 1094 2.3.5).
    #[doc(alias = "fattr")]
    #[derive(Copy)]
    pub struct Attributes {
        /// What kind of object it is.
        pub file_type: FileType,
        /// Permission bits, and above them the kind of object once more.
        pub mode: u32,
        /// Number of names.
        pub link_count: u32,
        /// Owner.
        pub uid: u32,
        /// Owning group.
        pub gid: u32,
        /// Size in bytes.
        pub size: u32,
        /// The size of a block, in bytes.
        pub block_bytes: u32,
        /// The device of a device special file.
        pub device: u32,
        /// Blocks that it takes on the disk.
        pub blocks: u32,
        /// The file system that it belongs to.
        pub file_system: u32,
        /// Its number within the file system.
        pub file_id: FileId,
        /// Last time the data was read.
        pub accessed: Time,
        /// Last time the data was changed.
        pub modified: Time,
        /// Last time data or attributes were changed.
        pub changed: Time,
    }
}

/// The encoded size of [`Attributes`], in bytes.
pub const ATTRIBUTES_BYTES: u32 = 68;

/// The word of what is not to be changed: -1.
const KEEP: u32 = u32::MAX;

/// What some clients put for a mode that is not to be changed.
const KEEP_MODE: u32 = 0xffff;

/// The microseconds that stand for the server's time: no RFC has the convention, every client
/// follows it.
const NOW_MICROSECONDS: u32 = 1_000_000;

/// How a time is to be changed. One with -1 for seconds or microseconds cannot be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetTime {
    /// Not at all.
    #[default]
    Keep,
    /// To the server's time.
    Now,
    /// To the client's time.
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

/// Which attributes are to be changed, and to what. The number -1 cannot be set, nor the mode
/// 0xffff: they stand for what is kept (RFC 1094 2.3.6).
#[doc(alias = "sattr")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Owning group.
    pub gid: Option<u32>,
    /// Size in bytes.
    pub size: Option<u32>,
    /// Last time the data was read.
    pub accessed: SetTime,
    /// Last time the data was changed.
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
        for word in [self.mode, self.uid, self.gid, self.size] {
            writer.u32(word.unwrap_or(KEEP));
        }
        self.accessed.encode(writer);
        self.modified.encode(writer);
    }
}

/// The last microsecond of a second.
const MICROSECONDS_MAX: u32 = 999_999;

/// Seconds are 32 bits without a sign on the wire: what lies outside is the nearest end.
impl From<FileTime> for Time {
    fn from(time: FileTime) -> Self {
        match u32::try_from(time.seconds) {
            Ok(seconds) => Self { seconds, microseconds: time.nanoseconds / 1000 },
            Err(_) if time.seconds < 0 => Self::default(),
            Err(_) => Self { seconds: u32::MAX, microseconds: MICROSECONDS_MAX },
        }
    }
}

/// Nothing on the wire keeps microseconds within their second: more of them are its end.
impl From<Time> for FileTime {
    fn from(time: Time) -> Self {
        Self {
            seconds: i64::from(time.seconds),
            nanoseconds: time.microseconds.min(MICROSECONDS_MAX) * 1000,
        }
    }
}
