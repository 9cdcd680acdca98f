//! The address of an iod.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;

use leasehold_shell::client::Address;

/// The default port of an iod.
const PORT: u16 = 2049;

/// The address of an iod: `HOST:PORT` of a `leasehold iod`, or `nfs://HOST[:PORT]/EXPORT` of any
/// NFS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IodAddress {
    /// An iod of the cluster. Its export path derives from the cluster key.
    OfCluster(Address),
    /// A directory that another NFS server exports.
    Export(Address),
}

impl FromStr for IodAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains("://") {
            let address: Address = text.parse()?;
            return if address.names().next().is_some() {
                Ok(Self::Export(address))
            } else {
                Err("the export is missing: nfs://HOST/EXPORT, or HOST:PORT of an iod".to_owned())
            };
        }
        if text.contains('/') {
            return Err("give HOST:PORT of an iod, or nfs://HOST[:PORT]/EXPORT".to_owned());
        }
        format!("nfs://{text}").parse().map(Self::OfCluster)
    }
}

impl fmt::Display for IodAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Export(address) => address.fmt(f),
            Self::OfCluster(address) => {
                let text = address.to_string();
                f.write_str(text.trim_start_matches("nfs://").trim_end_matches('/'))
            }
        }
    }
}

impl IodAddress {
    /// Returns the server, and the path of its export.
    #[must_use]
    pub fn server(&self) -> &Address {
        match self {
            Self::OfCluster(address) | Self::Export(address) => address,
        }
    }

    /// Resolves the host; returns no address if the host has none. The resolution may take long.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let server = self.server();
        let port = server.port.map_or(PORT, Into::into);
        let found = (server.host.as_str(), port).to_socket_addrs();
        found.map(Iterator::collect).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for text in ["host:2049", "host", "[::1]:99", "nfs://host/export", "nfs://h:99/a/b"] {
            let read: IodAddress = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(read.to_string(), text);
        }
        for wrong in ["", "nfs://host", "nfs://host/", "host/export", "host:0", "http://h/x"] {
            assert!(wrong.parse::<IodAddress>().is_err(), "{wrong}");
        }
    }
}
