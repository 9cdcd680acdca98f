//! Portmap and rpcbind (RFC 1833): map programs to addresses. Program 100000, versions 2, 3 and 4.
//!
//! This module has version 2, which maps programs to ports of TCP and UDP. [`rpcbind`] has versions
//! 3 and 4, which support addresses of any network. Procedure 0 (NULL) has neither arguments nor
//! results.

pub mod rpcbind;

use leasehold_base::limits::FORWARD_BYTES_MAX;
use leasehold_base::xdr_struct;

/// The program's number.
pub const PROGRAM: u32 = 100_000;

/// The version in this module.
pub const VERSION: u32 = 2;

/// The port of the portmapper itself.
pub const PORT: u16 = 111;

/// Transports by their IP protocol number, as in [`Mapping`].
pub mod protocol {
    /// The transport TCP.
    pub const TCP: u32 = 6;
    /// The transport UDP.
    pub const UDP: u32 = 17;
}

opaques! {
    /// Arguments or results of another procedure.
    Forwarded <= FORWARD_BYTES_MAX;
}

xdr_struct! {
    /// The port of a program (RFC 1833 3.1).
    #[doc(alias("mapping", "pmap"))]
    #[derive(Copy)]
    pub struct Mapping {
        /// The program.
        pub program: u32,
        /// The version of the program.
        pub version: u32,
        /// The transport, one of [`protocol`].
        pub protocol: u32,
        /// The port; zero if the program has no port.
        pub port: u32,
    }

    /// A call that the portmapper makes on the caller's behalf (RFC 1833 3.1).
    #[doc(alias("call_args", "rpcb_rmtcallargs"))]
    #[derive(Copy)]
    pub struct ForwardedCall<'a> {
        /// The program.
        pub program: u32,
        /// The version of the program.
        pub version: u32,
        /// The number of the procedure.
        pub procedure: u32,
        /// The procedure's arguments.
        pub args: Forwarded<'a>,
    }
}

/// SET, procedure 1: registers a program.
pub mod set {
    /// The procedure's number.
    pub const NUMBER: u32 = 1;

    /// The mapping to register.
    pub type Args = super::Mapping;

    /// True if the portmapper has recorded the mapping; false if a mapping existed before.
    pub type Reply = bool;
}

/// UNSET, procedure 2: removes the mappings of a program on all transports and ports.
pub mod unset {
    /// The procedure's number.
    pub const NUMBER: u32 = 2;

    /// The program and version.
    pub type Args = super::Mapping;

    /// True if the portmapper has removed a mapping.
    pub type Reply = bool;
}

/// GETPORT, procedure 3: returns the port of a program.
pub mod getport {
    /// The procedure's number.
    pub const NUMBER: u32 = 3;

    /// The program, version and transport.
    pub type Args = super::Mapping;

    /// The port; zero if the program has no port.
    pub type Reply = u32;
}

/// DUMP, procedure 4: returns all mappings.
pub mod dump {
    /// The procedure's number.
    pub const NUMBER: u32 = 4;

    /// The procedure has no arguments.
    pub type Args = ();

    /// All mappings.
    #[doc(alias = "pmaplist")]
    pub type Reply = crate::list::List<super::Mapping>;
}

/// CALLIT, procedure 5: forwards a call; the portmapper sends no reply if the call fails.
pub mod callit {
    use leasehold_base::xdr_struct;

    use super::{Forwarded, ForwardedCall};

    /// The procedure's number.
    pub const NUMBER: u32 = 5;

    /// The call to forward.
    pub type Args<'a> = ForwardedCall<'a>;

    xdr_struct! {
        /// The result of a forwarded call.
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
