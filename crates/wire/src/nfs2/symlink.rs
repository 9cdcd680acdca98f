//! SYMLINK, procedure 13: makes a symbolic link (RFC 1094 2.2.14).

use leasehold_base::xdr_struct;

use super::{DirectoryArgs, Path, SetAttributes};

/// The procedure's number.
pub const NUMBER: u32 = 13;

xdr_struct! {
    /// Which link, and what it says.
    #[doc(alias = "symlinkargs")]
    #[derive(Copy)]
    pub struct Args<'a> {
        /// Where the link is to be.
        pub place: DirectoryArgs<'a>,
        /// Where it is to lead.
        pub target: Path<'a>,
        /// The attributes that it is to have.
        pub attributes: SetAttributes,
    }
}

/// Whether it was done.
pub type Reply = super::Reply<Done>;

/// Nothing but that it was done.
pub type Done = ();
