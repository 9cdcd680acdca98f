//! `leasehold find`, the names of servers, and how a server is known by its own.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_discovery::{Announcement, Found, browse};
use leasehold_shell::binding::Binding;
use serde_json::json;

use crate::binding::{self, BindAt};
use crate::config::options::Server;
use crate::failure::{Failure, Kind};
use crate::options::Find;
use crate::ready::Exported;
use crate::say::say;

/// How long a name may take: a server answers a question within a fraction of a second, and is asked
/// again after one.
const PATIENCE: Duration = Duration::from_secs(3);

/// Lists the exports that are announced, or the servers that a database has.
pub(crate) fn run(options: &Find) -> Result<(), Failure> {
    let text = match &options.at {
        Some(database) => binding::listed(database, options.json)?,
        None => announced(options)?,
    };
    say(text)
}

fn announced(options: &Find) -> Result<String, Failure> {
    let found = browse(options.wait.0)
        .map_err(|error| Kind::Running.because(format!("the network cannot be asked: {error}")))?;
    let mut text: String =
        found.iter().map(|one| if options.json { object(one) } else { line(one) }).collect();
    if text.is_empty() && !options.json {
        text = "no server is announced: `leasehold serve --announce` does it\n".to_owned();
    }
    Ok(text)
}

fn line(Found { server, path, addresses }: &Found) -> String {
    let address = addresses.first().map(ToString::to_string).unwrap_or_default();
    format!("{server:<20} {:<30} {address}:{path}\n", format!("nfs://{server}{path}"))
}

fn object(Found { server, path, addresses }: &Found) -> String {
    format!("{}\n", json!({ "server": server, "path": path, "addresses": addresses }))
}

/// Where a server is that is asked for by a name and perhaps a port: as it stands where the system
/// knows the name, and otherwise where a database has it, or where it is announced.
pub(crate) fn resolve(host: &str, port: Option<u16>) -> (String, Option<u16>) {
    let as_it_stands = (host.to_owned(), port);
    if (host, 0).to_socket_addrs().is_ok_and(|mut addresses| addresses.next().is_some()) {
        return as_it_stands;
    }
    if let Some(address) = binding::lookup(host) {
        return (address.ip().to_string(), port.or(Some(address.port())));
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

/// How a server is to be known by its name.
pub(crate) struct Naming {
    announce: bool,
    bind_at: Option<BindAt>,
}

/// How a server is known by its name.
pub(crate) struct Known {
    announcement: Mutex<Option<Announcement>>,
    binding: Mutex<Option<Binding>>,
}

impl Naming {
    pub(crate) fn of(server: &Server, is_iod: bool) -> Self {
        // The path of an iod is for its metaservers only.
        Self { announce: server.announce && !is_iod, bind_at: server.bind_at.clone() }
    }

    /// Makes a server known as it is asked for; one that cannot be known serves none the less.
    pub(crate) fn begin(self, state: &Path, exports: &[Exported], served: &[SocketAddr]) -> Known {
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let name = machine.split('.').next().unwrap_or_default();
        let announcement = self.announce.then(|| announce(name, exports, served)).flatten();
        let binding = self.bind_at.and_then(|asked| asked.begin(name, state, served));
        Known { announcement: Mutex::new(announcement), binding: Mutex::new(binding) }
    }
}

impl Known {
    /// Takes it back; what is bound stays so where the server goes on as another program.
    pub(crate) fn end(&self, again: bool) {
        drop(lock(&self.announcement).take());
        if let Some(binding) = lock(&self.binding).take().filter(|_| !again) {
            binding.withdraw();
        }
    }

    /// Announces these exports from now on, where any are announced.
    pub(crate) fn exports_are(&self, exports: &[&str]) {
        if let Some(announcement) = &mut *lock(&self.announcement)
            && let Err(error) = announcement.follow(exports)
        {
            tracing::warn!(%error, "the exports are not announced as they are now");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each holds one value, whole at any time.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn announce(name: &str, exports: &[Exported], addresses: &[SocketAddr]) -> Option<Announcement> {
    let exports: Vec<&str> = exports.iter().map(|export| export.name.as_str()).collect();
    Announcement::new(name, &exports, addresses)
        .inspect(|_| tracing::info!(name, "announced"))
        .inspect_err(|error| tracing::warn!(%error, "the server is not announced"))
        .ok()
}
