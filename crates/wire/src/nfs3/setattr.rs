//! SETATTR, procedure 2: changes attributes of an object (RFC 1813 3.3.2).

use leasehold_base::xdr_struct;

use super::{Handle, SetAttributes, Time, Wcc};

/// The procedure's number.
pub const NUMBER: u32 = 2;

xdr_struct! {
    /// The object, and the new attributes.
    #[doc(alias = "SETATTR3args")]
    #[derive(Copy)]
    pub struct Args {
        /// The object.
        pub object: Handle,
        /// The new attributes.
        pub attributes: SetAttributes,
        /// If present, the call succeeds only if the object has this change time.
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
