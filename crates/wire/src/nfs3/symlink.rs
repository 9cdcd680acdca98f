//! SYMLINK, procedure 10: makes a symbolic link (RFC 1813 3.3.10).

use leasehold_base::xdr_struct;

use super::{DirectoryArgs, Made, Path, SetAttributes, Wcc};

/// The procedure's number.
pub const NUMBER: u32 = 10;

xdr_struct! {
    /// The link, and its target.
    #[doc(alias = "SYMLINK3args")]
    #[derive(Copy)]
    pub struct Args<'a> {
        /// The directory and the name of the link.
        pub place: DirectoryArgs<'a>,
        /// The attributes of the link.
        pub attributes: SetAttributes,
        /// The target of the link.
        pub target: Path<'a>,
    }
}

/// The link; in case of an error only the directory before and after.
#[doc(alias = "SYMLINK3res")]
pub type Reply = super::Reply<Done, Wcc>;

/// The link.
pub type Done = Made;
