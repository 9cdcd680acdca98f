//! Operations on opens.

use leasehold_base::xdr_struct;

use super::{OwnerSequence, Stateid};

/// CLOSE, operation 4: closes the current file (RFC 8881 18.2).
pub mod close {
    use super::{OwnerSequence, Stateid, xdr_struct};

    xdr_struct! {
        /// The open.
        #[doc(alias = "CLOSE4args")]
        #[derive(Copy)]
        pub struct Args {
            /// Ignored.
            pub sequence: OwnerSequence,
            /// The open.
            pub stateid: Stateid,
        }
    }

    /// An id without meaning.
    #[doc(alias = "CLOSE4res")]
    pub type Reply = super::super::Reply<Stateid>;
}

/// OPEN_DOWNGRADE, operation 21: reduces the access of an open of the current file (RFC 8881
/// 18.18).
pub mod open_downgrade {
    use super::super::open::{ShareAccess, ShareDeny};
    use super::{OwnerSequence, Stateid, xdr_struct};

    xdr_struct! {
        /// The open, and the remaining access.
        #[doc(alias = "OPEN_DOWNGRADE4args")]
        #[derive(Copy)]
        pub struct Args {
            /// The open.
            pub stateid: Stateid,
            /// Ignored.
            pub sequence: OwnerSequence,
            /// The remaining access.
            pub access: ShareAccess,
            /// The remaining denied access of others.
            pub deny: ShareDeny,
        }
    }

    /// The open.
    #[doc(alias("OPEN_DOWNGRADE4res", "OPEN_DOWNGRADE4resok"))]
    pub type Reply = super::super::Reply<Stateid>;
}
