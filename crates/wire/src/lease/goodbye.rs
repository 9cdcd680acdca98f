//! GOODBYE, procedure 25: the client returns all leases, and the server no longer waits for the
//! client.

use super::{Answer, Caller};

/// The procedure's number.
pub const NUMBER: u32 = 25;

/// The caller.
pub type Args = Caller;

/// The reply, which has no results.
pub type Reply = Answer<()>;
