//! FSSTAT, procedure 18: returns the size and free space of a file system (RFC 1813 3.3.18).

use leasehold_base::xdr_struct;

use super::{Attributes, Handle};

/// The procedure's number.
pub const NUMBER: u32 = 18;

xdr_struct! {
    /// The file system.
    #[doc(alias = "FSSTAT3args")]
    #[derive(Copy)]
    pub struct Args {
        /// An object of the file system.
        pub root: Handle,
    }
}

/// The size and free space; in case of an error only the object's attributes.
#[doc(alias = "FSSTAT3res")]
pub type Reply = super::Reply<Done, Option<Attributes>>;

xdr_struct! {
    /// The size and free space.
    #[doc(alias = "FSSTAT3resok")]
    #[derive(Copy)]
    pub struct Done {
        /// The object's attributes.
        pub attributes: Option<Attributes>,
        /// The size of the file system in bytes.
        pub bytes: u64,
        /// The number of free bytes.
        pub free_bytes: u64,
        /// The number of free bytes that the caller may use.
        pub available_bytes: u64,
        /// The maximum number of files.
        pub files: u64,
        /// The number of files that can still be made.
        pub free_files: u64,
        /// The number of files that the caller can still make.
        pub available_files: u64,
        /// The seconds for which the values are expected to stay the same; zero if unknown.
        #[doc(alias = "invarsec")]
        pub steady_seconds: u32,
    }
}
