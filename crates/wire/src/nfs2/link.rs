//! LINK, procedure 12: gives an object one more name (RFC 1094 2.2.13).

use leasehold_base::xdr_struct;

use super::{DirectoryArgs, Handle};

/// The procedure's number.
pub const NUMBER: u32 = 12;

xdr_struct! {
    /// Which object, and its further name.
    #[doc(alias = "linkargs")]
    #[derive(Copy)]
    pub struct Args<'a> {
        /// The object.
        pub file: Handle,
        /// The name that it is to have as well.
        pub link: DirectoryArgs<'a>,
    }
}

/// Whether it was done.
pub type Reply = super::Reply<Done>;

/// Nothing but that it was done.
pub type Done = ();
