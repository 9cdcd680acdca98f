//! Options of a server that exclude each other or are out of range. `check` reports such options
//! before a server starts.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::Path;

use leasehold_base::limits::TRANSFER_BYTES_MAX;
use leasehold_doctor::opened_to_look;
use leasehold_store_striped::MARK;

use super::options::{Limits, Server};
use super::rules::Wrong;
use super::source::Source;
use crate::config::options::{Export, File};
use crate::defaults::{STABLE_LOG_MIB_MIN, TRANSFER_BYTES_MIN};
use crate::failure::{Failure, Kind};

/// The maximum number of threads. No machine has more processors, and further threads would only
/// use memory and descriptors.
const THREADS_MAX: usize = 1024;

/// A value that is out of range, or that another option excludes, with the location of the value in
/// the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub(super) table: &'static str,
    pub(super) key: &'static str,
    /// The index of the value, if the option has a list of values; otherwise 0.
    pub(super) at: usize,
    pub(super) text: String,
}

impl Conflict {
    fn of(key: &'static str, text: impl Into<String>) -> Self {
        Self { table: "server", key, at: 0, text: text.into() }
    }
}

impl From<Conflict> for Failure {
    /// Reports the conflict as a fault of the command line.
    fn from(conflict: Conflict) -> Self {
        Kind::Options.because(conflict.text)
    }
}

/// Reports the first conflict.
pub(super) fn find(server: &Server, limits: &Limits) -> Result<(), Conflict> {
    if server.threads.map_or(0, NonZeroUsize::get) > THREADS_MAX {
        return Err(Conflict::of("threads", format!("threads must be 1 to {THREADS_MAX}")));
    }
    if server.stable_log_size.is_some_and(|size| size.0 >> 20 < u64::from(STABLE_LOG_MIB_MIN)) {
        let text = "the size of a stable log must be at least 8 MiB";
        return Err(Conflict::of("stable-log-size", text));
    }
    if server.portmap.is_some() && server.register {
        let text = "portmap and register exclude each other: choose one";
        return Err(Conflict::of("register", text));
    }
    let may = TRANSFER_BYTES_MIN..=u64::from(TRANSFER_BYTES_MAX);
    if limits.transfer_size.is_some_and(|size| !may.contains(&size.0)) {
        let text = "transfer-size must be 4 KiB to 1 MiB".to_owned();
        return Err(Conflict { table: "limits", key: "transfer-size", at: 0, text });
    }
    addresses(server)
}

/// Finds addresses that the server cannot use together.
fn addresses(server: &Server) -> Result<(), Conflict> {
    let listen = &server.listen;
    for (at, address) in listen.iter().enumerate() {
        if let Some(other) = listen[..at].iter().find(|other| overlap(address, other)) {
            let text = match address == other {
                true => format!("{address} is named twice"),
                false => format!("{other} covers {address}: name one of them"),
            };
            return Err(Conflict { at, ..Conflict::of("listen", text) });
        }
    }
    let usual = [SocketAddr::from(([127, 0, 0, 1], 2049))];
    let listen = if listen.is_empty() { &usual[..] } else { listen };
    if let Some(http) = &server.http
        && let Some(other) = listen.iter().find(|other| overlap(http, other))
    {
        let text = format!("NFS is served on {other}: give the live view another port");
        return Err(Conflict::of("http", text));
    }
    if let Some(Some(portmap)) = server.portmap() {
        let http = server.http.iter();
        if let Some(other) = listen.iter().chain(http).find(|other| overlap(&portmap, other)) {
            let text = format!("{other} is in use already: give the portmapper another address");
            return Err(Conflict::of("portmap", text));
        }
    }
    Ok(())
}

/// Returns true if a client that connects to one address could reach the socket at the other
/// address. A port that the system chooses never overlaps.
fn overlap(one: &SocketAddr, other: &SocketAddr) -> bool {
    let is_any = |address: IpAddr| address.is_unspecified();
    let (host, other_host) = (one.ip(), other.ip());
    one.port() == other.port()
        && one.port() != 0
        && one.is_ipv4() == other.is_ipv4()
        && (host == other_host || is_any(host) || is_any(other_host))
}

/// Finds the faults that a server would find when it opens the directories in the file. Only
/// `check` calls this function, because a server opens the directories anyway.
///
/// # Errors
/// The first directory that cannot be served, or cannot store stripes.
pub(super) fn look(path: &Path) -> Result<(), Failure> {
    let (source, file) = Source::read(path)?;
    let File { export, .. } = &file;
    for export in export {
        served(export.get_ref()).map_err(|wrong| source.at(&wrong))?;
    }
    Ok(())
}

fn served(export: &Export) -> Result<(), Wrong> {
    for place in [&export.directory].into_iter().chain(&export.stripe) {
        let path = place.get_ref();
        opened_to_look(path).map_err(|error| {
            Wrong::at(place, format!("cannot serve {}: {error}", path.display()))
        })?;
    }
    if export.stripe.is_empty() {
        return Ok(());
    }
    let is_marked = |path: &Path| path.join(MARK).exists();
    let is_empty = |path: &Path| std::fs::read_dir(path).map_or(true, |mut it| it.next().is_none());
    let mut is_volume = false;
    for place in &export.stripe {
        let path = place.get_ref();
        is_volume |= is_marked(path);
        if !is_marked(path) && !is_empty(path) {
            let shown = path.display();
            let text =
                format!("{shown} contains files that are not stripes: name an empty directory");
            return Err(Wrong::at(place, text));
        }
    }
    if !is_volume && !is_empty(export.directory.get_ref()) {
        let text = "existing files cannot be striped: with new directories for stripes the served \
                    directory must be empty; copy the files in through a mount";
        return Err(Wrong::at(&export.directory, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(listen: &[&str], http: Option<&str>) -> Server {
        let address = |text: &&str| text.parse().expect("an address");
        Server {
            listen: listen.iter().map(address).collect(),
            http: http.as_ref().map(address),
            ..Server::default()
        }
    }

    #[test]
    fn overlapping_addresses_are_rejected() {
        let find = |listen: &[&str], http| {
            super::find(&server(listen, http), &Limits::default()).map_err(|it| (it.key, it.at))
        };
        assert_eq!(find(&["127.0.0.1:1", "127.0.0.1:1"], None), Err(("listen", 1)));
        assert_eq!(find(&["127.0.0.1:1", "[::1]:1", "0.0.0.0:1"], None), Err(("listen", 2)));
        assert_eq!(find(&["0.0.0.0:1", "[::]:1", "127.0.0.1:2"], None), Ok(()));
        assert_eq!(find(&["127.0.0.1:0", "127.0.0.1:0"], None), Ok(()));
        assert_eq!(find(&["127.0.0.1:1"], Some("127.0.0.1:1")), Err(("http", 0)));
        assert_eq!(find(&[], Some("0.0.0.0:2049")), Err(("http", 0)));
        assert_eq!(find(&[], Some("127.0.0.1:9049")), Ok(()));
    }

    #[test]
    fn values_out_of_range_are_rejected() {
        let threads = NonZeroUsize::new(100_000);
        let server = Server { threads, ..Server::default() };
        let found = find(&server, &Limits::default()).expect_err("no machine has as many");
        assert_eq!((found.table, found.key), ("server", "threads"));
        assert_eq!(Failure::from(found).to_string(), "threads must be 1 to 1024");
    }
}
