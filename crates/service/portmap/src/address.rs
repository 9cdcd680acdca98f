//! Addresses as text that is the same on every network, and as the system has them.

use core::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// An address in universal form: the host's, then the two bytes of the port, parted by dots
/// (RFC 5665 5.2.3).
#[must_use]
pub fn universal(address: SocketAddr) -> String {
    let [high, low] = address.port().to_be_bytes();
    format!("{}.{high}.{low}", address.ip())
}

/// The address that such a text means.
pub(crate) fn parse(text: &[u8]) -> Option<SocketAddr> {
    let mut parts = core::str::from_utf8(text).ok()?.rsplitn(3, '.');
    let (low, high) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let host: IpAddr = parts.next()?.parse().ok()?;
    Some(SocketAddr::new(host, u16::from_be_bytes([high, low])))
}

/// The families of Linux, which stand first in its addresses, as the processor has numbers.
const INET: u16 = 2;
const INET6: u16 = 10;

/// An address as a program of this machine has it: `sockaddr_in` or `sockaddr_in6`.
pub(crate) fn native(address: SocketAddr) -> Vec<u8> {
    let port = address.port().to_be_bytes();
    match address {
        SocketAddr::V4(address) => {
            [&INET.to_ne_bytes()[..], &port, &address.ip().octets(), &[0; 8]].concat()
        }
        SocketAddr::V6(address) => {
            let scope = address.scope_id().to_ne_bytes();
            [&INET6.to_ne_bytes()[..], &port, &[0; 4], &address.ip().octets(), &scope].concat()
        }
    }
}

/// The address that such bytes mean.
pub(crate) fn parse_native(bytes: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = bytes.split_first_chunk::<2>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let port = u16::from_be_bytes(*port);
    match (u16::from_ne_bytes(*family), bytes.len()) {
        (INET, 16) => Some((*rest.first_chunk::<4>()?, port).into()),
        (INET6, 28) => {
            let (host, scope) = rest.get(4..)?.split_first_chunk::<16>()?;
            let scope = u32::from_ne_bytes(*scope.first_chunk()?);
            Some(SocketAddrV6::new(Ipv6Addr::from(*host), port, 0, scope).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_the_same_there_and_back() {
        for (text, address) in [
            ("127.0.0.1.8.1", "127.0.0.1:2049"),
            ("0.0.0.0.0.111", "0.0.0.0:111"),
            ("::.255.255", "[::]:65535"),
            ("2001:db8::1.8.1", "[2001:db8::1]:2049"),
        ] {
            let address: SocketAddr = address.parse().expect("an address");
            assert_eq!(universal(address), text);
            assert_eq!(parse(text.as_bytes()), Some(address));
            assert_eq!(parse_native(&native(address)), Some(address));
        }
    }

    #[test]
    fn what_is_no_address_is_none() {
        for text in ["", "1", "8.1", "127.0.0.1", "127.0.0.1.8", "127.0.0.1.8.256", "a.b", "::1"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(b"\xff.8.1"), None);
        let whole = native(SocketAddr::from(([127, 0, 0, 1], 2049)));
        for length in 0..whole.len() {
            assert_eq!(parse_native(&whole[..length]), None);
        }
        assert_eq!(parse_native(&[0xff; 28]), None);
    }
}
