//! The facts that `leasehold doctor` evaluates: only this module reads from the machine.

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use leasehold_base::limits::durations::PORTMAPPER_CONNECT_TIMEOUT;
use leasehold_shell::clock::{self, Discipline};
use leasehold_shell::{BindError, process};

use crate::below::{self, Begins};
use crate::checks;
use crate::config::Plan;
use crate::control::{self, Request};
use crate::mountinfo::{self, Mount};
use crate::running;

/// The state of this machine, as far as it concerns a server or a client.
pub(super) struct Facts {
    pub(super) ports: Vec<Port>,
    /// True if a server with the same state directory replies.
    pub(super) is_running: bool,
    /// Directories that were replaced while the server had them open.
    pub(super) replaced: Vec<PathBuf>,
    pub(super) telling: Telling,
    /// True if a program accepts connections on the portmapper's port.
    pub(super) has_portmapper: bool,
    pub(super) firewall: Firewall,
    /// The state of the clock, if the kernel reports it.
    pub(super) clock: Option<Discipline>,
    pub(super) powers: Powers,
    /// The process's limit on descriptors.
    pub(super) descriptors: usize,
    pub(super) places: Vec<Place>,
    /// The mounts from NFS servers.
    pub(super) mounts: Vec<Mount>,
}

/// A port to serve on.
pub(super) struct Port {
    pub(super) address: SocketAddr,
    /// True if the server answers calls by UDP at the address.
    pub(super) with_udp: bool,
    /// The reason why the server cannot use the port, and the remedy.
    pub(super) trouble: Option<String>,
}

/// The method by which clients learn the server's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Telling {
    Nobody,
    Ourselves,
    Rpcbind,
}

/// The firewall rules for incoming packets.
pub(super) enum Firewall {
    /// The rules cannot be read; the text has the reason.
    Unknown(String),
    /// The name of the program that printed the rules, and its output.
    Rules(&'static str, String),
}

/// The capabilities of the process.
pub(super) struct Powers {
    /// True if the process can act as any user.
    pub(super) acts_as_others: bool,
    /// True if the process can open an object by its kernel handle, without a search for its path.
    pub(super) opens_handles: bool,
    /// Take kernel leases on files of any user.
    pub(super) takes_leases: bool,
}

/// A directory to serve, or for stripes.
pub(super) struct Place {
    pub(super) path: PathBuf,
    /// The mount that contains the directory.
    pub(super) mount: Option<Mount>,
    /// True if the ext4 file system has a journal; `None` for other file systems, or if unknown.
    pub(super) has_journal: Option<bool>,
    /// The free bytes and the free inodes, each in percent of the total.
    pub(super) free_percent: Option<(u64, u64)>,
    /// The reason why the server cannot serve the directory.
    pub(super) refused: Option<String>,
    /// The directories below at which other file systems are mounted.
    pub(super) begins: Vec<Begins>,
    /// True if the export lets clients enter these file systems.
    pub(super) crosses: bool,
}

impl Facts {
    /// Collects the facts of this machine, for the planned server.
    pub(super) fn gather(plan: Option<&Plan>, state: Option<&Path>) -> Self {
        let all = mountinfo::read();
        let is_running = state.is_some_and(|state| control::ask(state, &Request::Facts).is_ok());
        let directories = plan.into_iter().flat_map(|plan| &plan.exports).flat_map(|export| {
            let all = [&export.directory].into_iter().chain(&export.layout.paths);
            all.map(|directory| (directory, export.cross))
        });
        let listen = plan.map_or_else(Vec::new, Plan::listen);
        let with_udp = plan.is_none_or(|plan| plan.server.answers_datagrams());
        let portmapper = SocketAddr::from(([127, 0, 0, 1], leasehold_portmap::PORT));
        Self {
            // If the server already runs, its ports are in use: do not try to bind its addresses.
            ports: listen.into_iter().map(|address| port(address, with_udp, is_running)).collect(),
            is_running,
            replaced: state.map(running::replaced).unwrap_or_default(),
            telling: match plan.map(|plan| (plan.server.portmap(), plan.server.register)) {
                Some((Some(_), _)) => Telling::Ourselves,
                Some((None, true)) => Telling::Rpcbind,
                Some((None, false)) | None => Telling::Nobody,
            },
            has_portmapper: TcpStream::connect_timeout(&portmapper, PORTMAPPER_CONNECT_TIMEOUT)
                .is_ok(),
            firewall: firewall(),
            clock: clock::discipline().ok(),
            powers: Powers {
                acts_as_others: process::can_act_as_others(),
                opens_handles: process::can_open_handles(),
                takes_leases: process::can_take_leases(),
            },
            descriptors: process::prepare(),
            places: directories.map(|(path, crosses)| place(path, crosses, &all)).collect(),
            mounts: all.into_iter().filter(Mount::is_nfs).collect(),
        }
    }
}

/// Tries to bind a port, for TCP and with `with_udp` for UDP; skips the attempt if `is_ours`,
/// because the running server then uses the port.
fn port(address: SocketAddr, with_udp: bool, is_ours: bool) -> Port {
    let stream = || TcpListener::bind(address).map(drop);
    let datagram = || if with_udp { UdpSocket::bind(address).map(drop) } else { Ok(()) };
    let error = if is_ours { None } else { stream().and_then(|()| datagram()).err() };
    let trouble = error.map(|error| checks::address_advice(&BindError { address, error }));
    Port { address, with_udp, trouble }
}

fn firewall() -> Firewall {
    let mut why = "neither nft nor iptables is installed".to_owned();
    for (program, words) in [("nft", &["list", "ruleset"][..]), ("iptables", &["-S"])] {
        // Use absolute paths, because the PATH of some users lacks these directories.
        let found =
            ["/usr/sbin", "/sbin", "/usr/bin"].map(|folder| Path::new(folder).join(program));
        let Some(path) = found.iter().find(|path| path.exists()) else { continue };
        let asked = Command::new(path).args(words).stdin(Stdio::null()).output();
        match asked {
            Ok(answer) if answer.status.success() => {
                let text = String::from_utf8_lossy(&answer.stdout).into_owned();
                return Firewall::Rules(program, text);
            }
            Ok(answer) => {
                let text = String::from_utf8_lossy(&answer.stderr);
                let first = text.lines().next().unwrap_or("it printed no message");
                why = format!("{program} failed: {first}");
            }
            Err(error) => why = format!("{program} cannot be run: {error}"),
        }
    }
    Firewall::Unknown(why)
}

fn place(path: &Path, crosses: bool, mounts: &[Mount]) -> Place {
    let mount = mountinfo::below(path, mounts).cloned();
    let free_percent = rustix::fs::statvfs(path).ok().map(|room| {
        let percent = |free: u64, all: u64| (free * 100).checked_div(all).unwrap_or(100);
        (percent(room.f_bavail, room.f_blocks), percent(room.f_favail, room.f_files))
    });
    let journal = mount.as_ref().filter(|mount| mount.kind == "ext4");
    Place {
        path: path.to_owned(),
        has_journal: journal.and_then(|mount| has_journal(&mount.source)),
        free_percent,
        begins: below::find(path, mounts),
        crosses,
        refused: checks::opened_to_look(path).err().map(|error| error.to_string()),
        mount,
    }
}

/// Returns true if the ext4 file system on a device has a journal. The kernel lists a journal for
/// each such file system that has one.
fn has_journal(source: &str) -> Option<bool> {
    let device = fs::canonicalize(source).ok()?;
    let device = device.file_name()?.to_str()?;
    if !Path::new("/proc/fs/ext4").join(device).exists() {
        return None;
    }
    match fs::read_dir("/proc/fs/jbd2") {
        Ok(journals) => Some(journals.flatten().any(|journal| {
            let name = journal.file_name();
            name.to_str().and_then(|name| name.split_once('-')).is_some_and(|(of, _)| of == device)
        })),
        Err(error) => (error.kind() == ErrorKind::NotFound).then_some(false),
    }
}
