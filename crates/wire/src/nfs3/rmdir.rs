//! RMDIR, procedure 13: removes an empty directory (RFC 1813 3.3.13).

use super::{DirectoryArgs, Wcc};

/// The procedure's number.
pub const NUMBER: u32 = 13;

/// The name and its directory.
#[doc(alias = "RMDIR3args")]
pub type Args<'a> = DirectoryArgs<'a>;

/// The parent directory before and after, in success and in failure.
#[doc(alias = "RMDIR3res")]
pub type Reply = super::Reply<Done, Wcc>;

/// The parent directory before and after.
#[doc(alias = "RMDIR3resok")]
pub type Done = Wcc;
