//! Values that are written as text: sizes, levels, places.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer};
use tracing_subscriber::filter::LevelFilter;

/// A size in bytes, which is written with its unit; MiB where it has none.
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
            _ => return Err(format!("{text:?} is no size: write it as \"64 MiB\"")),
        };
        let bytes = count.ok().and_then(|count| count.checked_mul(1 << shift));
        bytes.map(Self).ok_or_else(|| format!("{text:?} is no size: write it as \"64 MiB\""))
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

/// A number of things of which there is one at least.
pub(crate) type Limit = std::num::NonZeroUsize;

pub(super) fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Limit>, D::Error> {
    let number = usize::deserialize(deserializer)?;
    let none = || D::Error::custom("must be 1 at least: leave it out for the default");
    Limit::new(number).map(Some).ok_or_else(none)
}

/// Where our own portmapper is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Portmap {
    /// On port 111 of each address that is served on.
    Usual,
    /// At this address.
    At(SocketAddr),
}

impl FromStr for Portmap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "true" => Ok(Self::Usual),
            address => address.parse().map(Self::At).map_err(|_| {
                format!("{address:?} is no address with a port: for example 0.0.0.0:111")
            }),
        }
    }
}

pub(super) fn portmap<'de, D>(deserializer: D) -> Result<Option<Portmap>, D::Error>
where
    D: Deserializer<'de>,
{
    /// Takes true, false or an address.
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
    let wrong =
        |_| D::Error::custom(format!("{text:?} is none of off, error, warn, info, debug, trace"));
    text.parse().map(Some).map_err(wrong)
}

/// Reads an address to serve on. A port alone means an address of this machine alone, as the
/// default does: no user opens a server to other machines by leaving the address out.
pub(crate) fn listen(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").unwrap_or(text);
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    match port.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::from(([127, 0, 0, 1], port))),
        Err(_) => Err("give ADDR:PORT: 127.0.0.1:2049 for this machine alone, 0.0.0.0:2049 for \
                       all networks of version 4, [::]:2049 for those of version 6"
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
    fn an_address_to_serve_on_may_be_a_port() {
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
