//! What the server calls on its clients: a program of its own, on the client's connection.

/// The program's number.
pub const PROGRAM: u32 = super::PROGRAM + 1;

/// The program's version.
pub const VERSION: u32 = 1;

/// EVICT, procedure 1: leases are wanted back. The reply says that this was received.
pub mod evict {
    use leasehold_base::xdr_struct;

    use crate::list::List;
    use crate::nfs3::Handle;

    /// The procedure's number.
    pub const NUMBER: u32 = 1;

    xdr_struct! {
        /// A lease that a client holds.
        #[doc(alias = "evicted")]
        #[derive(Copy)]
        pub struct Lease {
            /// The object.
            pub object: Handle,
            /// The lease's number.
            pub serial: u64,
        }

        /// Which leases are wanted back.
        #[doc(alias = "evict_args")]
        pub struct Args {
            /// The epoch of the server.
            pub epoch: u64,
            /// The leases.
            pub leases: List<Lease>,
        }
    }

    /// That it was received.
    pub type Reply = ();
}

/// REPORT, procedure 2: size, times and mode are asked of the holder of a write lease, who keeps it.
pub mod report {
    use leasehold_base::xdr_struct;

    use super::evict::Lease;
    use crate::nfs3::Time;

    /// The procedure's number.
    pub const NUMBER: u32 = 2;

    xdr_struct! {
        /// Of which lease.
        #[doc(alias = "report_args")]
        #[derive(Copy)]
        pub struct Args {
            /// The epoch of the server.
            pub epoch: u64,
            /// The lease.
            pub lease: Lease,
        }

        /// What the holder has set, beside the time of modification.
        #[derive(Copy)]
        pub struct Set {
            /// Who may do what.
            pub mode: u32,
            /// Last time the data was read.
            pub accessed: Time,
        }

        /// What the holder knows better than the server.
        #[derive(Copy)]
        pub struct Now {
            /// Size in bytes.
            pub size: u64,
            /// Last time the data was changed.
            pub modified: Time,
            /// Last time data or attributes were changed.
            pub changed: Time,
            /// What it has set that the server does not have.
            pub set: Option<Set>,
        }
    }

    /// What the holder knows, or nothing when it does not hold the lease any more.
    #[doc(alias = "report_ok")]
    pub type Reply = Option<Now>;
}
