//! READLINK, procedure 5: what a symbolic link says (RFC 1813 3.3.5).

use leasehold_base::xdr_struct;

use super::{Attributes, Handle, Path};

/// The procedure's number.
pub const NUMBER: u32 = 5;

xdr_struct! {
    /// Which link.
    #[doc(alias = "READLINK3args")]
    #[derive(Copy)]
    pub struct Args {
        /// The symbolic link.
        pub symlink: Handle,
    }
}

/// The link's target, or its attributes alone.
#[doc(alias = "READLINK3res")]
pub type Reply<'a> = super::Reply<Done<'a>, Option<Attributes>>;

xdr_struct! {
    /// What the link says.
    #[doc(alias = "READLINK3resok")]
    #[derive(Copy)]
    pub struct Done<'a> {
        /// The link's attributes.
        pub attributes: Option<Attributes>,
        /// Where it leads, for the client to follow.
        pub target: Path<'a>,
    }
}
