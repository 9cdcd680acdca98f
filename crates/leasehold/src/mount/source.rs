//! The source of a mount: `HOST:/PATH`, `HOST:PORT:/PATH`, `[ADDRESS]:/PATH`, or the form of `ls`
//! and `cp`, `nfs://HOST[:PORT]/PATH`. `HOST` alone means the only export of the host.

use std::str::FromStr;

use leasehold_shell::client::Address;

/// A directory of a server to mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// The source in the mount table: the text of the user, or the equivalent `HOST:/PATH` form of
    /// an `nfs://` address.
    pub(crate) text: String,
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    pub(crate) path: String,
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("nfs://") {
            return Self::of(&text.parse()?);
        }
        let wrong = || format!("{text} is not HOST:/EXPORT or HOST:PORT:/EXPORT");
        let is_name = !text.contains([':', '/', '[']);
        let (server, path) =
            if is_name { Some((text, "")) } else { text.split_once(":/") }.ok_or_else(wrong)?;
        let (host, port) = match server.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
                (host, (!rest.is_empty()).then(|| rest.strip_prefix(':').ok_or_else(wrong)))
            }
            None => match server.split_once(':') {
                Some((host, port)) => (host, Some(Ok(port))),
                None => (server, None),
            },
        };
        let port = port.transpose()?;
        let port = port.map(|port| port.parse().map_err(|_| wrong())).transpose()?;
        if host.is_empty() || port == Some(0) || (!server.starts_with('[') && host.contains(':')) {
            return Err(wrong());
        }
        let (text, path) = (text.to_owned(), format!("/{path}"));
        Ok(Self { text, host: host.to_owned(), port, path })
    }
}

impl Source {
    /// Converts an `nfs://` address into a source.
    fn of(address: &Address) -> Result<Self, String> {
        let Address { host, port, path } = address;
        let path = str::from_utf8(path).map_err(|_| format!("{address}: the path is not UTF-8"))?;
        let (host, path) = (host.clone(), format!("/{path}"));
        let port = port.map(u16::from);
        let shown = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let text = match port {
            Some(port) => format!("{shown}:{port}:{path}"),
            None => format!("{shown}:{path}"),
        };
        Ok(Self { text, host, port, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_is_parsed() {
        let read = |text: &str| {
            let source: Source = text.parse().expect("it is one");
            (source.host, source.port, source.path)
        };
        let is = |host: &str, port, path: &str| (host.to_owned(), port, path.to_owned());
        assert_eq!(read("a"), is("a", None, "/"));
        assert_eq!(read("a.example:/"), is("a.example", None, "/"));
        assert_eq!(read("10.0.0.1:2050:/x:/y"), is("10.0.0.1", Some(2050), "/x:/y"));
        assert_eq!(read("[::1]:/x"), is("::1", None, "/x"));
        assert_eq!(read("[::1]:2050:/x"), is("::1", Some(2050), "/x"));
        assert_eq!(read("nfs://a.example/x"), is("a.example", None, "/x"));
        assert_eq!(read("nfs://[::1]:2050/x/y%20z"), is("::1", Some(2050), "/x/y z"));
        let source: Source = "nfs://[::1]:2050/x".parse().expect("it is one");
        assert_eq!(source.text, "[::1]:2050:/x", "the table of mounts has the usual form");
    }

    #[test]
    fn invalid_source_is_rejected() {
        for text in ["nfs://", "nfs:///x", "nfs://a:0/x", "nfs://a/%ff"] {
            text.parse::<Source>().expect_err(text);
        }
        for text in ["", "a:b", "a/b", ":/x", "a:0:/x", "a:b:/x", "::1:/x", "[::1/x", "[::1]x:/y"] {
            text.parse::<Source>().expect_err(text);
        }
    }
}
