//! LEASE, procedure 24: requests, renews, returns and vacates leases.

use leasehold_base::{xdr_enum, xdr_struct};

use super::{Answer, Caller, Grant, Open, Terms};
use crate::list::{List, UpTo};
use crate::nfs3::{Attributes, Handle};

/// The procedure's number.
pub const NUMBER: u32 = 24;

/// The maximum number of leases that one call requests, and the maximum number of leases that it
/// returns. A server processes the call in one step and serves no other client meanwhile; with this
/// limit the step takes less than a millisecond.
pub const AT_ONCE_MAX: usize = 256;

xdr_enum! {
    /// The progress of a client's recovery after a restart of the server.
    #[doc(alias = "lease_progress")]
    pub enum Progress {
        /// The client may still reclaim leases.
        Reclaiming = 0,
        /// The client has reclaimed all its leases.
        Reclaimed = 1,
        /// The client has also written back all changes that it made under leases it no longer
        /// holds.
        Recovered = 2,
    }
}

xdr_struct! {
    /// A requested lease.
    #[doc(alias = "lease_wanted")]
    #[derive(Copy)]
    pub struct Wanted {
        /// The object.
        pub object: Handle,
        /// The requested terms.
        pub terms: Terms,
        /// True if the lease is from before a restart of the server and is still valid by the
        /// client's clock.
        pub reclaim: bool,
    }

    /// A lease that the client returns or vacates.
    #[doc(alias = "lease_returned")]
    #[derive(Copy)]
    pub struct Returned {
        /// The object.
        pub object: Handle,
        /// The sequence number of the lease.
        pub serial: u64,
        /// The client's remaining opens of the object.
        pub open: Open,
    }

    /// Requested and returned leases.
    #[doc(alias = "lease_args")]
    pub struct Args {
        /// The caller.
        pub caller: Caller,
        /// The leases to grant or renew.
        pub wanted: UpTo<Wanted, AT_ONCE_MAX>,
        /// The returned leases.
        pub returned: UpTo<Returned, AT_ONCE_MAX>,
        /// The progress of the client's recovery after a restart of the server.
        pub progress: Progress,
    }

    /// A granted lease.
    #[doc(alias = "lease_held")]
    #[derive(Copy)]
    pub struct Held {
        /// The index of the lease among the requested leases, from zero.
        pub place: u32,
        /// The lease.
        pub grant: Grant,
        /// The object's attributes.
        pub attributes: Option<Attributes>,
    }

    /// The granted leases.
    #[doc(alias = "lease_ok")]
    pub struct AllHeld {
        /// The subset of the requested leases that the server granted.
        pub held: List<Held>,
    }
}

/// The results.
pub type Reply = Answer<AllHeld>;
