//! SYMLINK, procedure 13: makes a symbolic link (RFC 1094 2.2.14).

use leasehold_base::xdr_struct;

use super::{DirectoryArgs, Path, SetAttributes};

/// The procedure's number.
pub const NUMBER: u32 = 13;

xdr_struct! {
    /// The link, and its target.
    #[doc(alias = "symlinkargs")]
    #[derive(Copy)]
    pub struct Args<'a> {
        /// The directory and the name of the link.
        pub place: DirectoryArgs<'a>,
        /// The target of the link.
        pub target: Path<'a>,
        /// The attributes of the link.
        pub attributes: SetAttributes,
    }
}

/// The status alone.
pub type Reply = super::Reply<Done>;

/// The reply contains only the status.
pub type Done = ();
