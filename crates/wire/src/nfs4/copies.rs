//! Copies at the server, and between servers.

use leasehold_base::limits::ALTERNATIVES_MAX;
use leasehold_base::xdr_struct;

use super::{
    Completion, Detail, DetailedReply, NetworkAddress, Reply as ReplyOf, Stability, Stateid,
    Status, Text, Time, WriteVerifier,
};
use crate::list::Array;

unions! {
    /// A server (RFC 7862 4.5.1).
    #[doc(alias("netloc4", "netloc_type4"))]
    #[derive(Copy)]
    NetworkLocation<'a> {
        /// The name.
        #[doc(alias = "NL4_NAME")]
        Name(Text<'a>) = 1,
        /// The URL.
        #[doc(alias = "NL4_URL")]
        Url(Text<'a>) = 2,
        /// The address.
        #[doc(alias = "NL4_NETADDR")]
        Address(NetworkAddress<'a>) = 3,
    }
}

/// Servers, in order of preference.
pub type NetworkLocations<'a> = Array<NetworkLocation<'a>, ALTERNATIVES_MAX>;

xdr_struct! {
    /// The result of a write of much data (RFC 7862 15.2.2).
    #[doc(alias = "write_response4")]
    #[derive(Copy)]
    pub struct WriteResponse {
        /// The copy, if it still runs.
        pub stateid: Option<Stateid>,
        /// The number of bytes written.
        pub count: u64,
        /// The stability of the data.
        pub stability: Stability,
        /// The write verifier.
        pub verifier: WriteVerifier,
    }

    /// The manner of a copy (RFC 7862 15.2.2).
    #[doc(alias = "copy_requirements4")]
    #[derive(Copy)]
    pub struct Requirements {
        /// True if the bytes are copied in their order.
        pub consecutive: bool,
        /// True if the copy is complete when the server replies.
        pub synchronous: bool,
    }
}

impl Detail for Requirements {
    const STATUS: Status = Status::OffloadRequirements;
}

/// COPY, operation 60: copies a range of the saved file to the current file (RFC 7862 15.2).
pub mod copy {
    use super::{
        DetailedReply, NetworkLocations, Requirements, Stateid, WriteResponse, xdr_struct,
    };

    xdr_struct! {
        /// The ranges.
        #[doc(alias = "COPY4args")]
        pub struct Args<'a> {
            /// The open of the saved file.
            pub from: Stateid,
            /// The open of the current file.
            pub to: Stateid,
            /// The offset in the saved file, in bytes.
            pub from_offset: u64,
            /// The offset in the current file, in bytes.
            pub to_offset: u64,
            /// The number of bytes; zero stands for all bytes to the end of the file.
            pub count: u64,
            /// The manner.
            pub requirements: Requirements,
            /// The servers that have the source; empty if this server has it.
            pub sources: NetworkLocations<'a>,
        }

        /// The copy.
        #[doc(alias = "COPY4resok")]
        #[derive(Copy)]
        pub struct Done {
            /// The written bytes.
            pub response: WriteResponse,
            /// The manner.
            pub requirements: Requirements,
        }
    }

    /// The results, or the manner that the server supports.
    #[doc(alias = "COPY4res")]
    pub type Reply = DetailedReply<Done, Requirements>;
}

/// COPY_NOTIFY, operation 61: permits another server to copy the current file (RFC 7862 15.3).
pub mod copy_notify {
    use super::{NetworkLocation, NetworkLocations, ReplyOf, Stateid, Time, xdr_struct};

    xdr_struct! {
        /// The file and the other server.
        #[doc(alias = "COPY_NOTIFY4args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// The open of the current file.
            pub stateid: Stateid,
            /// The other server.
            pub destination: NetworkLocation<'a>,
        }

        /// The permission.
        #[doc(alias = "COPY_NOTIFY4resok")]
        pub struct Done<'a> {
            /// The term of the permission.
            pub term: Time,
            /// The state id for the other server.
            pub stateid: Stateid,
            /// The addresses of this server for the other server.
            pub sources: NetworkLocations<'a>,
        }
    }

    /// The results.
    #[doc(alias = "COPY_NOTIFY4res")]
    pub type Reply<'a> = ReplyOf<Done<'a>>;
}

/// OFFLOAD_CANCEL, operation 66: cancels a copy (RFC 7862 15.8).
pub mod offload_cancel {
    /// The copy.
    #[doc(alias = "OFFLOAD_CANCEL4args")]
    pub type Args = super::Stateid;

    /// The status.
    #[doc(alias = "OFFLOAD_CANCEL4res")]
    pub type Reply = super::Completion;
}

/// OFFLOAD_STATUS, operation 67: returns the progress of a copy (RFC 7862 15.9).
pub mod offload_status {
    use super::{Completion, ReplyOf, Stateid, xdr_struct};

    /// The copy.
    #[doc(alias = "OFFLOAD_STATUS4args")]
    pub type Args = Stateid;

    xdr_struct! {
        /// The progress.
        #[doc(alias = "OFFLOAD_STATUS4resok")]
        #[derive(Copy)]
        pub struct Done {
            /// The number of bytes copied.
            pub count: u64,
            /// The status of the copy, if it has ended.
            pub completion: Option<Completion>,
        }
    }

    /// The results.
    #[doc(alias = "OFFLOAD_STATUS4res")]
    pub type Reply = ReplyOf<Done>;
}

/// CLONE, operation 71: makes a range of the current file share the storage of a range of the saved
/// file (RFC 7862 15.13).
pub mod clone {
    use super::{Completion, Stateid, xdr_struct};

    xdr_struct! {
        /// The ranges.
        #[doc(alias = "CLONE4args")]
        #[derive(Copy)]
        pub struct Args {
            /// The open of the saved file.
            pub from: Stateid,
            /// The open of the current file.
            pub to: Stateid,
            /// The offset in the saved file, in bytes.
            pub from_offset: u64,
            /// The offset in the current file, in bytes.
            pub to_offset: u64,
            /// The number of bytes; zero stands for all bytes to the end of the file.
            pub count: u64,
        }
    }

    /// The status.
    #[doc(alias = "CLONE4res")]
    pub type Reply = Completion;
}
