//! SETATTR, procedure 2: changes attributes of an object (RFC 1813 3.3.2).

use leasehold_base::xdr_struct;

use super::{Handle, SetAttributes, Time, Wcc};

/// The procedure's number.
pub const NUMBER: u32 = 2;

xdr_struct! {
    /// What is to be changed of which object.
    #[doc(alias = "SETATTR3args")]
    #[derive(Copy)]
    pub struct Args {
        /// The object.
        pub object: Handle,
        /// What is to be changed.
        pub attributes: SetAttributes,
        /// The change time that the object must still have, if one is given.
        #[doc(alias = "sattrguard3")]
        pub guard: Option<Time>,
    }
}

/// The object before and after, in success and in failure.
#[doc(alias = "SETATTR3res")]
pub type Reply = super::Reply<Done, Wcc>;

/// The object before and after.
#[doc(alias = "SETATTR3resok")]
pub type Done = Wcc;
