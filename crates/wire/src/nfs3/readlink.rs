//! READLINK, procedure 5: returns the target of a symbolic link (RFC 1813 3.3.5).

use leasehold_base::xdr_struct;

use super::{Attributes, Handle, Path};

/// The procedure's number.
pub const NUMBER: u32 = 5;

xdr_struct! {
    /// The link.
    #[doc(alias = "READLINK3args")]
    #[derive(Copy)]
    pub struct Args {
        /// The symbolic link.
        pub symlink: Handle,
    }
}

/// The link's target; in case of an error only the link's attributes.
#[doc(alias = "READLINK3res")]
pub type Reply<'a> = super::Reply<Done<'a>, Option<Attributes>>;

xdr_struct! {
    /// The target of the link.
    #[doc(alias = "READLINK3resok")]
    #[derive(Copy)]
    pub struct Done<'a> {
        /// The link's attributes.
        pub attributes: Option<Attributes>,
        /// The target, which the client resolves.
        pub target: Path<'a>,
    }
}
