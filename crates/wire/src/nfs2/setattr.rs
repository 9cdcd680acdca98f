//! SETATTR, procedure 2: changes attributes of an object (RFC 1094 2.2.3).

use leasehold_base::xdr_struct;

use super::{Attributes, Handle, SetAttributes};

/// The procedure's number.
pub const NUMBER: u32 = 2;

xdr_struct! {
    /// The object, and the new attributes.
    #[doc(alias = "sattrargs")]
    #[derive(Copy)]
    pub struct Args {
        /// The object.
        pub object: Handle,
        /// The new attributes.
        pub attributes: SetAttributes,
    }
}

/// The attributes after the change.
#[doc(alias = "attrstat")]
pub type Reply = super::Reply<Done>;

/// The attributes after the change.
pub type Done = Attributes;
