//! `leasehold find`, the names of servers, and `serve --announce`.

use std::io::{self, Write as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use leasehold_discovery::{Announcement, Found, browse};
use serde_json::json;

use crate::failure::{Failure, Kind};
use crate::options::Find;
use crate::ready::Exported;

/// How long a name may take: a server answers a question within a fraction of a second, and is asked
/// again after one.
const PATIENCE: Duration = Duration::from_secs(3);

/// Lists the exports that are announced.
pub(crate) fn run(options: &Find) -> Result<(), Failure> {
    let found = browse(options.wait.0)
        .map_err(|error| Kind::Running.because(format!("the network cannot be asked: {error}")))?;
    let mut text: String =
        found.iter().map(|one| if options.json { object(one) } else { line(one) }).collect();
    if text.is_empty() && !options.json {
        text = "no server is announced: `leasehold serve --announce` does it\n".to_owned();
    }
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(|error| Kind::Running.because(format!("cannot write to stdout: {error}")))
}

fn line(Found { server, path, addresses }: &Found) -> String {
    let address = addresses.first().map(ToString::to_string).unwrap_or_default();
    format!("{server:<20} {:<30} {address}:{path}\n", format!("nfs://{server}{path}"))
}

fn object(Found { server, path, addresses }: &Found) -> String {
    format!("{}\n", json!({ "server": server, "path": path, "addresses": addresses }))
}

/// Where a server is that is asked for by a name and perhaps a port: as it stands where the system
/// knows the name, and otherwise where it is announced.
pub(crate) fn resolve(host: &str, port: Option<u16>) -> (String, Option<u16>) {
    let as_it_stands = (host.to_owned(), port);
    if (host, 0).to_socket_addrs().is_ok_and(|mut addresses| addresses.next().is_some()) {
        return as_it_stands;
    }
    // What is wrong is said where the name is looked up again.
    let found = leasehold_discovery::resolve(host, PATIENCE).ok().flatten();
    match found.as_ref().and_then(|found| found.addresses.first()) {
        Some(address) => {
            tracing::info!(host, %address, "found by its announcement");
            (address.ip().to_string(), port.or(Some(address.port())))
        }
        None => as_it_stands,
    }
}

/// Announces a server by the name of this machine, where that is asked for; one that cannot be
/// announced serves none the less.
pub(crate) fn announce(
    is_asked: bool,
    exports: &[Exported],
    addresses: &[SocketAddr],
) -> Option<Announcement> {
    if !is_asked {
        return None;
    }
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = machine.split('.').next().unwrap_or_default();
    let exports: Vec<&str> = exports.iter().map(|export| export.name.as_str()).collect();
    Announcement::new(name, &exports, addresses)
        .inspect(|_| tracing::info!(name, "announced"))
        .inspect_err(|error| tracing::warn!(%error, "the server is not announced"))
        .ok()
}
