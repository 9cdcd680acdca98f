//! RMDIR, procedure 15: removes an empty directory (RFC 1094 2.2.16).

use super::DirectoryArgs;

/// The procedure's number.
pub const NUMBER: u32 = 15;

/// Which name in which directory.
pub type Args<'a> = DirectoryArgs<'a>;

/// Whether it was done.
pub type Reply = super::Reply<Done>;

/// Nothing but that it was done.
pub type Done = ();
