//! CREATE, procedure 9: makes a file (RFC 1094 2.2.10).

use leasehold_base::xdr_struct;

use super::{DirectoryArgs, Found, SetAttributes};

/// The procedure's number.
pub const NUMBER: u32 = 9;

xdr_struct! {
    /// The object that CREATE or MKDIR makes.
    #[doc(alias = "createargs")]
    #[derive(Copy)]
    pub struct Args<'a> {
        /// The directory and the name of the new object.
        pub place: DirectoryArgs<'a>,
        /// The attributes of the new object.
        pub attributes: SetAttributes,
    }
}

/// The file.
#[doc(alias = "diropres")]
pub type Reply = super::Reply<Done>;

/// The file.
pub type Done = Found;
