//! The binding program: a database that maps the names of servers to addresses. `spec/binding.x`
//! has the rules by number.

use core::net::IpAddr;

use leasehold_base::limits::BOUND_NAME_BYTES_MAX;
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::{xdr_enum, xdr_struct};

/// The program's number, from the range that RFC 5531 leaves to sites.
pub const PROGRAM: u32 = 0x2001_ea61;

/// The program's version.
pub const VERSION: u32 = 1;

/// The default port, which needs no privilege.
pub const PORT: u16 = 20_490;

/// The maximum length of the address of a host, in bytes: an IPv6 address.
const HOST_BYTES_MAX: u32 = 16;

/// The bytes that distinguish a server from all other servers.
pub type Identifier = [u8; 16];

opaques! {
    /// The name of a server.
    #[doc(alias = "binding_name")]
    Name <= BOUND_NAME_BYTES_MAX;
}

/// The address of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host(pub IpAddr);

impl<'a> Decode<'a> for Host {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let bytes = reader.opaque(HOST_BYTES_MAX)?;
        let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
        let address = v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from));
        address.map(Self).map_err(|_| Error::BadValue)
    }
}

impl Encode for Host {
    fn encode(&self, writer: &mut Writer) {
        match self.0 {
            IpAddr::V4(address) => writer.opaque(&address.octets()),
            IpAddr::V6(address) => writer.opaque(&address.octets()),
        }
    }
}

xdr_enum! {
    /// The result of a registration.
    #[doc(alias = "binding_status")]
    pub enum Status {
        /// The caller owns the name for a term.
        Ok = 0,
        /// The name is invalid, or the port is missing.
        Wrong = 1,
        /// Another server owns the name.
        Taken = 2,
        /// The database has reached its maximum number of names.
        Full = 3,
        /// The database rejects the caller's credential.
        Refused = 4,
    }
}

xdr_struct! {
    /// The entry that a server registers or withdraws.
    #[doc(alias = "binding_claim")]
    #[derive(Copy)]
    pub struct Claim<'a> {
        /// The name of the server.
        pub name: Name<'a>,
        /// The bytes that distinguish the server from all other servers.
        pub identifier: Identifier,
        /// The port on which the server accepts calls.
        pub port: u32,
    }

    /// The entry of a registered server.
    #[doc(alias = "binding_bound")]
    #[derive(Copy)]
    pub struct Bound<'a> {
        /// The name of the server.
        pub name: Name<'a>,
        /// The bytes that distinguish the server from all other servers.
        pub identifier: Identifier,
        /// The address of the server's host.
        pub host: Host,
        /// The port on which the server accepts calls.
        pub port: u32,
    }
}

/// REGISTER, procedure 1: registers a server for one more term.
pub mod register {
    /// The procedure's number.
    pub const NUMBER: u32 = 1;

    /// The entry to register.
    pub type Args<'a> = super::Claim<'a>;

    /// The result of the registration.
    pub type Reply = super::Status;
}

/// WITHDRAW, procedure 2: removes the entry of a server.
pub mod withdraw {
    /// The procedure's number.
    pub const NUMBER: u32 = 2;

    /// The registered entry; the port is ignored.
    pub type Args<'a> = super::Claim<'a>;

    /// True if the caller owned the name.
    pub type Reply = bool;
}

/// LOOKUP, procedure 3: returns the address of a server.
pub mod lookup {
    /// The procedure's number.
    pub const NUMBER: u32 = 3;

    /// The name of the server.
    pub type Args<'a> = super::Name<'a>;

    /// The server's entry, if the name is registered.
    pub type Reply<'a> = Option<super::Bound<'a>>;
}

/// LIST, procedure 4: returns the entries of all servers.
pub mod list {
    /// The procedure's number.
    pub const NUMBER: u32 = 4;

    /// The procedure has no arguments.
    pub type Args = ();

    /// The entries.
    pub type Reply<'a> = crate::list::List<super::Bound<'a>>;
}

#[cfg(test)]
mod tests;
