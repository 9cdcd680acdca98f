//! The entries of a list that are addresses of this machine, so that all machines can share one
//! file.

use std::net::{SocketAddr, UdpSocket};

use crate::IodAddress;

/// An entry with addresses of this machine.
#[derive(Debug, PartialEq, Eq)]
pub struct Own {
    /// The index of the entry.
    pub at: usize,
    /// The addresses of the entry that this machine has.
    pub addresses: Vec<SocketAddr>,
}

/// Returns the entries that a server with the addresses `listen` serves; if `listen` is empty, all
/// entries with an address of this machine. Resolves host names, which may take long.
#[must_use]
pub fn own(places: &[IodAddress], listen: &[SocketAddr]) -> Vec<Own> {
    let one = |(at, place): (usize, &IodAddress)| {
        let addresses = place.addresses().into_iter();
        let addresses: Vec<_> = addresses.filter(|address| is_own(*address, listen)).collect();
        (!addresses.is_empty()).then_some(Own { at, addresses })
    };
    places.iter().enumerate().filter_map(one).collect()
}

/// Formats the entries.
#[must_use]
pub fn named(places: &[IodAddress], own: &[Own]) -> String {
    let names: Vec<_> = own.iter().map(|own| places[own.at].to_string()).collect();
    names.join(" and ")
}

fn is_own(address: SocketAddr, listen: &[SocketAddr]) -> bool {
    // A bind succeeds only with an address of this machine, so the bind tests if the address is
    // local.
    let is_here = || UdpSocket::bind((address.ip(), 0)).is_ok();
    let is_served = |on: &SocketAddr| {
        let is_all = on.ip().is_unspecified() && on.is_ipv4() == address.is_ipv4();
        *on == address || (is_all && on.port() == address.port() && is_here())
    };
    if listen.is_empty() { is_here() } else { listen.iter().any(is_served) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(places: &[&str], listen: &[&str]) -> Vec<usize> {
        let places: Vec<_> = places.iter().map(|it| it.parse().expect("an address")).collect();
        let listen: Vec<_> = listen.iter().map(|it| it.parse().expect("an address")).collect();
        own(&places, &listen).iter().map(|own| own.at).collect()
    }

    #[test]
    fn own_entry_is_found_by_listen_address() {
        // 203.0.113.1 is an address for documentation, which no machine has.
        let all = ["203.0.113.1:2049", "127.0.0.2:2049", "127.0.0.3", "127.0.0.3:99"];
        assert_eq!(found(&all, &["127.0.0.2:2049"]), [1]);
        assert_eq!(found(&all, &["127.0.0.3:2049"]), [2], "the default port");
        assert_eq!(found(&all, &["0.0.0.0:99"]), [3]);
        assert_eq!(found(&all, &["0.0.0.0:2049"]), [1, 2]);
        assert_eq!(found(&all, &["[::]:2049", "127.0.0.3:99"]), [3]);
        assert_eq!(found(&all, &["127.0.0.1:2049"]), [] as [usize; 0]);
        assert_eq!(found(&all[..2], &[]), [1]);
        assert_eq!(found(&["no-such-host.invalid"], &[]), [] as [usize; 0]);
    }
}
