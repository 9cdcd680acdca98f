//! LINK, procedure 12: adds a name to an object (RFC 1094 2.2.13).

use leasehold_base::xdr_struct;

use super::{DirectoryArgs, Handle};

/// The procedure's number.
pub const NUMBER: u32 = 12;

xdr_struct! {
    /// The object, and its additional name.
    #[doc(alias = "linkargs")]
    #[derive(Copy)]
    pub struct Args<'a> {
        /// The object.
        pub file: Handle,
        /// The additional name.
        pub link: DirectoryArgs<'a>,
    }
}

/// The status alone.
pub type Reply = super::Reply<Done>;

/// The reply contains only the status.
pub type Done = ();
