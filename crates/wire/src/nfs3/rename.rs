//! RENAME, procedure 14: gives an object another name (RFC 1813 3.3.14).

use leasehold_base::xdr_struct;

use super::{DirectoryArgs, Wcc};

/// The procedure's number.
pub const NUMBER: u32 = 14;

xdr_struct! {
    /// Which object, and its new name.
    #[doc(alias = "RENAME3args")]
    #[derive(Copy)]
    pub struct Args<'a> {
        /// The name that it has.
        pub from: DirectoryArgs<'a>,
        /// The name that it is to have.
        pub to: DirectoryArgs<'a>,
    }
}

/// Both directories before and after, in success and in failure.
#[doc(alias = "RENAME3res")]
pub type Reply = super::Reply<Done, Done>;

xdr_struct! {
    /// Both directories before and after.
    #[doc(alias("RENAME3resok", "RENAME3resfail"))]
    #[derive(Copy, Default)]
    pub struct Done {
        /// The directory of the old name.
        pub from: Wcc,
        /// The directory of the new name.
        pub to: Wcc,
    }
}
