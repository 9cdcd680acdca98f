//! MKDIR, procedure 14: makes a directory (RFC 1094 2.2.15).

use super::{Found, create};

/// The procedure's number.
pub const NUMBER: u32 = 14;

/// The directory to make, with the arguments of CREATE.
#[doc(alias = "createargs")]
pub type Args<'a> = create::Args<'a>;

/// The directory.
#[doc(alias = "diropres")]
pub type Reply = super::Reply<Done>;

/// The directory.
pub type Done = Found;
