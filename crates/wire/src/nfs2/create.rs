//! CREATE, procedure 9: makes a file (RFC 1094 2.2.10).

use leasehold_base::xdr_struct;

use super::{DirectoryArgs, Found, SetAttributes};

/// The procedure's number.
pub const NUMBER: u32 = 9;

xdr_struct! {
    /// What is to be made, by CREATE and by MKDIR.
    #[doc(alias = "createargs")]
    #[derive(Copy)]
    pub struct Args<'a> {
        /// Where it is to be.
        pub place: DirectoryArgs<'a>,
        /// The attributes that it is to have.
        pub attributes: SetAttributes,
    }
}

/// The file.
#[doc(alias = "diropres")]
pub type Reply = super::Reply<Done>;

/// The file.
pub type Done = Found;
