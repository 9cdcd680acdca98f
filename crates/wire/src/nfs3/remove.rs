//! REMOVE, procedure 12: removes a name of an object that is not a directory (RFC 1813 3.3.12).

use super::{DirectoryArgs, Wcc};

/// The procedure's number.
pub const NUMBER: u32 = 12;

/// The name and its directory.
#[doc(alias = "REMOVE3args")]
pub type Args<'a> = DirectoryArgs<'a>;

/// The directory before and after, in success and in failure.
#[doc(alias = "REMOVE3res")]
pub type Reply = super::Reply<Done, Wcc>;

/// The directory before and after.
#[doc(alias = "REMOVE3resok")]
pub type Done = Wcc;
