//! RENAME, procedure 11: changes the name of an object (RFC 1094 2.2.12).

use leasehold_base::xdr_struct;

use super::DirectoryArgs;

/// The procedure's number.
pub const NUMBER: u32 = 11;

xdr_struct! {
    /// The object, and its new name.
    #[doc(alias = "renameargs")]
    #[derive(Copy)]
    pub struct Args<'a> {
        /// The old name.
        pub from: DirectoryArgs<'a>,
        /// The new name.
        pub to: DirectoryArgs<'a>,
    }
}

/// The status alone.
pub type Reply = super::Reply<Done>;

/// The reply contains only the status.
pub type Done = ();
