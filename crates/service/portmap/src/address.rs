//! Universal addresses (text) and native addresses (structures of the operating system).

use core::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Returns the universal form of an address: the host and the two bytes of the port, separated by
/// dots (RFC 5665 5.2.3).
#[must_use]
pub fn universal(address: SocketAddr) -> String {
    let [high, low] = address.port().to_be_bytes();
    format!("{}.{high}.{low}", address.ip())
}

/// Parses a universal address.
pub(crate) fn parse(text: &[u8]) -> Option<SocketAddr> {
    let mut parts = core::str::from_utf8(text).ok()?.rsplitn(3, '.');
    let (low, high) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let host: IpAddr = parts.next()?.parse().ok()?;
    Some(SocketAddr::new(host, u16::from_be_bytes([high, low])))
}

/// The address families of Linux, which begin a native address in the processor's byte order.
const INET: u16 = 2;
const INET6: u16 = 10;

/// Returns the native form of an address: `sockaddr_in` or `sockaddr_in6`.
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

/// Parses a native address.
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
    fn addresses_survive_a_round_trip() {
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
    fn invalid_addresses_are_rejected() {
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
