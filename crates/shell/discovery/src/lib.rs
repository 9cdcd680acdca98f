//! Servers that are found by DNS-SD on the local network, and announced there.
//!
//! By RFC 6763 over multicast DNS (RFC 6762): each export is an instance of `_nfs._tcp` with its path
//! in the property `path`, as other programs have it, and in `server` the name of ours. One of several
//! that serve the same says in `load` how busy it is, and is found by the name of its export as well,
//! the least busy first. What comes from the network is anybody's word: it is bounded, and has no
//! control characters.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use mdns_sd::{IfKind, ResolvedService, ServiceDaemon, ServiceEvent, ServiceInfo};

const SERVICE: &str = "_nfs._tcp.local.";

/// The properties of an instance.
const PATH: &str = "path";
const SERVER: &str = "server";
const LOAD: &str = "load";

/// The exports of a server that are announced: more than fits on a screen.
const EXPORTS_MAX: usize = 64;

/// The exports of all servers that are listed: whoever floods the network gets no more memory.
const FOUND_MAX: usize = 1024;

/// The addresses of one of them.
const ADDRESSES_MAX: usize = 16;

/// The longest name of a server and the longest path that are taken.
const NAME_BYTES_MAX: usize = 255;
const PATH_BYTES_MAX: usize = 1024;

/// The longest label of DNS.
const LABEL_BYTES_MAX: usize = 63;

/// How long others are heard of after the first of several: RFC 6762 has them wait for up to 120 ms
/// with each of two answers.
const OTHERS: Duration = Duration::from_millis(500);

/// How long leaving the network may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why the network cannot be asked or told.
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

/// How busy one of several servers is that serve the same; the less busy comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    /// How much of its time it had something to do lately, in tenths.
    pub busy_tenths: u32,
    /// Its open connections.
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

/// An export of a server that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// The server's name.
    pub server: String,
    /// The path to mount.
    pub path: String,
    /// Where the server is, the most usual address first.
    pub addresses: Vec<SocketAddr>,
    /// How busy it is, where it is one of several that serve the same.
    pub load: Option<Load>,
}

impl Found {
    /// Whether it is one of several that serve what has this name.
    fn is_one_of(&self, name: &str) -> bool {
        self.load.is_some() && self.path.trim_start_matches('/').eq_ignore_ascii_case(name)
    }
}

/// A server that is announced; taken back when this is dropped.
pub struct Announcement {
    daemon: ServiceDaemon,
    server: String,
    host: String,
    port: u16,
    /// None where the server is on every address that the machine has.
    addresses: Option<Vec<IpAddr>>,
    /// What each export is called.
    names: BTreeMap<String, String>,
    load: Option<Load>,
}

impl Announcement {
    /// Announces the exports of a server with a name, on the networks of the addresses that it
    /// serves on: what serves this machine only is announced on its loopback only. One of several
    /// that serve the same says how busy it is.
    ///
    /// # Errors
    /// When there is no network, or no room for a name.
    pub fn new(
        server: &str,
        exports: &[&str],
        addresses: &[SocketAddr],
        load: Option<Load>,
    ) -> Result<Self, Failed> {
        let port = addresses.first().ok_or(Failed("no address is served on".into()))?.port();
        let daemon = ServiceDaemon::new()?;
        let ips: Vec<IpAddr> = addresses.iter().map(SocketAddr::ip).collect();
        let everywhere = ips.iter().any(IpAddr::is_unspecified);
        if everywhere {
            daemon.disable_interface(vec![IfKind::LoopbackV4, IfKind::LoopbackV6])?;
        } else {
            daemon.disable_interface(IfKind::All)?;
            daemon.enable_interface(ips.iter().copied().map(IfKind::Addr).collect::<Vec<_>>())?;
        }
        // The name of the host is ours alone: another responder of this machine may have its own.
        let host = format!("{}-nfs-{port}.local.", plain(server));
        let addresses = (!everywhere).then_some(ips);
        let (server, names) = (server.to_owned(), BTreeMap::new());
        let mut announced = Self { daemon, server, host, port, addresses, names, load };
        announced.follow(exports)?;
        Ok(announced)
    }

    /// Announces these exports from now on, and takes back what is not among them.
    ///
    /// # Errors
    /// When there is no room for a name: those before it are announced.
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

    /// Announces that it is so busy now, if it was not before.
    ///
    /// # Errors
    /// When there is no room for it.
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
        let end = Instant::now() + PATIENCE;
        let left = || end.saturating_duration_since(Instant::now());
        // Who does not hear the goodbye forgets it by itself, in time.
        let told: Vec<_> =
            self.names.values().filter_map(|name| self.daemon.unregister(name).ok()).collect();
        told.iter().for_each(|told| drop(told.recv_timeout(left())));
        if let Ok(ended) = self.daemon.shutdown() {
            drop(ended.recv_timeout(left()));
        }
    }
}

/// All exports that are announced on the networks of this machine, as far as they answer in time.
///
/// # Errors
/// When there is no network.
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

/// The first export that is heard of from a server with this name, or of several that serve what has
/// this name the least busy.
///
/// # Errors
/// When there is no network.
pub fn resolve(name: &str, patience: Duration) -> Result<Option<Found>, Failed> {
    let mut found: Vec<(String, Found)> = Vec::new();
    listen(patience, |instance, one| {
        let is_it = one.server.eq_ignore_ascii_case(name);
        if is_it {
            found.clear();
        }
        if is_it || (one.is_one_of(name) && found.len() < FOUND_MAX) {
            // What is heard again is as it is now.
            found.retain(|(known, _)| known != instance);
            found.push((instance.to_owned(), one));
            return Some(if is_it { Duration::ZERO } else { OTHERS });
        }
        None
    })?;
    Ok(least_busy(found.into_iter().map(|(_, one)| one)))
}

/// The least busy, and of those that are as busy the first: they answer after times at random.
fn least_busy(found: impl Iterator<Item = Found>) -> Option<Found> {
    found.min_by_key(|one| one.load)
}

/// Hears of instances until the time is over, or what is left of it when one says that; all of that
/// is over with none left.
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
        drop(ended.recv_timeout(PATIENCE));
    }
    Ok(())
}

/// What an instance says, if it makes sense.
fn taken(service: &ResolvedService) -> Option<Found> {
    let property = |name| service.txt_properties.get_property_val_str(name);
    let host = || service.host.trim_end_matches('.').trim_end_matches(".local");
    let server = property(SERVER).unwrap_or_else(host);
    // One that says no path exports its root.
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
    // An address of a link is of no use without the link.
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

/// As much of a text as a label has room for.
fn label(text: &str) -> String {
    text[..text.floor_char_boundary(LABEL_BYTES_MAX)].to_owned()
}

/// A name as a label of a host.
fn plain(name: &str) -> String {
    let plain = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    // With room for what follows it.
    plain.take(LABEL_BYTES_MAX - 16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ips: &[&str]) -> BTreeSet<IpAddr> {
        ips.iter().map(|ip| ip.parse().expect("an address")).collect()
    }

    #[test]
    fn what_makes_no_sense_is_not_taken() {
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
    fn of_several_the_least_busy_is_taken() {
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
