//! RENAME, procedure 14: changes the name of an object (RFC 1813 3.3.14).

use leasehold_base::xdr_struct;

use super::{DirectoryArgs, Wcc};

/// The procedure's number.
pub const NUMBER: u32 = 14;

xdr_struct! {
    /// The object, and its new name.
    #[doc(alias = "RENAME3args")]
    #[derive(Copy)]
    pub struct Args<'a> {
        /// The old name.
        pub from: DirectoryArgs<'a>,
        /// The new name.
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
        /// The attributes of the directory of the old name, before and after.
        pub from: Wcc,
        /// The attributes of the directory of the new name, before and after.
        pub to: Wcc,
    }
}
