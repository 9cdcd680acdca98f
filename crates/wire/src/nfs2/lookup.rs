//! LOOKUP, procedure 4: returns the object with a name (RFC 1094 2.2.5).

use super::{DirectoryArgs, Found};

/// The procedure's number.
pub const NUMBER: u32 = 4;

/// The name and its directory.
pub type Args<'a> = DirectoryArgs<'a>;

/// The object.
#[doc(alias = "diropres")]
pub type Reply = super::Reply<Done>;

/// The object.
pub type Done = Found;
