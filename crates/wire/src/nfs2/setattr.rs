//! SETATTR, procedure 2: changes attributes of an object (RFC 1094 2.2.3).

use leasehold_base::xdr_struct;

use super::{Attributes, Handle, SetAttributes};

/// The procedure's number.
pub const NUMBER: u32 = 2;

xdr_struct! {
    /// What is to be changed of which object.
    #[doc(alias = "sattrargs")]
    #[derive(Copy)]
    pub struct Args {
        /// The object.
        pub object: Handle,
        /// What is to be changed.
        pub attributes: SetAttributes,
    }
}

/// The attributes afterwards.
#[doc(alias = "attrstat")]
pub type Reply = super::Reply<Done>;

/// The attributes afterwards.
pub type Done = Attributes;
