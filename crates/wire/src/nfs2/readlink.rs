//! READLINK, procedure 5: what a symbolic link says (RFC 1094 2.2.6).

use super::{Handle, Path};

/// The procedure's number.
pub const NUMBER: u32 = 5;

/// Which link.
pub type Args = Handle;

/// What the link says.
#[doc(alias = "readlinkres")]
pub type Reply<'a> = super::Reply<Done<'a>>;

/// What the link says.
pub type Done<'a> = Path<'a>;
