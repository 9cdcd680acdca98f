//! Networks: an address with a prefix length.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// A network of either family, a single address included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The first address of the network.
    first: IpAddr,
    prefix: u8,
}

/// The reason for which a text is not a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadNetwork {
    /// The text is not an address; it may be a host name.
    NoAddress,
    /// The prefix is not a number, or exceeds the bits of an address.
    Prefix,
    /// Bits beyond the prefix are set; the value is the network without them.
    HostBits(Network),
}

impl Network {
    /// All addresses of both families.
    pub const EVERYWHERE: [Self; 2] = [
        Self { first: IpAddr::V4(Ipv4Addr::UNSPECIFIED), prefix: 0 },
        Self { first: IpAddr::V6(Ipv6Addr::UNSPECIFIED), prefix: 0 },
    ];

    /// Returns the network of a single host.
    #[must_use]
    pub fn host(address: IpAddr) -> Self {
        let address = address.to_canonical();
        let prefix = if address.is_ipv4() { 32 } else { 128 };
        Self { first: address, prefix }
    }

    /// Returns true if the network contains all addresses of its family.
    #[must_use]
    pub const fn is_everywhere(&self) -> bool {
        self.prefix == 0
    }

    /// Returns true if an address is in the network.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let (first, last) = self.span();
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && (first..=last).contains(&number(address))
    }

    /// Returns true for an IPv4 network.
    pub(super) const fn is_ipv4(&self) -> bool {
        self.first.is_ipv4()
    }

    /// Returns the first and the last address of the network as numbers.
    pub(super) fn span(&self) -> (u128, u128) {
        (number(self.first), number(self.first) | self.free_bits())
    }

    /// Returns a mask of the bits beyond the prefix.
    fn free_bits(&self) -> u128 {
        let width = if self.first.is_ipv4() { 32 } else { 128 };
        let free = width - u32::from(self.prefix);
        u128::MAX.checked_shr(128 - free).unwrap_or(0)
    }
}

/// Returns an address as a number.
pub(super) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn address_of(number: u128, is_ipv4: bool) -> IpAddr {
    if is_ipv4 {
        let bits = u32::try_from(number).expect("an address of version 4 has 32 bits");
        Ipv4Addr::from_bits(bits).into()
    } else {
        Ipv6Addr::from_bits(number).into()
    }
}

impl FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| BadNetwork::NoAddress)?;
        let host = Self::host(address);
        let Some(prefix) = prefix else { return Ok(host) };
        // For an IPv4-mapped IPv6 address a prefix length could refer to 32 or to 128 bits, so the
        // parser rejects the prefix.
        if address != host.first {
            return Err(BadNetwork::Prefix);
        }
        let prefix = prefix.parse().ok().filter(|prefix| *prefix <= host.prefix);
        let prefix = prefix.ok_or(BadNetwork::Prefix)?;
        let free = Self { prefix, ..host }.free_bits();
        let first = address_of(number(address) & !free, address.is_ipv4());
        let network = Self { first, prefix };
        if first == host.first { Ok(network) } else { Err(BadNetwork::HostBits(network)) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        let is_host = *self == Self::host(self.first);
        if is_host { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}
