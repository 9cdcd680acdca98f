//! FSSTAT, procedure 18: room on a file system (RFC 1813 3.3.18).

use leasehold_base::xdr_struct;

use super::{Attributes, Handle};

/// The procedure's number.
pub const NUMBER: u32 = 18;

xdr_struct! {
    /// Which file system.
    #[doc(alias = "FSSTAT3args")]
    #[derive(Copy)]
    pub struct Args {
        /// An object of the file system.
        pub root: Handle,
    }
}

/// The room, or the object's attributes alone.
#[doc(alias = "FSSTAT3res")]
pub type Reply = super::Reply<Done, Option<Attributes>>;

xdr_struct! {
    /// The room.
    #[doc(alias = "FSSTAT3resok")]
    #[derive(Copy)]
    pub struct Done {
        /// The object's attributes.
        pub attributes: Option<Attributes>,
        /// Size in bytes.
        pub bytes: u64,
        /// Free bytes.
        pub free_bytes: u64,
        /// Free bytes that the caller may use.
        pub available_bytes: u64,
        /// Number of files that there can be.
        pub files: u64,
        /// Files that can still be made.
        pub free_files: u64,
        /// Files that the caller can still make.
        pub available_files: u64,
        /// Seconds for which this is not expected to change; zero says nothing.
        #[doc(alias = "invarsec")]
        pub steady_seconds: u32,
    }
}
