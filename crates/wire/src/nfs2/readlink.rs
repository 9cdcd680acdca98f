//! READLINK, procedure 5: returns the target of a symbolic link (RFC 1094 2.2.6).

use super::{Handle, Path};

/// The procedure's number.
pub const NUMBER: u32 = 5;

/// The link.
pub type Args = Handle;

/// The target of the link.
#[doc(alias = "readlinkres")]
pub type Reply<'a> = super::Reply<Done<'a>>;

/// The target of the link.
pub type Done<'a> = Path<'a>;
