//! Versions 3 and 4, called rpcbind: where a program is served, on any network (RFC 1833 2.1).
//!
//! Version 3 ends with TADDR2UADDR. Version 4 calls procedure 5 BCAST and has four more.

pub mod getstat;

use leasehold_base::limits::BINDING_TEXT_BYTES_MAX;
use leasehold_base::xdr_struct;

/// The first version that is described here.
pub const VERSION_3: u32 = 3;

/// The second version that is described here.
pub const VERSION_4: u32 = 4;

opaques! {
    /// The name of a network, such as `tcp6`; an address in universal form, such as
    /// `127.0.0.1.8.1`; the owner of a service.
    Text <= BINDING_TEXT_BYTES_MAX;

    /// An address as its network has it.
    Address <= BINDING_TEXT_BYTES_MAX;
}

xdr_struct! {
    /// Where a program is served.
    #[doc(alias = "rpcb")]
    #[derive(Copy)]
    pub struct Binding<'a> {
        /// The program.
        pub program: u32,
        /// Its version.
        pub version: u32,
        /// The network.
        #[doc(alias = "r_netid")]
        pub network: Text<'a>,
        /// The address on it.
        #[doc(alias = "r_addr")]
        pub address: Text<'a>,
        /// Who serves it.
        pub owner: Text<'a>,
    }

    /// What came of a call on the caller's behalf.
    #[doc(alias = "rpcb_rmtcallres")]
    #[derive(Copy)]
    pub struct ForwardedReply<'a> {
        /// The address of the program that was called.
        pub address: Text<'a>,
        /// The procedure's results.
        pub results: super::Forwarded<'a>,
    }

    /// An address in its network's form.
    #[doc(alias = "netbuf")]
    #[derive(Copy)]
    pub struct NetworkAddress<'a> {
        /// The length that there is room for, in bytes.
        pub bytes_max: u32,
        /// The address.
        pub address: Address<'a>,
    }
}

/// SET, procedure 1: a program is served from now on.
pub mod set {
    /// The procedure's number.
    pub const NUMBER: u32 = 1;

    /// Where it is served.
    pub type Args<'a> = super::Binding<'a>;

    /// Whether that was taken down; not when there was a binding before.
    pub type Reply = bool;
}

/// UNSET, procedure 2: a program is no longer served.
pub mod unset {
    /// The procedure's number.
    pub const NUMBER: u32 = 2;

    /// Which program and version, on which network; on all when it has no name.
    pub type Args<'a> = super::Binding<'a>;

    /// Whether that was taken down.
    pub type Reply = bool;
}

/// GETADDR, procedure 3: where a program is served, in any of its versions.
pub mod getaddr {
    /// The procedure's number.
    pub const NUMBER: u32 = 3;

    /// Which program; the network is that of the call.
    pub type Args<'a> = super::Binding<'a>;

    /// The address; empty for none.
    pub type Reply<'a> = super::Text<'a>;
}

/// DUMP, procedure 4: all that is served.
pub mod dump {
    /// The procedure's number.
    pub const NUMBER: u32 = 4;

    /// Nothing.
    pub type Args = ();

    /// All that is served.
    #[doc(alias = "rpcblist_ptr")]
    pub type Reply<'a> = crate::list::List<super::Binding<'a>>;
}

/// CALLIT, in version 4 BCAST, procedure 5: a call on the caller's behalf, not answered when it
/// fails.
#[doc(alias = "bcast")]
pub mod callit {
    /// The procedure's number.
    pub const NUMBER: u32 = 5;

    /// Which call.
    pub type Args<'a> = super::super::ForwardedCall<'a>;

    /// What came of it.
    pub type Reply<'a> = super::ForwardedReply<'a>;
}

/// GETTIME, procedure 6: the server's time.
pub mod gettime {
    /// The procedure's number.
    pub const NUMBER: u32 = 6;

    /// Nothing.
    pub type Args = ();

    /// Seconds since 1970.
    pub type Reply = u32;
}

/// UADDR2TADDR, procedure 7: an address in its network's form.
pub mod uaddr2taddr {
    /// The procedure's number.
    pub const NUMBER: u32 = 7;

    /// The address in universal form.
    pub type Args<'a> = super::Text<'a>;

    /// The address.
    pub type Reply<'a> = super::NetworkAddress<'a>;
}

/// TADDR2UADDR, procedure 8: an address in universal form.
pub mod taddr2uaddr {
    /// The procedure's number.
    pub const NUMBER: u32 = 8;

    /// The address in its network's form.
    pub type Args<'a> = super::NetworkAddress<'a>;

    /// The address.
    pub type Reply<'a> = super::Text<'a>;
}

/// GETVERSADDR, procedure 9: where just this version of a program is served.
pub mod getversaddr {
    pub use super::getaddr::{Args, Reply};

    /// The procedure's number.
    pub const NUMBER: u32 = 9;
}

/// INDIRECT, procedure 10: a call on the caller's behalf, answered also when it fails.
pub mod indirect {
    pub use super::callit::{Args, Reply};

    /// The procedure's number.
    pub const NUMBER: u32 = 10;
}

/// GETADDRLIST, procedure 11: every address of a program.
pub mod getaddrlist {
    use leasehold_base::xdr_struct;

    use super::Text;
    use crate::list::List;

    /// The procedure's number.
    pub const NUMBER: u32 = 11;

    /// Which program and version.
    pub type Args<'a> = super::Binding<'a>;

    /// Its addresses.
    #[doc(alias = "rpcb_entry_list_ptr")]
    pub type Reply<'a> = List<Entry<'a>>;

    xdr_struct! {
        /// An address, and what network it belongs to.
        #[doc(alias = "rpcb_entry")]
        #[derive(Copy)]
        pub struct Entry<'a> {
            /// The address in universal form.
            #[doc(alias = "r_maddr")]
            pub address: Text<'a>,
            /// The network.
            #[doc(alias = "r_nc_netid")]
            pub network: Text<'a>,
            /// 1 without connections, 2 with, 3 with an orderly end, 4 raw.
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
