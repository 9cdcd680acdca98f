//! FSINFO, procedure 19: what a server does on a file system (RFC 1813 3.3.19).

use leasehold_base::xdr_struct;

use super::{Attributes, Handle, Time};

/// The procedure's number.
pub const NUMBER: u32 = 19;

xdr_struct! {
    /// Which file system.
    #[doc(alias = "FSINFO3args")]
    #[derive(Copy)]
    pub struct Args {
        /// An object of the file system.
        pub root: Handle,
    }
}

flags! {
    /// What a file system can do. Bits without a name here are dropped in reading.
    Properties {
        /// There are hard links.
        #[doc(alias = "FSF3_LINK")]
        links = 0x01,
        /// There are symbolic links.
        #[doc(alias = "FSF3_SYMLINK")]
        symlinks = 0x02,
        /// PATHCONF answers the same for every object.
        #[doc(alias = "FSF3_HOMOGENEOUS")]
        homogeneous = 0x08,
        /// Times can be set by SETATTR.
        #[doc(alias = "FSF3_CANSETTIME")]
        can_set_time = 0x10,
    }
}

/// What the server does, or the object's attributes alone.
#[doc(alias = "FSINFO3res")]
pub type Reply = super::Reply<Done, Option<Attributes>>;

xdr_struct! {
    /// What the server does.
    #[doc(alias = "FSINFO3resok")]
    #[derive(Copy)]
    pub struct Done {
        /// The object's attributes.
        pub attributes: Option<Attributes>,
        /// The largest READ, in bytes.
        #[doc(alias = "rtmax")]
        pub read_bytes_max: u32,
        /// The best size of a READ.
        #[doc(alias = "rtpref")]
        pub read_bytes_best: u32,
        /// The number that sizes of READ should be multiples of.
        #[doc(alias = "rtmult")]
        pub read_bytes_multiple: u32,
        /// The largest WRITE, in bytes.
        #[doc(alias = "wtmax")]
        pub write_bytes_max: u32,
        /// The best size of a WRITE.
        #[doc(alias = "wtpref")]
        pub write_bytes_best: u32,
        /// The number that sizes of WRITE should be multiples of.
        #[doc(alias = "wtmult")]
        pub write_bytes_multiple: u32,
        /// The best `count` of a READDIR.
        #[doc(alias = "dtpref")]
        pub directory_bytes_best: u32,
        /// The largest size of a file, in bytes.
        #[doc(alias = "maxfilesize")]
        pub file_bytes_max: u64,
        /// The steps in which times are kept.
        #[doc(alias = "time_delta")]
        pub time_step: Time,
        /// What the file system can do.
        pub properties: Properties,
    }
}
