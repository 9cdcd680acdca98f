//! SYMLINK, procedure 10: makes a symbolic link (RFC 1813 3.3.10).

use leasehold_base::xdr_struct;

use super::{DirectoryArgs, Made, Path, SetAttributes, Wcc};

/// The procedure's number.
pub const NUMBER: u32 = 10;

xdr_struct! {
    /// Which link, and what it says.
    #[doc(alias = "SYMLINK3args")]
    #[derive(Copy)]
    pub struct Args<'a> {
        /// Where the link is to be.
        pub place: DirectoryArgs<'a>,
        /// The attributes that it is to have.
        pub attributes: SetAttributes,
        /// Where it is to lead.
        pub target: Path<'a>,
    }
}

/// The link, or the directory before and after alone.
#[doc(alias = "SYMLINK3res")]
pub type Reply = super::Reply<Done, Wcc>;

/// The link.
pub type Done = Made;
