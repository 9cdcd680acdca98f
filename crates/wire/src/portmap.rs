//! Portmap and rpcbind (RFC 1833): where a program is served. Program 100000, versions 2, 3 and 4.
//!
//! Version 2 is here: it knows ports of TCP and UDP. Versions 3 and 4, which know any address, are
//! in [`rpcbind`]. Procedure 0 (NULL) has neither arguments nor results.

pub mod rpcbind;

use leasehold_base::limits::FORWARD_BYTES_MAX;
use leasehold_base::xdr_struct;

/// The program's number.
pub const PROGRAM: u32 = 100_000;

/// The version that is described here.
pub const VERSION: u32 = 2;

/// The port that the program itself is served on.
pub const PORT: u16 = 111;

/// Transports by their number in IP, as a [`Mapping`] has them.
pub mod protocol {
    /// TCP.
    pub const TCP: u32 = 6;
    /// UDP.
    pub const UDP: u32 = 17;
}

opaques! {
    /// Arguments or results of another procedure.
    Forwarded <= FORWARD_BYTES_MAX;
}

xdr_struct! {
    /// Where a program is served (RFC 1833 3.1).
    #[doc(alias("mapping", "pmap"))]
    #[derive(Copy)]
    pub struct Mapping {
        /// The program.
        pub program: u32,
        /// Its version.
        pub version: u32,
        /// The transport, one of [`protocol`].
        pub protocol: u32,
        /// The port; zero for none.
        pub port: u32,
    }

    /// A call that is to be made on the caller's behalf (RFC 1833 3.1).
    #[doc(alias("call_args", "rpcb_rmtcallargs"))]
    #[derive(Copy)]
    pub struct ForwardedCall<'a> {
        /// The program.
        pub program: u32,
        /// Its version.
        pub version: u32,
        /// Its procedure.
        pub procedure: u32,
        /// The procedure's arguments.
        pub args: Forwarded<'a>,
    }
}

/// SET, procedure 1: a program is served from now on.
pub mod set {
    /// The procedure's number.
    pub const NUMBER: u32 = 1;

    /// Where it is served.
    pub type Args = super::Mapping;

    /// Whether that was taken down; not when there was a mapping before.
    pub type Reply = bool;
}

/// UNSET, procedure 2: a program is no longer served, on whatever transport and port.
pub mod unset {
    /// The procedure's number.
    pub const NUMBER: u32 = 2;

    /// Which program and version.
    pub type Args = super::Mapping;

    /// Whether that was taken down.
    pub type Reply = bool;
}

/// GETPORT, procedure 3: where a program is served.
pub mod getport {
    /// The procedure's number.
    pub const NUMBER: u32 = 3;

    /// Which program and version, by which transport.
    pub type Args = super::Mapping;

    /// The port; zero for none.
    pub type Reply = u32;
}

/// DUMP, procedure 4: all that is served.
pub mod dump {
    /// The procedure's number.
    pub const NUMBER: u32 = 4;

    /// Nothing.
    pub type Args = ();

    /// All that is served.
    #[doc(alias = "pmaplist")]
    pub type Reply = crate::list::List<super::Mapping>;
}

/// CALLIT, procedure 5: a call on the caller's behalf, not answered when it fails.
pub mod callit {
    use leasehold_base::xdr_struct;

    use super::{Forwarded, ForwardedCall};

    /// The procedure's number.
    pub const NUMBER: u32 = 5;

    /// Which call.
    pub type Args<'a> = ForwardedCall<'a>;

    xdr_struct! {
        /// What came of it.
        #[doc(alias = "call_result")]
        #[derive(Copy)]
        pub struct Reply<'a> {
            /// The port of the program that was called.
            pub port: u32,
            /// The procedure's results.
            pub results: Forwarded<'a>,
        }
    }
}

#[cfg(test)]
mod tests;
