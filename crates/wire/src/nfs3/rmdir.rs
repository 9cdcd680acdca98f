//! RMDIR, procedure 13: removes an empty directory (RFC 1813 3.3.13).

use super::{DirectoryArgs, Wcc};

/// The procedure's number.
pub const NUMBER: u32 = 13;

/// Which name in which directory.
#[doc(alias = "RMDIR3args")]
pub type Args<'a> = DirectoryArgs<'a>;

/// The directory above before and after, in success and in failure.
#[doc(alias = "RMDIR3res")]
pub type Reply = super::Reply<Done, Wcc>;

/// The directory above before and after.
#[doc(alias = "RMDIR3resok")]
pub type Done = Wcc;
