//! Addresses of files on servers, as `nfs://HOST[:PORT]/PATH` (RFC 2224).

use std::ffi::OsStr;
use std::fmt;
use std::num::NonZeroU16;
use std::os::unix::ffi::OsStrExt as _;
use std::str::FromStr;

/// The address of a file or directory on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The host name, or the IP address without brackets.
    pub host: String,
    /// The port of the NFS program; `None` for the default.
    pub port: Option<NonZeroU16>,
    /// The path on the server, including its slashes.
    pub path: Vec<u8>,
}

/// The scheme of the addresses.
pub const SCHEME: &str = "nfs://";

/// The bytes that need no escape in a path, besides letters and digits.
const PLAIN: &[u8] = b"-._~!$&'()*+,;=:@/";

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::of(OsStr::new(text))
    }
}

impl Address {
    /// Parses an address. Its path may contain any bytes.
    ///
    /// # Errors
    /// The fault in the address.
    pub fn of(text: &OsStr) -> Result<Self, String> {
        let text = text.as_bytes();
        let rest = text.strip_prefix(SCHEME.as_bytes()).ok_or("it does not begin with nfs://")?;
        let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        let (server, path) = (&rest[..end], rest.get(end + 1..).unwrap_or_default());
        let server = str::from_utf8(server).map_err(|_| "the server's name is not UTF-8")?;
        let (host, port) = match server.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or("a ] is missing")?;
                (host, rest.strip_prefix(':'))
            }
            None if server.matches(':').count() > 1 => {
                let text = "write an IPv6 address in brackets: [::1]:2049";
                return Err(text.to_owned());
            }
            None => match server.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (server, None),
            },
        };
        if host.is_empty() {
            return Err("the server is missing: nfs://HOST/PATH".to_owned());
        }
        let number = |port: &str| port.parse().map_err(|_| format!("{port:?} is not a port"));
        let port = port.map(number).transpose()?;
        Ok(Self { host: host.to_owned(), port, path: decoded(path)? })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        if self.host.contains(':') {
            write!(f, "[{}]", self.host)?;
        } else {
            f.write_str(&self.host)?;
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        f.write_str("/")?;
        for byte in &self.path {
            if byte.is_ascii_alphanumeric() || PLAIN.contains(byte) {
                write!(f, "{}", char::from(*byte))?;
            } else {
                write!(f, "%{byte:02X}")?;
            }
        }
        Ok(())
    }
}

impl Address {
    /// Returns the address of the object with a name in this directory.
    #[must_use]
    pub fn within(&self, name: &[u8]) -> Self {
        let mut path = self.path.clone();
        if !path.is_empty() && !path.ends_with(b"/") {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Self { path, ..self.clone() }
    }

    /// Returns the components of the path.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
    }
}

/// Decodes escaped bytes, such as `%41`, in a path.
fn decoded(path: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = path.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        match (digit(rest.next()), digit(rest.next())) {
            (Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).expect("two digits are a byte"));
            }
            _ => return Err("two hexadecimal digits must follow a %".to_owned()),
        }
    }
    if bytes.contains(&0) {
        return Err("a name cannot contain a zero byte".to_owned());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_formatted() {
        let read = |text: &str| text.parse::<Address>();
        let address = read("nfs://[::1]:2049/data/a%20b%ff").expect("it is one");
        assert_eq!(address.host, "::1");
        assert_eq!(address.port.map(NonZeroU16::get), Some(2049));
        assert_eq!(address.path, b"data/a b\xff");
        assert_eq!(address.to_string(), "nfs://[::1]:2049/data/a%20b%FF");
        assert_eq!(read("nfs://host").map(|it| it.to_string()), Ok("nfs://host/".to_owned()));
        for wrong in [
            "host:/x",
            "nfs:///x",
            "nfs://h:0/",
            "nfs://h:x/",
            "nfs://h/%4",
            "nfs://[::1",
            "nfs://::1:99/",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let odd = OsStr::from_bytes(b"nfs://host/a\xff%ff");
        assert_eq!(Address::of(odd).map(|it| it.path), Ok(b"a\xff\xff".to_vec()));
        assert!(Address::of(OsStr::from_bytes(b"nfs://h\xff/a")).is_err());
    }
}
