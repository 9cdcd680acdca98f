//! The callback program, which the server calls on the client's connection.

/// The program's number.
pub const PROGRAM: u32 = super::PROGRAM + 1;

/// The program's version.
pub const VERSION: u32 = 1;

/// EVICT, procedure 1: the server recalls leases. The reply acknowledges only the receipt.
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
            /// The sequence number of the lease.
            pub serial: u64,
        }

        /// The leases to return.
        #[doc(alias = "evict_args")]
        pub struct Args {
            /// The epoch of the server.
            pub epoch: u64,
            /// The leases.
            pub leases: List<Lease>,
        }
    }

    /// Acknowledges the receipt.
    pub type Reply = ();
}

/// REPORT, procedure 2: requests size, times and mode from the holder of a write lease, which keeps
/// the lease.
pub mod report {
    use leasehold_base::xdr_struct;

    use super::evict::Lease;
    use crate::nfs3::Time;

    /// The procedure's number.
    pub const NUMBER: u32 = 2;

    xdr_struct! {
        /// The lease in question.
        #[doc(alias = "report_args")]
        #[derive(Copy)]
        pub struct Args {
            /// The epoch of the server.
            pub epoch: u64,
            /// The lease.
            pub lease: Lease,
        }

        /// Attributes that the holder has set, in addition to the time of modification.
        #[derive(Copy)]
        pub struct Set {
            /// The permission bits.
            pub mode: u32,
            /// The time of the last read of the data.
            pub accessed: Time,
        }

        /// Attributes for which the holder has newer values than the server.
        #[derive(Copy)]
        pub struct Now {
            /// The size in bytes.
            pub size: u64,
            /// The time of the last change of the data.
            pub modified: Time,
            /// The time of the last change of data or attributes.
            pub changed: Time,
            /// Attributes that the holder has set and not yet sent to the server.
            pub set: Option<Set>,
        }
    }

    /// The holder's attributes, or nothing if the client no longer holds the lease.
    #[doc(alias = "report_ok")]
    pub type Reply = Option<Now>;
}
