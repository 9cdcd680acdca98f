//! The message of a server that is ready for mounts.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};

use leasehold_base::shown::shown;
use serde::Serialize;

use crate::config::LACKS_V4;
use crate::config::options::Server;
use crate::options::Durability;
use crate::portmap::Found;

/// The port of NFS, which clients use without an option (RFC 8881 2.9.3).
const PORT: u16 = 2049;

/// The message of a server that is ready for mounts; `--json` prints exactly these fields as one
/// line.
#[derive(Debug, Serialize)]
pub(crate) struct Ready {
    addresses: Vec<Address>,
    /// The versions of NFS, as text.
    versions: String,
    /// The short command for clients with version 4; absent if the server does not serve it.
    #[serde(skip_serializing_if = "Option::is_none")]
    mount_v4: Option<String>,
    /// True if the options request version 4, which one of several metaservers does not serve.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    lacks_v4: bool,
    /// The addresses of the server's own portmapper.
    portmap: Vec<Address>,
    exports: Vec<Exported>,
    /// The commands for clients; absent for an iod.
    #[serde(skip_serializing_if = "Option::is_none")]
    mount: Option<Mount>,
    /// The exports that every client on another machine may access, with the rights there.
    open_to_everybody: Vec<String>,
    durability: Durability,
    /// The address of the live view and metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<String>,
    pid: u32,
}

#[derive(Debug, Serialize)]
struct Address {
    address: IpAddr,
    port: u16,
    transports: &'static [&'static str],
}

/// One export.
#[derive(Debug, Serialize)]
pub(crate) struct Exported {
    /// The name that clients mount.
    pub(crate) name: String,
    /// The path on this machine.
    pub(crate) path: String,
    /// True if the server rejects changes.
    pub(crate) read_only: bool,
}

/// The commands that mount the first export from the first address.
#[derive(Debug, Serialize)]
struct Mount {
    linux: String,
    macos: String,
}

impl Ready {
    /// Builds the message.
    ///
    /// # Panics
    /// Without an address.
    pub(crate) fn new(
        listening: &[SocketAddr],
        found: Found,
        exports: Vec<Exported>,
        durability: Durability,
    ) -> Self {
        let addresses = listening.iter().copied().map(Address::from).collect();
        let portmap = found.portmap.into_iter().map(Address::from).collect();
        let first = *listening.first().expect("there is a default address");
        let path = match exports.as_slice() {
            [export, _, ..] => export.name.clone(),
            [] | [_] => "/".to_owned(),
        };
        let mount = match found.is_found {
            true => Mount::found(first, &path),
            false => Mount::at(first, &path),
        };
        let open_to_everybody = Vec::new();
        let pid = std::process::id();
        let mount = Some(mount);
        Self {
            addresses,
            versions: "3 and 2".to_owned(),
            mount_v4: None,
            lacks_v4: false,
            portmap,
            exports,
            mount,
            open_to_everybody,
            durability,
            http: None,
            pid,
        }
    }

    /// Sets the transports and the versions of NFS, and adds the command for clients with version 4
    /// if the server serves the version.
    pub(crate) fn with_options(self, server: &Server, lacks_v4: bool) -> Self {
        let this = Self { lacks_v4, ..self };
        this.with_versions(server).with_datagrams(server.answers_datagrams())
    }

    fn with_versions(self, server: &Server) -> Self {
        let first = self.addresses.first().map(|one| SocketAddr::new(one.address, one.port));
        let path = match self.exports.as_slice() {
            [export, _, ..] => export.name.as_str(),
            [] | [_] => "/",
        };
        // A client without an option for the version tries the highest version first.
        let command = |first: SocketAddr| {
            let host = host(first);
            let port = match first.port() {
                PORT => String::new(),
                port => format!("-o port={port} "),
            };
            format!("sudo mount -t nfs {port}{host}:{path} /mnt")
        };
        let mount_v4 = first.filter(|_| server.versions().has_v4()).map(command);
        let mount = match (&mount_v4, self.mount) {
            // Clients of version 3 cannot mount.
            (Some(linux), Some(mount)) if !server.versions().v3 => {
                Some(Mount { linux: linux.clone(), ..mount })
            }
            (_, mount) => mount,
        };
        Self { versions: server.versions_text(), mount_v4, mount, ..self }
    }

    /// Adds UDP to the transports in the message, if the server serves datagrams.
    fn with_datagrams(mut self, are_answered: bool) -> Self {
        let transports: &[&str] = if are_answered { &["tcp", "udp"] } else { &["tcp"] };
        for address in self.addresses.iter_mut().chain(&mut self.portmap) {
            address.transports = transports;
        }
        self
    }

    /// Adds the address of the live view and metrics.
    pub(crate) fn with_http(self, address: Option<SocketAddr>) -> Self {
        Self { http: address.map(|address| format!("http://{address}/")), ..self }
    }

    /// Removes the mount commands if the server is an iod. The message then prints the options for
    /// a metaserver.
    pub(crate) fn for_metaservers_if(self, is_iod: bool) -> Self {
        Self { mount: self.mount.filter(|_| !is_iod), ..self }
    }

    /// Adds the rights of all clients.
    pub(crate) fn with_open(self, open_to_everybody: Vec<String>) -> Self {
        Self { open_to_everybody, ..self }
    }

    /// Writes the message to stdout at once, because other processes may wait for it.
    pub(crate) fn announce(&self, json: bool) -> io::Result<()> {
        let text = if json { serde_json::to_string(self)? + "\n" } else { self.text() };
        let mut out = io::stdout().lock();
        out.write_all(shown(&text).as_bytes())?;
        out.flush()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let has_udp = self.addresses.iter().any(|one| one.transports.contains(&"udp"));
        let carriers = if has_udp { "TCP and UDP" } else { "TCP" };
        let how = format!("(NFS {}, {carriers}) on {}", self.versions, listed(&self.addresses));
        let is_read_only = |export: &Exported| if export.read_only { ", read-only" } else { "" };
        match (self.exports.as_slice(), &self.mount) {
            ([export], Some(_)) => {
                let (path, name, only) = (&export.path, &export.name, is_read_only(export));
                let _ = writeln!(text, "Serving {path} as {name}{only} {how}");
            }
            ([export], None) => {
                let _ = writeln!(text, "Storing stripes in {} {how}", export.path);
            }
            (exports, _) => {
                let _ = writeln!(text, "Serving {} directories {how}:", exports.len());
                for export in exports {
                    let (path, name, only) = (&export.path, &export.name, is_read_only(export));
                    let _ = writeln!(text, "  {path} as {name}{only}");
                }
            }
        }
        if !self.portmap.is_empty() {
            let _ = writeln!(text, "Portmapper on {}", listed(&self.portmap));
        }
        if let Some(Mount { linux, macos }) = &self.mount {
            let _ = writeln!(text, "\nLinux:\n  {linux}");
            let _ = writeln!(text, "macOS:\n  {macos}");
            if let Some(mount) = self.mount_v4.as_ref().filter(|mount| *mount != linux) {
                let _ = writeln!(text, "Linux, version 4 (experimental):\n  {mount}");
            }
        } else {
            let iods = self.addresses.iter().map(|one| {
                let host = host(SocketAddr::new(one.address, one.port));
                format!(" --iod {host}:{}", one.port)
            });
            let iods: String = iods.collect();
            let _ = writeln!(text, "\nMetaserver, with the same key:\n  leasehold meta DIR{iods}");
        }
        if let Some(http) = &self.http {
            let _ = writeln!(text, "\nLive view: {http} (metrics: {http}metrics)");
        }
        if self.lacks_v4 {
            let _ = writeln!(text, "\nNote: {LACKS_V4}.");
        }
        for line in &self.open_to_everybody {
            let _ = writeln!(text, "\n{line}");
        }
        if self.durability == Durability::Memory {
            let _ = writeln!(text, "\nDurability: memory. A crash of this machine loses changes.");
        }
        text
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self { address: address.ip(), port: address.port(), transports: &["tcp", "udp"] }
    }
}

fn listed(addresses: &[Address]) -> String {
    let text = |one: &Address| SocketAddr::new(one.address, one.port).to_string();
    addresses.iter().map(text).collect::<Vec<_>>().join(" and ")
}

/// Returns the name of a host for the commands of clients.
fn host(address: SocketAddr) -> String {
    match address.ip() {
        ip if ip.is_unspecified() => {
            rustix::system::uname().nodename().to_string_lossy().into_owned()
        }
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

impl Mount {
    /// Builds the commands for clients that query a portmapper.
    fn found(address: SocketAddr, path: &str) -> Self {
        let host = host(address);
        let linux = format!("sudo mount -t nfs -o vers=3,nolock {host}:{path} /mnt");
        let macos = format!(
            "mkdir -p /private/tmp/mnt && sudo mount -t nfs -o vers=3,nolocks,resvport \
             {host}:{path} /private/tmp/mnt"
        );
        Self { linux, macos }
    }

    /// Builds the commands for clients that must specify the port.
    fn at(address: SocketAddr, path: &str) -> Self {
        let port = address.port();
        let host = host(address);
        let proto = if address.is_ipv6() { "tcp6" } else { "tcp" };
        let linux = format!(
            "sudo mount -t nfs -o vers=3,proto={proto},port={port},mountport={port},\
             mountproto={proto},nolock {host}:{path} /mnt"
        );
        let macos = format!(
            "mkdir -p /private/tmp/mnt && sudo mount -t nfs -o \
             vers=3,tcp,port={port},mountport={port},nolocks,resvport {host}:{path} /private/tmp/mnt"
        );
        Self { linux, macos }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options::NfsVersion;

    fn ready(address: &str, durability: Durability) -> Ready {
        let export = Exported { name: "/data".into(), path: "/srv/data".into(), read_only: false };
        let found = Found { portmap: Vec::new(), is_found: false };
        Ready::new(&[address.parse().expect("an address")], found, vec![export], durability)
    }

    #[test]
    fn message_has_mount_commands() {
        assert_eq!(
            ready("127.0.0.1:2049", Durability::Memory).text(),
            "Serving /srv/data as /data (NFS 3 and 2, TCP and UDP) on 127.0.0.1:2049\n\
             \n\
             Linux:\n  \
             sudo mount -t nfs -o vers=3,proto=tcp,port=2049,mountport=2049,mountproto=tcp,nolock \
             127.0.0.1:/ /mnt\n\
             macOS:\n  \
             mkdir -p /private/tmp/mnt && sudo mount -t nfs -o \
             vers=3,tcp,port=2049,mountport=2049,nolocks,resvport 127.0.0.1:/ /private/tmp/mnt\n\
             \n\
             Durability: memory. A crash of this machine loses changes.\n"
        );
        let six = ready("[::1]:99", Durability::Disk).text();
        assert!(
            six.contains("proto=tcp6,port=99,mountport=99,mountproto=tcp6,nolock [::1]:/ /mnt")
        );
        assert!(!six.contains("Durability"));
        assert!(!ready("0.0.0.0:2049", Durability::Disk).text().contains("mount -t nfs 0.0.0.0"));
    }

    #[test]
    fn mount_commands_omit_port_with_portmapper() {
        let export = Exported { name: "/data".into(), path: "/srv/data".into(), read_only: false };
        let address = |text: &str| text.parse().expect("an address");
        let found = Found { portmap: vec![address("192.0.2.1:111")], is_found: true };
        let ready = Ready::new(&[address("192.0.2.1:99")], found, vec![export], Durability::Disk);
        let text = ready.text();
        assert!(text.contains("\nPortmapper on 192.0.2.1:111\n"), "{text}");
        assert!(text.contains("mount -t nfs -o vers=3,nolock 192.0.2.1:/ /mnt\n"), "{text}");
    }

    #[test]
    fn message_has_the_short_command_of_version_4() {
        let server =
            |versions: &[NfsVersion]| Server { versions: versions.to_vec(), ..Server::default() };
        let versions = [NfsVersion::V3, NfsVersion::V4Minor2];
        let text = |address: &str, versions: &[NfsVersion], lacks_v4| {
            ready(address, Durability::Disk).with_options(&server(versions), lacks_v4).text()
        };
        let usual = text("127.0.0.1:2049", &versions, false);
        assert!(usual.contains("\n  sudo mount -t nfs 127.0.0.1:/ /mnt\n"), "{usual}");
        assert!(usual.contains("vers=3") && usual.contains("(NFS 4.2 and 3,"), "{usual}");
        let other = text("127.0.0.1:99", &versions, false);
        assert!(other.contains("\n  sudo mount -t nfs -o port=99 127.0.0.1:/ /mnt\n"), "{other}");
        let only = text("127.0.0.1:99", &[NfsVersion::V4Minor1], false);
        assert!(!only.contains("vers=3,proto"), "{only}");
        let lacks = text("127.0.0.1:99", &[NfsVersion::V3], true);
        assert!(lacks.contains("does not serve NFS version 4"), "{lacks}");
        assert!(!lacks.contains("port=99 127.0.0.1"), "{lacks}");
    }

    #[test]
    fn json_is_one_line() {
        let mut ready = ready("127.0.0.1:2049", Durability::Disk);
        ready.pid = 42;
        let line = serde_json::to_string(&ready).expect("has no maps");
        let value: serde_json::Value = serde_json::from_str(&line).expect("is JSON");
        assert!(!line.contains('\n'));
        assert_eq!(
            value["addresses"],
            serde_json::json!([
                {"address": "127.0.0.1", "port": 2049, "transports": ["tcp", "udp"]}
            ])
        );
        assert_eq!(value["exports"][0]["name"], "/data");
        assert_eq!(value["durability"], "disk");
        assert_eq!(value["pid"], 42);
        assert!(value["mount"]["linux"].is_string() && value["mount"]["macos"].is_string());
    }

    #[test]
    fn message_of_iod_is_for_metaservers() {
        let text = ready("192.0.2.1:99", Durability::Disk).for_metaservers_if(true).text();
        assert!(text.starts_with("Storing stripes in /srv/data (NFS"), "{text}");
        assert!(text.contains("leasehold meta DIR --iod 192.0.2.1:99\n"), "{text}");
        assert!(!text.contains("mount"), "{text}");
    }
}
