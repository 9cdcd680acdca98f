//! `leasehold find`, the resolution of servers' names, and the announcement of a server.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_base::limits::durations::DISCOVERY_TIMEOUT;
use leasehold_discovery::{Announcement, Found, Load, browse};
use leasehold_shell::binding::Binding;
use leasehold_shell::{Periodic, Report, Reporter};
use leasehold_store_replica::{self as replica, Metaserver};
use serde_json::json;

use crate::binding::{self, BindAt};
use crate::config::Plan;
use crate::failure::{Failure, Kind};
use crate::options::Find;
use crate::output::say;
use crate::ready::Exported;

/// The interval at which one of several servers publishes its load.
const LOAD_EVERY: Duration = Duration::from_secs(10);

/// The load that is announced before the first measurement.
const UNKNOWN: Load = {
    let replica::Load { busy_tenths, connections } = replica::Load::UNKNOWN;
    Load { busy_tenths, connections }
};

/// Lists the announced exports, or the servers in a database.
pub(crate) fn run(options: &Find) -> Result<(), Failure> {
    let text = match &options.at {
        Some(database) => binding::listed(database, options.json)?,
        None => announced(options)?,
    };
    say(text)
}

fn announced(options: &Find) -> Result<String, Failure> {
    let found = browse(options.wait.0)
        .map_err(|error| Kind::Running.because(format!("cannot query the network: {error}")))?;
    let mut text: String =
        found.iter().map(|one| if options.json { object(one) } else { line(one) }).collect();
    if text.is_empty() && !options.json {
        text = "no server is announced: use `leasehold serve --announce`\n".to_owned();
    }
    Ok(text)
}

fn line(Found { server, path, addresses, .. }: &Found) -> String {
    let address = addresses.first().map(ToString::to_string).unwrap_or_default();
    format!("{server:<20} {:<30} {address}:{path}\n", format!("nfs://{server}{path}"))
}

fn object(Found { server, path, addresses, load }: &Found) -> String {
    let load = load.map(|Load { busy_tenths, connections }| {
        json!({ "busy_tenths": busy_tenths, "connections": connections })
    });
    let object = json!({ "server": server, "path": path, "addresses": addresses, "load": load });
    format!("{object}\n")
}

/// Resolves the name of a server and an optional port. A name that the system can resolve is
/// returned unchanged; otherwise the address comes from a database or from an announcement.
pub(crate) fn resolve(host: &str, port: Option<u16>) -> (String, Option<u16>) {
    let as_it_stands = (host.to_owned(), port);
    if (host, 0).to_socket_addrs().is_ok_and(|mut addresses| addresses.next().is_some()) {
        return as_it_stands;
    }
    if let Some(address) = binding::lookup(host) {
        return (address.ip().to_string(), port.or(Some(address.port())));
    }
    // An error is ignored here, because the caller resolves the same name again and reports the
    // error.
    let found = leasehold_discovery::resolve(host, DISCOVERY_TIMEOUT).ok().flatten();
    match found.as_ref().and_then(|found| found.addresses.first()) {
        Some(address) => {
            tracing::info!(host, %address, "found by its announcement");
            (address.ip().to_string(), port.or(Some(address.port())))
        }
        None => as_it_stands,
    }
}

/// The configured announcement and registration of a server.
pub(crate) struct Naming {
    announce: bool,
    /// True if other metaservers serve the same file system.
    is_one_of_several: bool,
    bind_at: Option<BindAt>,
}

/// The running announcement and registration of a server.
pub(crate) struct Known {
    announcement: Mutex<Option<Announcement>>,
    binding: Mutex<Option<Binding>>,
}

impl Naming {
    pub(crate) fn of(plan: &Plan) -> Self {
        let server = &plan.server;
        let is_one_of_several = plan.exports.iter().any(|export| export.layout.group.is_some());
        // An iod is not announced, because its export path is secret.
        let announce = server.announce && !plan.is_iod();
        Self { announce, is_one_of_several, bind_at: server.bind_at.clone() }
    }

    /// Starts the configured announcement and registration; a failure does not stop the server.
    pub(crate) fn begin(self, state: &Path, exports: &[Exported], served: &[SocketAddr]) -> Known {
        let load = self.is_one_of_several.then_some(UNKNOWN);
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let name = machine.split('.').next().unwrap_or_default();
        let announcement = self.announce.then(|| announce(name, exports, served, load)).flatten();
        let binding = self.bind_at.and_then(|asked| asked.begin(name, state, served));
        let (announcement, binding) = (Mutex::new(announcement), Mutex::new(binding));
        Known { announcement, binding }
    }
}

impl Known {
    /// Ends the announcement. Also removes the registration, unless another process continues this
    /// server: `again` is true then.
    pub(crate) fn end(&self, again: bool) {
        drop(lock(&self.announcement).take());
        if let Some(binding) = lock(&self.binding).take().filter(|_| !again) {
            binding.withdraw();
        }
    }

    /// Periodically reports the load of this server to its peers and updates the announcement, if
    /// the server is one of several metaservers.
    pub(crate) fn follow(
        self: &Arc<Self>,
        of: Reporter,
        metaserver: Option<Metaserver>,
    ) -> Result<Option<Periodic>, Failure> {
        let Some(metaserver) = metaserver else { return Ok(None) };
        let (known, mut before) = (Arc::clone(self), of.report());
        let tell = move || {
            let now = of.report();
            let load = load(&before, &now);
            before = now;
            let Load { busy_tenths, connections } = load;
            metaserver.is_busy(replica::Load { busy_tenths, connections });
            if let Some(announcement) = &mut *lock(&known.announcement)
                && let Err(error) = announcement.is_busy(load)
            {
                tracing::warn!(%error, "cannot announce the load of this server");
            }
        };
        let failed = |error| Kind::Running.because(format!("cannot start to serve: {error}"));
        Periodic::start("load", LOAD_EVERY, tell).map(Some).map_err(failed)
    }

    /// Replaces the announced exports, if the server announces exports.
    pub(crate) fn exports_are(&self, exports: &[&str]) {
        if let Some(announcement) = &mut *lock(&self.announcement)
            && let Err(error) = announcement.follow(exports)
        {
            tracing::warn!(%error, "cannot update the announced exports");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic cannot leave the value inconsistent, so the lock is used even if it is poisoned.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Computes the load of a server between two reports. A loop that does not report counts as busy.
fn load(before: &Report, now: &Report) -> Load {
    let slept = |report: &Report| -> Duration { report.loops.iter().map(|one| one.slept).sum() };
    let count = u32::try_from(now.loops.len() + now.silent).unwrap_or(u32::MAX).max(1);
    let age = now.age.saturating_sub(before.age).as_millis().max(1);
    let slept = slept(now).saturating_sub(slept(before)).as_millis() / u128::from(count);
    let busy = age.saturating_sub(slept) * 10 / age;
    let connections: usize = now.loops.iter().map(|one| one.connections).sum();
    Load {
        busy_tenths: u32::try_from(busy).unwrap_or(u32::MAX),
        connections: u32::try_from(connections).unwrap_or(u32::MAX),
    }
}

fn announce(
    name: &str,
    exports: &[Exported],
    addresses: &[SocketAddr],
    load: Option<Load>,
) -> Option<Announcement> {
    let exports: Vec<&str> = exports.iter().map(|export| export.name.as_str()).collect();
    Announcement::new(name, &exports, addresses, load)
        .inspect(|_| tracing::info!(name, "announced"))
        .inspect_err(|error| tracing::warn!(%error, "cannot announce the server"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that announced a low load before its first measurement would attract all clients
    /// that mount in that time.
    #[test]
    fn new_server_is_announced_as_fully_loaded() {
        assert!(UNKNOWN > Load { busy_tenths: 9, connections: 1000 });
    }
}
