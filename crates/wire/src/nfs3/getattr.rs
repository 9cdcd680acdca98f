//! GETATTR, procedure 1: returns the attributes of an object (RFC 1813 3.3.1).

use leasehold_base::xdr_struct;

use super::{Attributes, Handle};

/// The procedure's number.
pub const NUMBER: u32 = 1;

xdr_struct! {
    /// The object.
    #[doc(alias = "GETATTR3args")]
    #[derive(Copy)]
    pub struct Args {
        /// The object.
        pub object: Handle,
    }
}

/// The attributes; in case of an error only the status.
#[doc(alias = "GETATTR3res")]
pub type Reply = super::Reply<Done, ()>;

xdr_struct! {
    /// The attributes.
    #[doc(alias = "GETATTR3resok")]
    #[derive(Copy)]
    pub struct Done {
        /// The object's attributes.
        pub attributes: Attributes,
    }
}
