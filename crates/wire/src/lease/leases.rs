//! LEASE, procedure 24: some leases are asked for or renewed, some given back or vacated.

use leasehold_base::{xdr_enum, xdr_struct};

use super::{Answer, Caller, Grant, Open, Terms};
use crate::list::{List, UpTo};
use crate::nfs3::{Attributes, Handle};

/// The procedure's number.
pub const NUMBER: u32 = 24;

/// How many leases one call asks for at most, and how many leases the call gives back. A server
/// does all these leases at one time, and answers no other client meanwhile: less than a
/// millisecond.
pub const AT_ONCE_MAX: usize = 256;

xdr_enum! {
    /// How far a client is since the server was started anew.
    #[doc(alias = "lease_progress")]
    pub enum Progress {
        /// It may still reclaim leases.
        Reclaiming = 0,
        /// It has reclaimed all that it holds.
        Reclaimed = 1,
        /// It has also brought back what it changed under leases that it does not hold any more.
        Recovered = 2,
    }
}

xdr_struct! {
    /// A lease that is wanted.
    #[doc(alias = "lease_wanted")]
    #[derive(Copy)]
    pub struct Wanted {
        /// The object.
        pub object: Handle,
        /// What is asked for.
        pub terms: Terms,
        /// Whether it is held by the client's own clock, from before a restart of the server.
        pub reclaim: bool,
    }

    /// A lease that is given back or vacated.
    #[doc(alias = "lease_returned")]
    #[derive(Copy)]
    pub struct Returned {
        /// The object.
        pub object: Handle,
        /// The lease's number.
        pub serial: u64,
        /// How the object is still open.
        pub open: Open,
    }

    /// Leases that are wanted and leases that are not.
    #[doc(alias = "lease_args")]
    pub struct Args {
        /// Who calls.
        pub caller: Caller,
        /// Leases that are asked for or renewed.
        pub wanted: UpTo<Wanted, AT_ONCE_MAX>,
        /// Leases that are given back.
        pub returned: UpTo<Returned, AT_ONCE_MAX>,
        /// How far the client is since the server was started anew.
        pub progress: Progress,
    }

    /// A lease that was granted.
    #[doc(alias = "lease_held")]
    #[derive(Copy)]
    pub struct Held {
        /// Which of those that were wanted, counted from zero.
        pub place: u32,
        /// The lease.
        pub grant: Grant,
        /// The object's attributes.
        pub attributes: Option<Attributes>,
    }

    /// The leases that were granted.
    #[doc(alias = "lease_ok")]
    pub struct AllHeld {
        /// Those of which it could be done.
        pub held: List<Held>,
    }
}

/// The results.
pub type Reply = Answer<AllHeld>;
