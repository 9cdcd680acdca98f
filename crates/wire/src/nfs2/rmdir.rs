//! RMDIR, procedure 15: removes an empty directory (RFC 1094 2.2.16).

use super::DirectoryArgs;

/// The procedure's number.
pub const NUMBER: u32 = 15;

/// The name and its directory.
pub type Args<'a> = DirectoryArgs<'a>;

/// The status alone.
pub type Reply = super::Reply<Done>;

/// The reply contains only the status.
pub type Done = ();
