//! Values in the form of text: sizes, levels, addresses.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer};
use tracing_subscriber::filter::LevelFilter;

/// A size in bytes; as text it has a unit, by default MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let count = text[..text.len() - unit.len()].parse::<u64>();
        let shift = match unit.trim() {
            "KiB" => 10,
            "MiB" | "" => 20,
            "GiB" => 30,
            _ => return Err(format!("{text:?} is not a size: write it like \"64 MiB\"")),
        };
        let bytes = count.ok().and_then(|count| count.checked_mul(1 << shift));
        bytes.map(Self).ok_or_else(|| format!("{text:?} is not a size: write it like \"64 MiB\""))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes) = self;
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        match units.iter().find(|(shift, _)| *bytes != 0 && bytes % (1 << shift) == 0) {
            Some((shift, unit)) => write!(f, "{} {unit}", bytes >> shift),
            None => write!(f, "{bytes} bytes"),
        }
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// A limit: a number of at least one.
pub(crate) type Limit = std::num::NonZeroUsize;

pub(super) fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Limit>, D::Error> {
    let number = usize::deserialize(deserializer)?;
    let none = || D::Error::custom("must be at least 1: omit it for the default");
    Limit::new(number).map(Some).ok_or_else(none)
}

/// The address of the server's own portmapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Portmap {
    /// Port 111 of each address that the server listens on.
    Usual,
    /// This address.
    At(SocketAddr),
}

impl FromStr for Portmap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "true" => Ok(Self::Usual),
            address => address.parse().map(Self::At).map_err(|_| {
                format!("{address:?} is not an address with a port, such as 0.0.0.0:111")
            }),
        }
    }
}

pub(super) fn portmap<'de, D>(deserializer: D) -> Result<Option<Portmap>, D::Error>
where
    D: Deserializer<'de>,
{
    /// The parser's expectation: true, false or an address.
    struct Either;

    impl Visitor<'_> for Either {
        type Value = Option<Portmap>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("true, false, or an address with a port")
        }

        fn visit_bool<E>(self, is_wanted: bool) -> Result<Self::Value, E> {
            Ok(is_wanted.then_some(Portmap::Usual))
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
            text.parse().map(Some).map_err(E::custom)
        }
    }
    deserializer.deserialize_any(Either)
}

pub(super) fn log_level<'de, D>(deserializer: D) -> Result<Option<LevelFilter>, D::Error>
where
    D: Deserializer<'de>,
{
    let text = String::deserialize(deserializer)?;
    let wrong = |_| {
        D::Error::custom(format!("{text:?} is not one of off, error, warn, info, debug, trace"))
    };
    text.parse().map(Some).map_err(wrong)
}

/// Parses an address to serve on. A port without an address means the loopback address, as in the
/// default, so that a forgotten address never opens the server to other machines.
pub(crate) fn listen(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").unwrap_or(text);
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    match port.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::from(([127, 0, 0, 1], port))),
        Err(_) => Err("give ADDR:PORT: 127.0.0.1:2049 for this machine only, 0.0.0.0:2049 for \
                       all IPv4 networks, [::]:2049 for all IPv6 networks"
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes, written) in [
            ("64 MiB", 64 << 20, "64 MiB"),
            ("64", 64 << 20, "64 MiB"),
            ("4KiB", 4 << 10, "4 KiB"),
            ("1024 MiB", 1 << 30, "1 GiB"),
        ] {
            let size: Size = text.parse().expect("is a size");
            assert_eq!((size.0, size.to_string()), (bytes, written.to_owned()));
        }
        for text in ["", "MiB", "64 MB", "-1 MiB", "18446744073709551615 GiB", "1.5 MiB"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn listen_address_may_be_a_port() {
        let read = |text: &str| listen(text).map(|address| address.to_string());
        for (text, address) in [
            ("2049", "127.0.0.1:2049"),
            ("localhost:2049", "127.0.0.1:2049"),
            ("[::1]:2049", "[::1]:2049"),
            ("0.0.0.0:0", "0.0.0.0:0"),
        ] {
            assert_eq!(read(text), Ok(address.to_owned()));
        }
        for text in ["", ":2049", "192.0.2.1", "::1:2049", "files:2049", "70000"] {
            assert!(read(text).is_err_and(|text| text.contains("0.0.0.0:2049")), "{text}");
        }
    }
}
