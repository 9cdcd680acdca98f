//! LOOKUP, procedure 3: returns the object with a name (RFC 1813 3.3.3).

use leasehold_base::xdr_struct;

use super::{Attributes, DirectoryArgs, Handle};

/// The procedure's number.
pub const NUMBER: u32 = 3;

/// The name and its directory.
#[doc(alias = "LOOKUP3args")]
pub type Args<'a> = DirectoryArgs<'a>;

/// The object; in case of an error only the directory's attributes.
#[doc(alias = "LOOKUP3res")]
pub type Reply = super::Reply<Done, Option<Attributes>>;

xdr_struct! {
    /// The object with the name.
    #[doc(alias = "LOOKUP3resok")]
    #[derive(Copy)]
    pub struct Done {
        /// The object.
        pub object: Handle,
        /// The attributes of the object.
        pub attributes: Option<Attributes>,
        /// The attributes of the directory.
        pub directory: Option<Attributes>,
    }
}
