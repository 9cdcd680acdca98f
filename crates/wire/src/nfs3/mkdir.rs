//! MKDIR, procedure 9: makes a directory (RFC 1813 3.3.9).

use leasehold_base::xdr_struct;

use super::{DirectoryArgs, Made, SetAttributes, Wcc};

/// The procedure's number.
pub const NUMBER: u32 = 9;

xdr_struct! {
    /// The directory to make.
    #[doc(alias = "MKDIR3args")]
    #[derive(Copy)]
    pub struct Args<'a> {
        /// The parent and the name of the new directory.
        pub place: DirectoryArgs<'a>,
        /// The attributes of the new directory.
        pub attributes: SetAttributes,
    }
}

/// The new directory; in case of an error only the parent before and after.
#[doc(alias = "MKDIR3res")]
pub type Reply = super::Reply<Done, Wcc>;

/// The new directory.
pub type Done = Made;
