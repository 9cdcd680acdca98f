//! Discovery and announcement of servers by DNS-SD on the local network.
//!
//! Follows RFC 6763 over multicast DNS (RFC 6762): each export is an instance of `_nfs._tcp` with
//! its path in the property `path`, as in other programs, and the name of its Leasehold server in
//! the property `server`. If several servers export the same files, each announces its load in the
//! property `load`. Clients can then also search for the name of the export, and receive the least
//! busy server. Data from the network is untrusted: its size is limited, and it contains no control
//! characters.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use leasehold_base::limits::durations::WITHDRAWAL_TIMEOUT;
use mdns_sd::{IfKind, ResolvedService, ServiceDaemon, ServiceEvent, ServiceInfo};

const SERVICE: &str = "_nfs._tcp.local.";

/// The names of the properties of an instance.
const PATH: &str = "path";
const SERVER: &str = "server";
const LOAD: &str = "load";

/// The maximum number of exports that a server announces, which is more than fits on a screen.
const EXPORTS_MAX: usize = 64;

/// The maximum number of exports of all servers in a result, so that a flood of announcements uses
/// bounded memory.
const FOUND_MAX: usize = 1024;

/// The maximum number of addresses of one export.
const ADDRESSES_MAX: usize = 16;

/// The maximum length of a server's name and of a path.
const NAME_BYTES_MAX: usize = 255;
const PATH_BYTES_MAX: usize = 1024;

/// The maximum length of a DNS label.
const LABEL_BYTES_MAX: usize = 63;

/// The time for which a search waits for further servers after the first of several servers has
/// answered. By RFC 6762 a responder delays each of two answers by up to 120 ms.
const OTHERS: Duration = Duration::from_millis(500);

/// The reason why a query or an announcement failed.
#[derive(Debug)]
pub struct Failed(String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

impl From<mdns_sd::Error> for Failed {
    fn from(error: mdns_sd::Error) -> Self {
        Self(error.to_string())
    }
}

/// The load of one of several servers with the same files. A less busy server is less in the order
/// of this type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    /// The recent busy time of the server, in tenths.
    pub busy_tenths: u32,
    /// The number of open connections of the server.
    pub connections: u32,
}

impl Load {
    fn of(text: &str) -> Option<Self> {
        let (busy, connections) = text.split_once(' ')?;
        Some(Self { busy_tenths: busy.parse().ok()?, connections: connections.parse().ok()? })
    }

    fn text(self) -> String {
        format!("{} {}", self.busy_tenths, self.connections)
    }
}

/// An export of a discovered server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// The server's name.
    pub server: String,
    /// The path to mount.
    pub path: String,
    /// The addresses of the server, the preferred address first.
    pub addresses: Vec<SocketAddr>,
    /// The load of the server, if it is one of several with the same files.
    pub load: Option<Load>,
}

impl Found {
    /// Returns true if the server is one of several servers that export files under this name.
    fn is_one_of(&self, name: &str) -> bool {
        self.load.is_some() && self.path.trim_start_matches('/').eq_ignore_ascii_case(name)
    }
}

/// The announcement of a server. The drop of the value withdraws the announcement.
pub struct Announcement {
    daemon: ServiceDaemon,
    server: String,
    host: String,
    port: u16,
    /// The addresses of the server; `None` if it serves every address of the machine.
    addresses: Option<Vec<IpAddr>>,
    /// The instance name of each export.
    names: BTreeMap<String, String>,
    load: Option<Load>,
}

impl Announcement {
    /// Announces the exports of a server under a name, on the networks of the addresses that it
    /// serves: a server that serves only the loopback interface is announced only there. `load` is
    /// the load of the server, if it is one of several servers with the same files.
    ///
    /// # Errors
    /// There is no network, or the responder rejects an announcement.
    pub fn new(
        server: &str,
        exports: &[&str],
        addresses: &[SocketAddr],
        load: Option<Load>,
    ) -> Result<Self, Failed> {
        let port = addresses.first().ok_or(Failed("the server serves no address".into()))?.port();
        let daemon = ServiceDaemon::new()?;
        let ips: Vec<IpAddr> = addresses.iter().map(SocketAddr::ip).collect();
        let everywhere = ips.iter().any(IpAddr::is_unspecified);
        if everywhere {
            daemon.disable_interface(vec![IfKind::LoopbackV4, IfKind::LoopbackV6])?;
        } else {
            daemon.disable_interface(IfKind::All)?;
            daemon.enable_interface(ips.iter().copied().map(IfKind::Addr).collect::<Vec<_>>())?;
        }
        // The host name contains the port and is unique to this server, because another responder
        // of this machine may announce the machine's own host name.
        let host = format!("{}-nfs-{port}.local.", plain(server));
        let addresses = (!everywhere).then_some(ips);
        let (server, names) = (server.to_owned(), BTreeMap::new());
        let mut announced = Self { daemon, server, host, port, addresses, names, load };
        announced.follow(exports)?;
        Ok(announced)
    }

    /// Announces these exports from now on, and withdraws all others.
    ///
    /// # Errors
    /// The responder rejects the announcement of an export; the exports before this export are
    /// announced.
    pub fn follow(&mut self, exports: &[&str]) -> Result<(), Failed> {
        let wanted = &exports[..exports.len().min(EXPORTS_MAX)];
        let gone = |export: &String, _: &mut String| !wanted.contains(&export.as_str());
        for name in self.names.extract_if(.., gone).map(|(_, name)| name) {
            self.daemon.unregister(&name)?;
        }
        for export in wanted {
            if !self.names.contains_key(*export) {
                self.announce(export)?;
            }
        }
        Ok(())
    }

    /// Announces a changed load.
    ///
    /// # Errors
    /// The responder rejects an announcement.
    pub fn is_busy(&mut self, load: Load) -> Result<(), Failed> {
        if self.load != Some(load) {
            self.load = Some(load);
            let exports: Vec<String> = self.names.keys().cloned().collect();
            exports.iter().try_for_each(|export| self.announce(export))?;
        }
        Ok(())
    }

    fn announce(&mut self, export: &str) -> Result<(), Failed> {
        let server = &*self.server;
        let load = self.load.map(Load::text);
        let load = load.iter().map(|load| (LOAD, &**load));
        let properties: Vec<_> =
            [(PATH, export), (SERVER, server)].into_iter().chain(load).collect();
        let name = label(&format!("{} on {server}", export.trim_start_matches('/')));
        let known = self.addresses.as_deref().unwrap_or_default();
        let (host, port) = (&*self.host, self.port);
        let mut info = ServiceInfo::new(SERVICE, &name, host, known, port, &properties[..])?;
        if self.addresses.is_none() {
            info = info.enable_addr_auto();
        }
        let name = info.get_fullname().to_owned();
        self.daemon.register(info)?;
        self.names.insert(export.to_owned(), name);
        Ok(())
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        let end = Instant::now() + WITHDRAWAL_TIMEOUT;
        let left = || end.saturating_duration_since(Instant::now());
        // The wait is bounded. A host that does not receive the withdrawal forgets the instance at
        // the end of its lifetime.
        let told: Vec<_> =
            self.names.values().filter_map(|name| self.daemon.unregister(name).ok()).collect();
        told.iter().for_each(|told| drop(told.recv_timeout(left())));
        if let Ok(ended) = self.daemon.shutdown() {
            drop(ended.recv_timeout(left()));
        }
    }
}

/// Returns all exports that servers on the networks of this machine announce within the timeout.
///
/// # Errors
/// There is no network.
pub fn browse(patience: Duration) -> Result<Vec<Found>, Failed> {
    let mut found = BTreeMap::new();
    listen(patience, |name, one| {
        if found.len() < FOUND_MAX {
            found.insert(name.to_owned(), one);
        }
        None
    })?;
    Ok(found.into_values().collect::<BTreeSet<_>>().into_iter().collect())
}

/// Returns the first announced export of the server with this name. If several servers export files
/// under this name, returns the export of the least busy server.
///
/// # Errors
/// There is no network.
pub fn resolve(name: &str, patience: Duration) -> Result<Option<Found>, Failed> {
    let mut found: Vec<(String, Found)> = Vec::new();
    listen(patience, |instance, one| {
        let is_it = one.server.eq_ignore_ascii_case(name);
        if is_it {
            found.clear();
        }
        if is_it || (one.is_one_of(name) && found.len() < FOUND_MAX) {
            // A repeated answer for an instance replaces the earlier answer.
            found.retain(|(known, _)| known != instance);
            found.push((instance.to_owned(), one));
            return Some(if is_it { Duration::ZERO } else { OTHERS });
        }
        None
    })?;
    Ok(least_busy(found.into_iter().map(|(_, one)| one)))
}

/// Returns the least busy server. Among equally busy servers, returns the server that answered
/// first, which distributes clients because answers arrive in random order.
fn least_busy(found: impl Iterator<Item = Found>) -> Option<Found> {
    found.min_by_key(|one| one.load)
}

/// Receives instances until the timeout, and passes each to `hear`. If `hear` returns a time, the
/// function waits at most this further time; zero ends the function.
fn listen(
    patience: Duration,
    mut hear: impl FnMut(&str, Found) -> Option<Duration>,
) -> Result<(), Failed> {
    let mut end = Instant::now() + patience;
    let daemon = ServiceDaemon::new()?;
    let events = daemon.browse(SERVICE)?;
    while let Ok(event) = events.recv_timeout(end.saturating_duration_since(Instant::now())) {
        if let ServiceEvent::ServiceResolved(service) = event
            && let Some(one) = taken(&service)
            && let Some(left) = hear(&service.fullname, one)
        {
            if left.is_zero() {
                break;
            }
            end = end.min(Instant::now() + left);
        }
    }
    if let Ok(ended) = daemon.shutdown() {
        drop(ended.recv_timeout(WITHDRAWAL_TIMEOUT));
    }
    Ok(())
}

/// Converts an instance to an export; `None` if a field of the instance is invalid.
fn taken(service: &ResolvedService) -> Option<Found> {
    let property = |name| service.txt_properties.get_property_val_str(name);
    let host = || service.host.trim_end_matches('.').trim_end_matches(".local");
    let server = property(SERVER).unwrap_or_else(host);
    // An instance without the property `path` exports its root directory.
    let path = property(PATH).filter(|path| !path.is_empty()).unwrap_or("/");
    let ips: BTreeSet<IpAddr> =
        service.addresses.iter().map(mdns_sd::ScopedIp::to_ip_addr).collect();
    let load = property(LOAD).and_then(Load::of);
    found(server, path, ips, service.port).map(|found| Found { load, ..found })
}

fn found(server: &str, path: &str, ips: BTreeSet<IpAddr>, port: u16) -> Option<Found> {
    let is_text = |text: &str, bytes_max| {
        (1..=bytes_max).contains(&text.len()) && !text.contains(char::is_control)
    };
    if !is_text(server, NAME_BYTES_MAX) || !is_text(path, PATH_BYTES_MAX) || port == 0 {
        return None;
    }
    // A link-local address is useless without its link, so such an address is left out.
    let useful = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => !ip.is_unspecified() && !ip.is_multicast(),
        IpAddr::V6(ip) => !ip.is_unspecified() && !ip.is_multicast() && !ip.is_unicast_link_local(),
    };
    let ips = ips.into_iter().filter(useful).take(ADDRESSES_MAX);
    let addresses: Vec<_> = ips.map(|ip| SocketAddr::new(ip, port)).collect();
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let server = server.to_owned();
    (!addresses.is_empty()).then_some(Found { server, path, addresses, load: None })
}

/// Shortens a text to the length of a label.
fn label(text: &str) -> String {
    text[..text.floor_char_boundary(LABEL_BYTES_MAX)].to_owned()
}

/// Converts a name to a label of a host.
fn plain(name: &str) -> String {
    let plain = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    // The length leaves space for the suffix with the port.
    plain.take(LABEL_BYTES_MAX - 16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ips: &[&str]) -> BTreeSet<IpAddr> {
        ips.iter().map(|ip| ip.parse().expect("an address")).collect()
    }

    #[test]
    fn invalid_instances_are_rejected() {
        let good = found("box", "/data", at(&["192.0.2.1", "2001:db8::1"]), 2049).expect("is good");
        assert_eq!(good.addresses[0], "192.0.2.1:2049".parse().expect("an address"));
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        for (server, path, ip, port) in [
            ("", "/data", "192.0.2.1", 2049),
            (&long, "/data", "192.0.2.1", 2049),
            ("box\u{1b}[2J", "/data", "192.0.2.1", 2049),
            ("box", "/da\nta", "192.0.2.1", 2049),
            ("box", &long.repeat(5), "192.0.2.1", 2049),
            ("box", "/data", "192.0.2.1", 0),
            ("box", "/data", "0.0.0.0", 2049),
            ("box", "/data", "224.0.0.251", 2049),
            ("box", "/data", "fe80::1", 2049),
        ] {
            assert_eq!(found(server, path, at(&[ip]), port), None, "{server:?} {path:?} {ip}");
        }
        let many: BTreeSet<IpAddr> = (1..=200).map(|n| IpAddr::from([192, 0, 2, n])).collect();
        let bounded = found("box", "data", many, 1).expect("is good");
        assert_eq!((bounded.addresses.len(), &*bounded.path), (ADDRESSES_MAX, "/data"));
    }

    #[test]
    fn least_busy_of_several_servers_is_selected() {
        let one = |server: &str, load| {
            let found = found(server, "/files", at(&["192.0.2.1"]), 2049).expect("is good");
            Found { load, ..found }
        };
        let all = ["1 0", "0 12", "0 3", "0 3"].map(|text| one(text, Load::of(text)));
        let taken = least_busy(all.clone().into_iter()).expect("there are some");
        assert_eq!(taken, all[2], "of two the first");
        assert!(all.iter().all(|one| one.is_one_of("files") && !one.is_one_of("file")));
        assert!(!one("alone", None).is_one_of("files"));
        for text in ["", "1", "1 2 3", "-1 2", "a b", "1 99999999999"] {
            assert_eq!(Load::of(text), None, "{text:?}");
        }
        let load = Load { busy_tenths: 3, connections: 4 };
        assert_eq!(Load::of(&load.text()), Some(load));
    }

    #[test]
    fn names_fit_into_labels() {
        assert_eq!(label(&"\u{e9}".repeat(40)).len(), 62);
        assert_eq!(plain("Anna's box.example"), "Anna-s-box-example");
        assert!(plain(&"a".repeat(300)).len() + "-nfs-65535".len() <= LABEL_BYTES_MAX);
    }
}
