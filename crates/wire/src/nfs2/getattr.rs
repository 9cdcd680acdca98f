//! GETATTR, procedure 1: returns the attributes of an object (RFC 1094 2.2.2).

use super::{Attributes, Handle};

/// The procedure's number.
pub const NUMBER: u32 = 1;

/// The object.
pub type Args = Handle;

/// The attributes.
#[doc(alias = "attrstat")]
pub type Reply = super::Reply<Done>;

/// The attributes.
pub type Done = Attributes;
