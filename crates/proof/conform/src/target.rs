//! The address of the server and the export: `nfs://HOST[:PORT]/EXPORT`.

use std::fmt;
use std::str::FromStr;

/// A server and one of its exports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// A name, or an address; an IPv6 address has no brackets here.
    pub host: String,
    /// The port of NFS, if it is given.
    pub port: Option<u16>,
    /// The path of the export, with its leading slash.
    pub export: String,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text} is not of the form nfs://HOST[:PORT]/EXPORT");
        let rest = text.strip_prefix("nfs://").ok_or_else(wrong)?;
        let (place, export) = rest.split_at(rest.find('/').ok_or_else(wrong)?);
        let (host, port) = match place.strip_prefix('[').and_then(|place| place.split_once(']')) {
            Some((host, port)) => {
                (host, port.strip_prefix(':').or((port.is_empty()).then_some("")))
            }
            None => match place.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, Some("")),
            },
        };
        let port = match port.ok_or_else(wrong)? {
            "" if place.ends_with(':') => return Err(wrong()),
            "" => None,
            port => Some(port.parse().map_err(|_| format!("{port} is not a port"))?),
        };
        if host.is_empty() {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port, export: export.to_owned() })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brackets = self.host.contains(':');
        let (open, close) = if brackets { ("[", "]") } else { ("", "") };
        write!(f, "nfs://{open}{}{close}", self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        f.write_str(&self.export)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(String, Option<u16>, String)> {
        let target: Target = text.parse().ok()?;
        assert_eq!(target.to_string(), text);
        Some((target.host, target.port, target.export))
    }

    #[test]
    fn addresses_are_read() {
        let expected = |host: &str, port, export: &str| Some((host.into(), port, export.into()));
        assert_eq!(parsed("nfs://host/a/b"), expected("host", None, "/a/b"));
        assert_eq!(parsed("nfs://1.2.3.4:20/"), expected("1.2.3.4", Some(20), "/"));
        assert_eq!(parsed("nfs://[::1]:20/x"), expected("::1", Some(20), "/x"));
        assert_eq!(parsed("nfs://[::1]/x"), expected("::1", None, "/x"));
    }

    #[test]
    fn invalid_addresses_are_refused() {
        for text in
            ["host/a", "nfs://host", "nfs:///a", "nfs://h:/a", "nfs://h:x/a", "nfs://[::1]x/a"]
        {
            assert_eq!(parsed(text), None, "{text}");
        }
    }
}
