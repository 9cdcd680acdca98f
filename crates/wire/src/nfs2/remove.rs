//! REMOVE, procedure 10: removes a name of anything but a directory (RFC 1094 2.2.11).

use super::DirectoryArgs;

/// The procedure's number.
pub const NUMBER: u32 = 10;

/// Which name in which directory.
pub type Args<'a> = DirectoryArgs<'a>;

/// Whether it was done.
pub type Reply = super::Reply<Done>;

/// Nothing but that it was done.
pub type Done = ();
