//! Operations on state ids.

use super::{Completion, Stateid};
use crate::list::Array;

/// FREE_STATEID, operation 45: frees a state id without locks (RFC 8881 18.38).
pub mod free_stateid {
    /// The state id.
    #[doc(alias = "FREE_STATEID4args")]
    pub type Args = super::Stateid;

    /// The status.
    #[doc(alias = "FREE_STATEID4res")]
    pub type Reply = super::Completion;
}

/// TEST_STATEID, operation 55: tests whether state ids are valid (RFC 8881 18.48).
pub mod test_stateid {
    use leasehold_base::limits::STATEIDS_TESTED_MAX;

    use super::{Array, Completion, Stateid};

    /// The state ids.
    #[doc(alias = "TEST_STATEID4args")]
    pub type Args = Array<Stateid, STATEIDS_TESTED_MAX>;

    /// The status of each state id.
    #[doc(alias("TEST_STATEID4res", "TEST_STATEID4resok"))]
    pub type Reply = super::super::Reply<Array<Completion, STATEIDS_TESTED_MAX>>;
}
