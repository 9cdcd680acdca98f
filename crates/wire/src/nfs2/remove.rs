//! REMOVE, procedure 10: removes a name of an object that is not a directory (RFC 1094 2.2.11).

use super::DirectoryArgs;

/// The procedure's number.
pub const NUMBER: u32 = 10;

/// The name and its directory.
pub type Args<'a> = DirectoryArgs<'a>;

/// The status alone.
pub type Reply = super::Reply<Done>;

/// The reply contains only the status.
pub type Done = ();
