//! A plan as text: the output of `check`, and the difference between two plans.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use leasehold_serve::access::{Groups, Network, Rule, Squash};
use serde::{Deserialize, Serialize};

use super::{Plan, Planned, is_name};
use leasehold_cluster::Layout;

/// The properties of a server, one line each: a name and a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts(BTreeMap<String, String>);

/// The differences between two plans.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Difference {
    /// Changes that take effect at once.
    pub(crate) changes: Vec<String>,
    /// Changes that take effect after a restart.
    pub(crate) after_restart: Vec<String>,
}

/// The prefix of the names of facts that change only at a restart.
const FIXED: &str = "server ";

/// The suffix of the name of the fact that describes the stripes of an export.
const STRIPES: &str = ", stripes";

impl Facts {
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut facts = BTreeMap::new();
        let mut put = |about: String, what: String| drop(facts.insert(about, what));
        let server = &plan.server;
        let listen: Vec<_> = plan.listen().iter().map(ToString::to_string).collect();
        put(format!("{FIXED}listen"), listen.join(", "));
        let udp = if server.answers_datagrams() { "served" } else { "not served" };
        put(format!("{FIXED}udp"), udp.to_owned());
        put(format!("{FIXED}versions"), server.versions_text());
        put(format!("{FIXED}state"), plan.state.display().to_string());
        put(format!("{FIXED}durability"), format!("{:?}", plan.durability()).to_lowercase());
        let log = server.stable_log.as_ref().map(|log| log.display().to_string());
        put(format!("{FIXED}stable-log"), log.unwrap_or_else(|| "none".to_owned()));
        let told = match (server.portmap(), server.register) {
            (Some(Some(address)), _) => format!("portmapper on {address}"),
            (Some(None), _) => "portmapper on port 111".to_owned(),
            (None, true) => "registered with rpcbind".to_owned(),
            (None, false) => "not registered".to_owned(),
        };
        put(format!("{FIXED}port"), told);
        let announced = if server.announce { "on the local network" } else { "no" };
        put(format!("{FIXED}announced"), announced.to_owned());
        let bound = server.bind_at.as_ref().map(ToString::to_string);
        put(format!("{FIXED}bound"), bound.unwrap_or_else(|| "no".to_owned()));
        let or_usual = |number: Option<std::num::NonZeroUsize>| {
            number.map_or_else(|| "default".to_owned(), |number| number.to_string())
        };
        put(format!("{FIXED}threads"), or_usual(server.threads()));
        put(format!("{FIXED}connections"), or_usual(plan.limits.connections));
        let each = or_usual(plan.limits.connections_per_client);
        put(format!("{FIXED}connections-per-client"), each);
        let http = server.http.map(|address| address.to_string());
        put(format!("{FIXED}http"), http.unwrap_or_else(|| "off".to_owned()));
        if !server.http_name.is_empty() {
            put(format!("{FIXED}http-names"), server.http_name.join(", "));
        }
        let log = server.log.map_or_else(|| "info".to_owned(), |level| level.to_string());
        put(format!("{FIXED}log"), log);
        let format = server.log_format.unwrap_or_default();
        put(format!("{FIXED}log-format"), format!("{format:?}").to_lowercase());
        put("transfer-size".to_owned(), format!("{} KiB", plan.transfer_bytes_max >> 10));
        for export in &plan.exports {
            export.put(&mut facts);
        }
        Self(facts)
    }

    /// Returns the facts after a reload: facts that change only at a restart keep their old values.
    pub(crate) fn reloaded(&self, next: &Self) -> Self {
        let fixed = |about: &str| about.starts_with(FIXED);
        let old = self.0.iter().filter(|(about, _)| fixed(about));
        let new = next.0.iter().filter(|(about, _)| !fixed(about));
        Self(old.chain(new).map(|(about, what)| (about.clone(), what.clone())).collect())
    }

    /// Returns the differences between these facts and `next`.
    pub(crate) fn difference(&self, next: &Self) -> Difference {
        let mut difference = Difference::default();
        let abouts: std::collections::BTreeSet<_> = self.0.keys().chain(next.0.keys()).collect();
        for about in abouts {
            let line = match (self.0.get(about), next.0.get(about)) {
                (Some(before), Some(after)) if before == after => continue,
                (Some(before), Some(after)) => format!("{about}: {before} -> {after}"),
                (Some(before), None) => format!("{about}: {before} -> gone"),
                (None, Some(after)) => format!("{about}: new, {after}"),
                (None, None) => continue,
            };
            // A reload does not change the stripes of an export that stays served, so list such a
            // change under the changes that need a restart.
            let is_layout = about.strip_suffix(STRIPES).is_some_and(|export| {
                self.0.get(export).is_some_and(|served| next.0.get(export) == Some(served))
            });
            match line.strip_prefix(FIXED) {
                Some(line) => difference.after_restart.push(line.to_owned()),
                None if is_layout => difference.after_restart.push(line),
                None => difference.changes.push(line),
            }
        }
        difference
    }
}

impl Plan {
    /// Describes the rights of all clients, if the server is reachable from other machines at one
    /// of these addresses and an export has a rule for all clients.
    pub(crate) fn open_to_everybody(&self, addresses: &[SocketAddr]) -> Vec<String> {
        let Some(address) = addresses.iter().find(|address| !address.ip().is_loopback()) else {
            return Vec::new();
        };
        let mut lines = Vec::new();
        for export in self.exports.iter().filter(|export| export.secret.is_none()) {
            let open = export.rules.iter().find(|rule| {
                let mut networks = rule.clients.iter().flat_map(|clients| &clients.networks);
                networks.any(Network::is_everywhere)
            });
            if let Some(rule) = open {
                let (name, may) = (&export.name, grant(rule, export.read_only));
                lines.push(format!("All clients that reach {address} {may}: {name}."));
            }
        }
        lines
    }
}

impl Planned {
    fn put(&self, facts: &mut BTreeMap<String, String>) {
        let name = &self.name;
        let how = if self.read_only { ", read-only" } else { "" };
        let far = if self.cross { ", with file systems mounted below" } else { "" };
        let directory = self.directory.display();
        facts.insert(format!("export {name}"), format!("{directory}{how}{far}"));
        if let Some(spread) = self.spread() {
            facts.insert(format!("export {name}{STRIPES}"), spread);
        }
        for (at, rule) in self.rules.iter().enumerate() {
            let whom: Vec<&str> = rule.clients.iter().map(|one| &*one.text).collect();
            let about = format!("export {name}, rule {}", at + 1);
            facts.insert(about, format!("{} {}", whom.join(", "), grant(rule, self.read_only)));
        }
    }

    /// Describes the distribution of the export's data and the group of metaservers; `None` if the
    /// data is not striped.
    pub(crate) fn spread(&self) -> Option<String> {
        let Layout { paths, iods, unit_kib, inline_kib, copies, group, .. } = &self.layout;
        if !self.layout.is_spread() {
            return None;
        }
        let paths = paths.iter().map(|path| path.to_string_lossy().into_owned());
        let paths: Vec<_> = paths.chain(iods.iter().map(ToString::to_string)).collect();
        let twice = if *copies > 1 { "two copies, " } else { "" };
        let sizes = format!("{twice}stripes of {unit_kib} KiB, files up to {inline_kib} KiB whole");
        let group = group.as_ref().map(|group| format!(", {}", group.words()));
        Some(format!("{}, {sizes}{}", paths.join(", "), group.unwrap_or_default()))
    }

    /// Describes the rules for clients, one rule per line.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |(at, rule): (usize, &Rule)| {
            let text = |one: &leasehold_serve::access::Clients| {
                if !is_name(one) {
                    return one.text.clone();
                }
                let found: Vec<_> = one.networks.iter().map(ToString::to_string).collect();
                match found.is_empty() {
                    true => format!("{} (has no address now)", one.text),
                    false => format!("{} ({})", one.text, found.join(", ")),
                }
            };
            let whom: Vec<String> = rule.clients.iter().map(text).collect();
            format!("{}. {} {}", at + 1, whom.join(", "), grant(rule, self.read_only))
        };
        self.rules.iter().enumerate().map(line).collect()
    }
}

/// Describes the rights that a rule grants, as the end of a sentence.
pub(crate) fn grant(rule: &Rule, export_is_read_only: bool) -> String {
    let identity = &rule.identity;
    let user = identity.anonymous;
    let anonymous = match (user.uid, user.gid) {
        (leasehold_fs::NOBODY, leasehold_fs::NOBODY) => "the anonymous user".to_owned(),
        (uid, gid) => format!("user {uid} group {gid}"),
    };
    let what =
        if rule.read_only || export_is_read_only { "may read" } else { "may read and change" };
    let mut parts = vec![what.to_owned()];
    parts.push(match identity.squash {
        Squash::All => format!("all users as {anonymous}"),
        Squash::Root => format!("client root as {anonymous}"),
        Squash::None => "client root as root here".to_owned(),
    });
    if !identity.users.ranges().is_empty() {
        parts.push(format!("users by a map of {}", ranges(&identity.users)));
    }
    if !identity.groups_map.ranges().is_empty() {
        parts.push(format!("groups by a map of {}", ranges(&identity.groups_map)));
    }
    if identity.groups == Groups::Server {
        parts.push("groups from this machine's list".to_owned());
    }
    if rule.insecure {
        parts.push("trusted from any port".to_owned());
    }
    parts.join(", ")
}

fn ranges(map: &leasehold_serve::access::IdMap) -> String {
    let one =
        |range: &leasehold_serve::access::Range| match (range.first == range.last, range.to_one) {
            (true, _) => format!("{} to {}", range.first, range.to),
            (false, true) => format!("{}-{} to {}", range.first, range.last, range.to),
            (false, false) => format!("{}-{} to {} and on", range.first, range.last, range.to),
        };
    map.ranges().iter().map(one).collect::<Vec<_>>().join(", ")
}
