//! LINK, procedure 15: adds a name to an object (RFC 1813 3.3.15).

use leasehold_base::xdr_struct;

use super::{Attributes, DirectoryArgs, Handle, Wcc};

/// The procedure's number.
pub const NUMBER: u32 = 15;

xdr_struct! {
    /// The object, and its additional name.
    #[doc(alias = "LINK3args")]
    #[derive(Copy)]
    pub struct Args<'a> {
        /// The object.
        pub file: Handle,
        /// The additional name.
        pub link: DirectoryArgs<'a>,
    }
}

/// The object, and the directory before and after, in success and in failure.
#[doc(alias = "LINK3res")]
pub type Reply = super::Reply<Done, Done>;

xdr_struct! {
    /// The object, and the directory before and after.
    #[doc(alias("LINK3resok", "LINK3resfail"))]
    #[derive(Copy, Default)]
    pub struct Done {
        /// The attributes of the object after the operation.
        pub attributes: Option<Attributes>,
        /// The directory of the new name.
        pub directory: Wcc,
    }
}
