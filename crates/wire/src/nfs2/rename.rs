//! RENAME, procedure 11: gives an object another name (RFC 1094 2.2.12).

use leasehold_base::xdr_struct;

use super::DirectoryArgs;

/// The procedure's number.
pub const NUMBER: u32 = 11;

xdr_struct! {
    /// Which object, and its new name.
    #[doc(alias = "renameargs")]
    #[derive(Copy)]
    pub struct Args<'a> {
        /// The name that it has.
        pub from: DirectoryArgs<'a>,
        /// The name that it is to have.
        pub to: DirectoryArgs<'a>,
    }
}

/// Whether it was done.
pub type Reply = super::Reply<Done>;

/// Nothing but that it was done.
pub type Done = ();
