//! The types of the values of attributes.

use leasehold_base::limits::ALTERNATIVES_MAX;
use leasehold_base::units::FileTime;
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::{xdr_enum, xdr_struct};

use super::{Bitmap, LayoutType};
use crate::list::Array;

xdr_enum! {
    /// The kinds of objects (RFC 8881 3.2).
    #[doc(alias = "nfs_ftype4")]
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
        /// Directory of named attributes.
        AttributeDirectory = 8,
        /// Named attribute.
        NamedAttribute = 9,
    }

    /// The properties of the change attribute (RFC 7862 12.2.3).
    #[doc(alias = "change_attr_type4")]
    pub enum ChangeKind {
        /// Each change increases the number.
        Monotonic = 0,
        /// Each change increases the number by one.
        Counter = 1,
        /// Each change increases the number by one, except changes under a layout.
        CounterWithoutLayouts = 2,
        /// The number is the time of the last change.
        Time = 3,
        /// Nothing is known.
        Undefined = 4,
    }
}

/// A time, in seconds since 1970 and nanoseconds (RFC 8881 3.3.1).
#[doc(alias = "nfstime4")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// The whole seconds, negative before 1970.
    pub seconds: i64,
    /// The nanoseconds within the second.
    pub nanoseconds: u32,
}

impl<'a> Decode<'a> for Time {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self { seconds: reader.u64()?.cast_signed(), nanoseconds: reader.u32()? })
    }
}

impl Encode for Time {
    fn encode(&self, writer: &mut Writer) {
        writer.u64(self.seconds.cast_unsigned());
        writer.u32(self.nanoseconds);
    }
}

/// The last nanosecond of a second.
const NANOSECONDS_MAX: u32 = 999_999_999;

impl Time {
    /// Returns false if the nanoseconds are more than a second, which is an invalid argument.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.nanoseconds <= NANOSECONDS_MAX
    }
}

impl From<FileTime> for Time {
    fn from(time: FileTime) -> Self {
        Self { seconds: time.seconds, nanoseconds: time.nanoseconds }
    }
}

/// Too many nanoseconds become the limit.
impl From<Time> for FileTime {
    fn from(time: Time) -> Self {
        Self { seconds: time.seconds, nanoseconds: time.nanoseconds.min(NANOSECONDS_MAX) }
    }
}

unions! {
    /// A new time (RFC 8881 3.3.1).
    #[doc(alias("settime4", "time_how4"))]
    #[derive(Copy)]
    SetTime {
        /// The server sets the time to its current time.
        Now = 0,
        /// The server sets the time to this value.
        To(Time) = 1,
    }
}

/// Layout types, in order of preference.
pub type LayoutTypes = Array<LayoutType, ALTERNATIVES_MAX>;

xdr_struct! {
    /// A device number (RFC 8881 3.3.8).
    #[doc(alias = "specdata4")]
    #[derive(Copy, Default)]
    pub struct Device {
        /// The major number, which identifies the driver.
        pub major: u32,
        /// The minor number, which identifies the device among the devices of the driver.
        pub minor: u32,
    }

    /// A version of policies (RFC 8881 5.11.1).
    #[doc(alias = "change_policy4")]
    #[derive(Copy, Default)]
    pub struct ChangePolicy {
        /// The first part.
        pub major: u64,
        /// The second part.
        pub minor: u64,
    }

    /// Some permission bits (RFC 8881 6.2.5).
    #[doc(alias = "mode_masked4")]
    #[derive(Copy, Default)]
    pub struct ModeMasked {
        /// The values of the bits.
        pub value: u32,
        /// The bits to set.
        pub mask: u32,
    }

    /// The permission bits of a new object, and the mask of its creator (RFC 8275 4).
    #[doc(alias = "mode_umask4")]
    #[derive(Copy, Default)]
    pub struct ModeUmask {
        /// The requested permission bits.
        pub mode: u32,
        /// The bits that the server removes, unless the directory has an inheritable list.
        pub umask: u32,
    }

    /// The supported arguments of OPEN: a number in a set is a supported value or bit (RFC 9754).
    #[doc(alias = "open_arguments4")]
    #[derive(Copy, Default)]
    pub struct OpenArguments {
        /// The values of share access.
        pub share_access: Bitmap,
        /// The values of share deny.
        pub share_deny: Bitmap,
        /// The values and bits of wants in share access.
        pub share_access_want: Bitmap,
        /// The kinds of claims.
        pub claims: Bitmap,
        /// The modes of creation.
        pub create_modes: Bitmap,
    }
}
