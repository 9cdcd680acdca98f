//! Versions 3 and 4, called rpcbind: map programs to addresses of any network (RFC 1833 2.1).
//!
//! The last procedure of version 3 is TADDR2UADDR. Version 4 renames procedure 5 to BCAST and adds
//! four procedures.

pub mod getstat;

use leasehold_base::limits::BINDING_TEXT_BYTES_MAX;
use leasehold_base::xdr_struct;

/// The first version in this module.
pub const VERSION_3: u32 = 3;

/// The second version in this module.
pub const VERSION_4: u32 = 4;

opaques! {
    /// The name of a network, such as `tcp6`; an address in universal form, such as
    /// `127.0.0.1.8.1`; the owner of a service.
    Text <= BINDING_TEXT_BYTES_MAX;

    /// An address in the binary form of its network.
    Address <= BINDING_TEXT_BYTES_MAX;
}

xdr_struct! {
    /// The address of a program.
    #[doc(alias = "rpcb")]
    #[derive(Copy)]
    pub struct Binding<'a> {
        /// The program.
        pub program: u32,
        /// The version of the program.
        pub version: u32,
        /// The network.
        #[doc(alias = "r_netid")]
        pub network: Text<'a>,
        /// The address on this network.
        #[doc(alias = "r_addr")]
        pub address: Text<'a>,
        /// The owner of the registration.
        pub owner: Text<'a>,
    }

    /// The result of a forwarded call.
    #[doc(alias = "rpcb_rmtcallres")]
    #[derive(Copy)]
    pub struct ForwardedReply<'a> {
        /// The address of the program that was called.
        pub address: Text<'a>,
        /// The procedure's results.
        pub results: super::Forwarded<'a>,
    }

    /// An address in the binary form of its network.
    #[doc(alias = "netbuf")]
    #[derive(Copy)]
    pub struct NetworkAddress<'a> {
        /// The capacity for the address, in bytes.
        pub bytes_max: u32,
        /// The address.
        pub address: Address<'a>,
    }
}

/// SET, procedure 1: registers a program.
pub mod set {
    /// The procedure's number.
    pub const NUMBER: u32 = 1;

    /// The binding to register.
    pub type Args<'a> = super::Binding<'a>;

    /// True if rpcbind has recorded the binding; false if a binding existed before.
    pub type Reply = bool;
}

/// UNSET, procedure 2: removes the binding of a program.
pub mod unset {
    /// The procedure's number.
    pub const NUMBER: u32 = 2;

    /// The program, version and network; an empty name selects all networks.
    pub type Args<'a> = super::Binding<'a>;

    /// True if rpcbind has removed a binding.
    pub type Reply = bool;
}

/// GETADDR, procedure 3: returns the address of a program in any of its versions.
pub mod getaddr {
    /// The procedure's number.
    pub const NUMBER: u32 = 3;

    /// The program; the network is the network of the call.
    pub type Args<'a> = super::Binding<'a>;

    /// The address; empty if the program has no address.
    pub type Reply<'a> = super::Text<'a>;
}

/// DUMP, procedure 4: returns all bindings.
pub mod dump {
    /// The procedure's number.
    pub const NUMBER: u32 = 4;

    /// The procedure has no arguments.
    pub type Args = ();

    /// All bindings.
    #[doc(alias = "rpcblist_ptr")]
    pub type Reply<'a> = crate::list::List<super::Binding<'a>>;
}

/// CALLIT, in version 4 BCAST, procedure 5: forwards a call; rpcbind sends no reply if the call
/// fails.
#[doc(alias = "bcast")]
pub mod callit {
    /// The procedure's number.
    pub const NUMBER: u32 = 5;

    /// The call to forward.
    pub type Args<'a> = super::super::ForwardedCall<'a>;

    /// The result of the forwarded call.
    pub type Reply<'a> = super::ForwardedReply<'a>;
}

/// GETTIME, procedure 6: returns the server's time.
pub mod gettime {
    /// The procedure's number.
    pub const NUMBER: u32 = 6;

    /// The procedure has no arguments.
    pub type Args = ();

    /// The time in seconds since 1970.
    pub type Reply = u32;
}

/// UADDR2TADDR, procedure 7: converts an address to the form of its network.
pub mod uaddr2taddr {
    /// The procedure's number.
    pub const NUMBER: u32 = 7;

    /// The address in universal form.
    pub type Args<'a> = super::Text<'a>;

    /// The address.
    pub type Reply<'a> = super::NetworkAddress<'a>;
}

/// TADDR2UADDR, procedure 8: converts an address to universal form.
pub mod taddr2uaddr {
    /// The procedure's number.
    pub const NUMBER: u32 = 8;

    /// The address in the binary form of its network.
    pub type Args<'a> = super::NetworkAddress<'a>;

    /// The address.
    pub type Reply<'a> = super::Text<'a>;
}

/// GETVERSADDR, procedure 9: returns the address of exactly this version of a program.
pub mod getversaddr {
    pub use super::getaddr::{Args, Reply};

    /// The procedure's number.
    pub const NUMBER: u32 = 9;
}

/// INDIRECT, procedure 10: forwards a call; rpcbind also replies if the call fails.
pub mod indirect {
    pub use super::callit::{Args, Reply};

    /// The procedure's number.
    pub const NUMBER: u32 = 10;
}

/// GETADDRLIST, procedure 11: returns all addresses of a program.
pub mod getaddrlist {
    use leasehold_base::xdr_struct;

    use super::Text;
    use crate::list::List;

    /// The procedure's number.
    pub const NUMBER: u32 = 11;

    /// The program and version.
    pub type Args<'a> = super::Binding<'a>;

    /// The addresses of the program.
    #[doc(alias = "rpcb_entry_list_ptr")]
    pub type Reply<'a> = List<Entry<'a>>;

    xdr_struct! {
        /// An address and its network.
        #[doc(alias = "rpcb_entry")]
        #[derive(Copy)]
        pub struct Entry<'a> {
            /// The address in universal form.
            #[doc(alias = "r_maddr")]
            pub address: Text<'a>,
            /// The network.
            #[doc(alias = "r_nc_netid")]
            pub network: Text<'a>,
            /// The kind of transport: 1 is connectionless, 2 connection-oriented, 3
            /// connection-oriented with orderly release, 4 raw.
            #[doc(alias = "r_nc_semantics")]
            pub semantics: u32,
            /// The family of protocols, such as `inet6`.
            #[doc(alias = "r_nc_protofmly")]
            pub family: Text<'a>,
            /// The protocol, such as `tcp`.
            #[doc(alias = "r_nc_proto")]
            pub protocol: Text<'a>,
        }
    }
}
