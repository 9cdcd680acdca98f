//! FSINFO, procedure 19: returns the limits and properties of a file system (RFC 1813 3.3.19).

use leasehold_base::xdr_struct;

use super::{Attributes, Handle, Time};

/// The procedure's number.
pub const NUMBER: u32 = 19;

xdr_struct! {
    /// The file system.
    #[doc(alias = "FSINFO3args")]
    #[derive(Copy)]
    pub struct Args {
        /// An object of the file system.
        pub root: Handle,
    }
}

flags! {
    /// The properties of a file system. The decoder drops bits without a name here.
    Properties {
        /// The file system supports hard links.
        #[doc(alias = "FSF3_LINK")]
        links = 0x01,
        /// The file system supports symbolic links.
        #[doc(alias = "FSF3_SYMLINK")]
        symlinks = 0x02,
        /// PATHCONF returns the same values for every object.
        #[doc(alias = "FSF3_HOMOGENEOUS")]
        homogeneous = 0x08,
        /// SETATTR can set times.
        #[doc(alias = "FSF3_CANSETTIME")]
        can_set_time = 0x10,
    }
}

/// The limits and properties; in case of an error only the object's attributes.
#[doc(alias = "FSINFO3res")]
pub type Reply = super::Reply<Done, Option<Attributes>>;

xdr_struct! {
    /// The limits and properties.
    #[doc(alias = "FSINFO3resok")]
    #[derive(Copy)]
    pub struct Done {
        /// The object's attributes.
        pub attributes: Option<Attributes>,
        /// The maximum size of a READ, in bytes.
        #[doc(alias = "rtmax")]
        pub read_bytes_max: u32,
        /// The best size of a READ.
        #[doc(alias = "rtpref")]
        pub read_bytes_best: u32,
        /// The preferred multiple for sizes of READ.
        #[doc(alias = "rtmult")]
        pub read_bytes_multiple: u32,
        /// The maximum size of a WRITE, in bytes.
        #[doc(alias = "wtmax")]
        pub write_bytes_max: u32,
        /// The best size of a WRITE.
        #[doc(alias = "wtpref")]
        pub write_bytes_best: u32,
        /// The preferred multiple for sizes of WRITE.
        #[doc(alias = "wtmult")]
        pub write_bytes_multiple: u32,
        /// The best `count` of a READDIR.
        #[doc(alias = "dtpref")]
        pub directory_bytes_best: u32,
        /// The maximum size of a file, in bytes.
        #[doc(alias = "maxfilesize")]
        pub file_bytes_max: u64,
        /// The resolution of times.
        #[doc(alias = "time_delta")]
        pub time_step: Time,
        /// The properties of the file system.
        pub properties: Properties,
    }
}
