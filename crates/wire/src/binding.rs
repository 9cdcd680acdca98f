//! The binding program: a database of where servers are, by their names. `spec/binding.x` has the
//! rules by number.

use core::net::IpAddr;

use leasehold_base::limits::BOUND_NAME_BYTES_MAX;
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::{xdr_enum, xdr_struct};

/// The program's number, from the range that RFC 5531 leaves to sites.
pub const PROGRAM: u32 = 0x2001_ea61;

/// The program's version.
pub const VERSION: u32 = 1;

/// The port that it is served on, where nothing else is said: one that takes no privilege.
pub const PORT: u16 = 20_490;

/// The longest address of a host, in bytes: that of IPv6.
const HOST_BYTES_MAX: u32 = 16;

/// What tells a server from every other.
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
    /// What came of a registration.
    #[doc(alias = "binding_status")]
    pub enum Status {
        /// The name is the caller's for a term.
        Ok = 0,
        /// It is no name, or there is no port.
        Wrong = 1,
        /// It is another's.
        Taken = 2,
        /// There are too many names.
        Full = 3,
        /// Who asks is not believed.
        Refused = 4,
    }
}

xdr_struct! {
    /// What a server says of itself.
    #[doc(alias = "binding_claim")]
    #[derive(Copy)]
    pub struct Claim<'a> {
        /// Its name.
        pub name: Name<'a>,
        /// What tells it from every other.
        pub identifier: Identifier,
        /// The port that it serves on.
        pub port: u32,
    }

    /// Where a server is.
    #[doc(alias = "binding_bound")]
    #[derive(Copy)]
    pub struct Bound<'a> {
        /// Its name.
        pub name: Name<'a>,
        /// What tells it from every other.
        pub identifier: Identifier,
        /// The address of its host.
        pub host: Host,
        /// The port that it serves on.
        pub port: u32,
    }
}

/// REGISTER, procedure 1: a server is there, for another term.
pub mod register {
    /// The procedure's number.
    pub const NUMBER: u32 = 1;

    /// What it says of itself.
    pub type Args<'a> = super::Claim<'a>;

    /// What came of it.
    pub type Reply = super::Status;
}

/// WITHDRAW, procedure 2: a server is there no more.
pub mod withdraw {
    /// The procedure's number.
    pub const NUMBER: u32 = 2;

    /// What it said of itself; the port does not count.
    pub type Args<'a> = super::Claim<'a>;

    /// Whether the name was its own.
    pub type Reply = bool;
}

/// LOOKUP, procedure 3: where a server is.
pub mod lookup {
    /// The procedure's number.
    pub const NUMBER: u32 = 3;

    /// Its name.
    pub type Args<'a> = super::Name<'a>;

    /// Where it is, if it is known.
    pub type Reply<'a> = Option<super::Bound<'a>>;
}

/// LIST, procedure 4: all servers.
pub mod list {
    /// The procedure's number.
    pub const NUMBER: u32 = 4;

    /// Nothing.
    pub type Args = ();

    /// Where they are.
    pub type Reply<'a> = crate::list::List<super::Bound<'a>>;
}

#[cfg(test)]
mod tests;
