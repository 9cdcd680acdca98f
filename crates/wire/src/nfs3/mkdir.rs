//! MKDIR, procedure 9: makes a directory (RFC 1813 3.3.9).

use leasehold_base::xdr_struct;

use super::{DirectoryArgs, Made, SetAttributes, Wcc};

/// The procedure's number.
pub const NUMBER: u32 = 9;

xdr_struct! {
    /// Which directory.
    #[doc(alias = "MKDIR3args")]
    #[derive(Copy)]
    pub struct Args<'a> {
        /// Where the directory is to be.
        pub place: DirectoryArgs<'a>,
        /// The attributes that it is to have.
        pub attributes: SetAttributes,
    }
}

/// The new directory, or the one above before and after alone.
#[doc(alias = "MKDIR3res")]
pub type Reply = super::Reply<Done, Wcc>;

/// The new directory.
pub type Done = Made;
