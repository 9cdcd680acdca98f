//! GOODBYE, procedure 25: a client gives back all that it has and is not waited for.

use super::{Answer, Caller};

/// The procedure's number.
pub const NUMBER: u32 = 25;

/// Who calls.
pub type Args = Caller;

/// The results, of which there are none.
pub type Reply = Answer<()>;
