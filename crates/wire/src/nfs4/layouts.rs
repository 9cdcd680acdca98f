//! Layouts, with opaque parts whose layout depends on the layout type.

use leasehold_base::limits::{LAYOUT_BODY_BYTES_MAX, LAYOUTS_LISTED_MAX};
use leasehold_base::units::Cookie;
use leasehold_base::{xdr_enum, xdr_struct};

use super::{
    Bitmap, Completion, CookieVerifier, Detail, DetailedReply, DeviceId, LayoutType, Number,
    Reply as ReplyOf, Stateid, Status, Time,
};
use crate::list::Array;

opaques! {
    /// A part of a message whose layout depends on the layout type.
    LayoutBody <= LAYOUT_BODY_BYTES_MAX;
}

xdr_enum! {
    /// The access of a layout (RFC 8881 3.3.20).
    #[doc(alias = "layoutiomode4")]
    pub enum IoMode {
        /// To read.
        Read = 1,
        /// To read and write.
        ReadWrite = 2,
        /// In returns and recalls: both.
        Any = 3,
    }
}

xdr_struct! {
    /// A layout of a range (RFC 8881 3.3.16).
    #[doc(alias("layout4", "layout_content4"))]
    #[derive(Copy)]
    pub struct Layout<'a> {
        /// The offset, in bytes.
        pub offset: u64,
        /// The length in bytes; 2^64-1 stands for all bytes to the largest offset.
        pub length: u64,
        /// The access.
        pub mode: IoMode,
        /// The layout type.
        pub kind: LayoutType,
        /// The layout.
        pub body: LayoutBody<'a>,
    }

    /// A change under a layout (RFC 8881 3.3.18).
    #[doc(alias = "layoutupdate4")]
    #[derive(Copy)]
    pub struct LayoutUpdate<'a> {
        /// The layout type.
        pub kind: LayoutType,
        /// The change.
        pub body: LayoutBody<'a>,
    }

    /// The address of a device (RFC 8881 3.3.15).
    #[doc(alias = "device_addr4")]
    #[derive(Copy)]
    pub struct DeviceAddress<'a> {
        /// The layout type.
        pub kind: LayoutType,
        /// The address.
        pub body: LayoutBody<'a>,
    }

    /// An error of a device (RFC 7862 15.6.1).
    #[doc(alias = "device_error4")]
    #[derive(Copy)]
    pub struct DeviceError {
        /// The device.
        pub device: DeviceId,
        /// The status.
        pub status: Completion,
        /// The operation that failed.
        pub operation: Number,
    }

    /// Statistics of I/O (RFC 7862 15.7.1).
    #[doc(alias = "io_info4")]
    #[derive(Copy)]
    pub struct IoStatistics {
        /// The number of operations.
        pub count: u64,
        /// The number of bytes.
        pub bytes: u64,
    }
}

/// LAYOUTGET, operation 50: requests a layout of the current file (RFC 8881 18.43).
pub mod layoutget {
    use super::{
        Array, Detail, DetailedReply, IoMode, LAYOUTS_LISTED_MAX, Layout, LayoutType, Stateid,
        Status, xdr_struct,
    };

    xdr_struct! {
        /// The wished layout.
        #[doc(alias = "LAYOUTGET4args")]
        #[derive(Copy)]
        pub struct Args {
            /// True if the server is to notify the client when a layout becomes available.
            pub signal: bool,
            /// The layout type.
            pub kind: LayoutType,
            /// The access.
            pub mode: IoMode,
            /// The offset, in bytes.
            pub offset: u64,
            /// The wished length, in bytes.
            pub length: u64,
            /// The smallest useful length, in bytes.
            pub length_min: u64,
            /// The open, lock, delegation or layout that permits the access.
            pub stateid: Stateid,
            /// The maximum encoded size of the layouts, in bytes.
            pub count: u32,
        }

        /// The layouts.
        #[doc(alias = "LAYOUTGET4resok")]
        pub struct Done<'a> {
            /// True if the client must return the layouts before it closes the file.
            pub return_on_close: bool,
            /// The layout state.
            pub stateid: Stateid,
            /// The layouts.
            pub layouts: Array<Layout<'a>, LAYOUTS_LISTED_MAX>,
        }

        /// The layout is not available now.
        #[derive(Copy)]
        pub struct TryLater {
            /// True if the server notifies the client when a layout becomes available.
            pub will_signal: bool,
        }
    }

    impl Detail for TryLater {
        const STATUS: Status = Status::LayoutTryLater;
    }

    /// The results.
    #[doc(alias = "LAYOUTGET4res")]
    pub type Reply<'a> = DetailedReply<Done<'a>, TryLater>;
}

/// LAYOUTCOMMIT, operation 49: makes changes of the current file under a layout visible (RFC 8881
/// 18.42).
pub mod layoutcommit {
    use super::{LayoutUpdate, ReplyOf, Stateid, Time, xdr_struct};

    xdr_struct! {
        /// The changes.
        #[doc(alias = "LAYOUTCOMMIT4args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// The offset of the range, in bytes.
            pub offset: u64,
            /// The length of the range, in bytes.
            pub length: u64,
            /// True if the client changed the file before a restart of the server.
            pub reclaim: bool,
            /// The layout state.
            pub stateid: Stateid,
            /// The offset of the last byte that the client has written.
            #[doc(alias = "newoffset4")]
            pub last_offset: Option<u64>,
            /// The time of the last change.
            #[doc(alias = "newtime4")]
            pub modified: Option<Time>,
            /// The change.
            pub update: LayoutUpdate<'a>,
        }
    }

    /// The new size in bytes, if it has changed.
    #[doc(alias("LAYOUTCOMMIT4res", "LAYOUTCOMMIT4resok", "newsize4"))]
    pub type Reply = ReplyOf<Option<u64>>;
}

/// LAYOUTRETURN, operation 51: returns layouts (RFC 8881 18.44).
pub mod layoutreturn {
    use super::{IoMode, LayoutBody, LayoutType, ReplyOf, Stateid, xdr_struct};

    xdr_struct! {
        /// The layouts.
        #[doc(alias = "LAYOUTRETURN4args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// True if the client held the layouts before a restart of the server.
            pub reclaim: bool,
            /// The layout type.
            pub kind: LayoutType,
            /// The access.
            pub mode: IoMode,
            /// The layouts.
            pub returned: Returned<'a>,
        }

        /// Layouts of a range of the current file.
        #[doc(alias = "layoutreturn_file4")]
        #[derive(Copy)]
        pub struct Range<'a> {
            /// The offset, in bytes.
            pub offset: u64,
            /// The length, in bytes.
            pub length: u64,
            /// The layout state.
            pub stateid: Stateid,
            /// Errors and statistics of devices.
            pub body: LayoutBody<'a>,
        }
    }

    unions! {
        /// Layouts.
        #[doc(alias("layoutreturn4", "layoutreturn_type4"))]
        #[derive(Copy)]
        Returned<'a> {
            /// The layouts of a range of the current file.
            #[doc(alias = "LAYOUTRETURN4_FILE")]
            File(Range<'a>) = 1,
            /// All layouts in the file system of the current file.
            #[doc(alias = "LAYOUTRETURN4_FSID")]
            FileSystem = 2,
            /// All layouts of the client.
            #[doc(alias = "LAYOUTRETURN4_ALL")]
            All = 3,
        }
    }

    /// The layout state, if the client still holds layouts of the file.
    #[doc(alias("LAYOUTRETURN4res", "layoutreturn_stateid"))]
    pub type Reply = ReplyOf<Option<Stateid>>;
}

/// GETDEVICEINFO, operation 47: returns the address of a device (RFC 8881 18.40).
pub mod getdeviceinfo {
    use super::{
        Bitmap, Detail, DetailedReply, DeviceAddress, DeviceId, LayoutType, Status, xdr_struct,
    };

    xdr_struct! {
        /// The device.
        #[doc(alias = "GETDEVICEINFO4args")]
        #[derive(Copy)]
        pub struct Args {
            /// The device.
            pub device: DeviceId,
            /// The layout type.
            pub kind: LayoutType,
            /// The maximum encoded size of the address, in bytes.
            pub count: u32,
            /// The wished kinds of notifications.
            pub notifications: Bitmap,
        }

        /// The device.
        #[doc(alias = "GETDEVICEINFO4resok")]
        #[derive(Copy)]
        pub struct Done<'a> {
            /// The address.
            pub address: DeviceAddress<'a>,
            /// The kinds of notifications that the server sends.
            pub notifications: Bitmap,
        }

        /// The address is larger than the client permits.
        #[derive(Copy)]
        pub struct TooSmall {
            /// The encoded size of the address, in bytes.
            pub count_min: u32,
        }
    }

    impl Detail for TooSmall {
        const STATUS: Status = Status::TooSmall;
    }

    /// The results.
    #[doc(alias = "GETDEVICEINFO4res")]
    pub type Reply<'a> = DetailedReply<Done<'a>, TooSmall>;
}

/// GETDEVICELIST, operation 48: returns all devices of the current file system (RFC 8881 18.41).
pub mod getdevicelist {
    use super::{
        Array, Cookie, CookieVerifier, DeviceId, LAYOUTS_LISTED_MAX, LayoutType, ReplyOf,
        xdr_struct,
    };

    xdr_struct! {
        /// The position of the listing.
        #[doc(alias = "GETDEVICELIST4args")]
        #[derive(Copy)]
        pub struct Args {
            /// The layout type.
            pub kind: LayoutType,
            /// The maximum number of devices.
            pub count: u32,
            /// The cookie of the last reply; zero begins at the start.
            pub cookie: Cookie,
            /// The verifier of the last reply; zero at the start.
            pub verifier: CookieVerifier,
        }

        /// Some devices.
        #[doc(alias = "GETDEVICELIST4resok")]
        pub struct Done {
            /// The cookie with which the client continues the listing.
            pub cookie: Cookie,
            /// The verifier of the cookie.
            pub verifier: CookieVerifier,
            /// The devices.
            pub devices: Array<DeviceId, LAYOUTS_LISTED_MAX>,
            /// True if the listing is complete.
            pub end: bool,
        }
    }

    /// The results.
    #[doc(alias = "GETDEVICELIST4res")]
    pub type Reply = ReplyOf<Done>;
}

/// LAYOUTERROR, operation 64: reports errors of devices (RFC 7862 15.6).
pub mod layouterror {
    use super::{Array, Completion, DeviceError, LAYOUTS_LISTED_MAX, Stateid, xdr_struct};

    xdr_struct! {
        /// The errors in a range of the current file.
        #[doc(alias = "LAYOUTERROR4args")]
        pub struct Args {
            /// The offset, in bytes.
            pub offset: u64,
            /// The length, in bytes.
            pub length: u64,
            /// The layout state.
            pub stateid: Stateid,
            /// The errors.
            pub errors: Array<DeviceError, LAYOUTS_LISTED_MAX>,
        }
    }

    /// The status.
    #[doc(alias = "LAYOUTERROR4res")]
    pub type Reply = Completion;
}

/// LAYOUTSTATS, operation 65: reports statistics of a device (RFC 7862 15.7).
pub mod layoutstats {
    use super::{Completion, DeviceId, IoStatistics, LayoutUpdate, Stateid, xdr_struct};

    xdr_struct! {
        /// The statistics of a range of the current file.
        #[doc(alias = "LAYOUTSTATS4args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// The offset, in bytes.
            pub offset: u64,
            /// The length, in bytes.
            pub length: u64,
            /// The layout state.
            pub stateid: Stateid,
            /// The statistics of reads.
            pub reads: IoStatistics,
            /// The statistics of writes.
            pub writes: IoStatistics,
            /// The device.
            pub device: DeviceId,
            /// More statistics.
            pub update: LayoutUpdate<'a>,
        }
    }

    /// The status.
    #[doc(alias = "LAYOUTSTATS4res")]
    pub type Reply = Completion;
}
