//! What doctor looks at: all that is read from this machine is read here.

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold_shell::clock::{self, Discipline};
use leasehold_shell::{BindError, process};

use crate::below::{self, Begins};
use crate::checks;
use crate::config::Plan;
use crate::control::{self, Request};
use crate::mountinfo::{self, Mount};
use crate::running;

/// How this machine is, as far as it concerns a server or a client.
pub(super) struct Facts {
    pub(super) ports: Vec<Port>,
    /// Whether a server with the same state directory answers.
    pub(super) is_running: bool,
    /// Directories that were replaced under the server.
    pub(super) replaced: Vec<PathBuf>,
    pub(super) telling: Telling,
    /// Whether something answers where a portmapper does.
    pub(super) has_portmapper: bool,
    pub(super) firewall: Firewall,
    /// How the clock is kept, where the kernel tells.
    pub(super) clock: Option<Discipline>,
    pub(super) powers: Powers,
    /// How many descriptors a process may have.
    pub(super) descriptors: usize,
    pub(super) places: Vec<Place>,
    /// What is mounted from NFS servers.
    pub(super) mounts: Vec<Mount>,
}

/// A port that is to be served on.
pub(super) struct Port {
    pub(super) address: SocketAddr,
    /// True if the server answers calls by UDP at the address.
    pub(super) with_udp: bool,
    /// What keeps it from being had, and what to do.
    pub(super) trouble: Option<String>,
}

/// How clients are to learn the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Telling {
    Nobody,
    Ourselves,
    Rpcbind,
}

/// The rules for what comes in.
pub(super) enum Firewall {
    /// They cannot be read, and why.
    Unknown(String),
    /// What a program says of them: its name, and its words.
    Rules(&'static str, String),
}

/// What the process may do.
pub(super) struct Powers {
    /// Act as any user.
    pub(super) acts_as_others: bool,
    /// Open what a handle names without a search.
    pub(super) opens_handles: bool,
}

/// A directory that is to be served, or to hold stripes.
pub(super) struct Place {
    pub(super) path: PathBuf,
    /// What it lies on.
    pub(super) mount: Option<Mount>,
    /// Whether a file system of ext4 has a journal; none where it is no ext4, or not told.
    pub(super) has_journal: Option<bool>,
    /// Free bytes and names, each of a hundred.
    pub(super) free_percent: Option<(u64, u64)>,
    /// Why it cannot be served.
    pub(super) refused: Option<String>,
    /// Where other file systems begin below.
    pub(super) begins: Vec<Begins>,
    /// True if clients enter these file systems.
    pub(super) crosses: bool,
}

/// How long a portmapper may take to take a connection.
const PATIENCE: Duration = Duration::from_secs(1);

impl Facts {
    /// Looks at this machine, for a server as planned.
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
            // What our own server has is not tried: it could not be had.
            ports: listen.into_iter().map(|address| port(address, with_udp, is_running)).collect(),
            is_running,
            replaced: state.map(running::replaced).unwrap_or_default(),
            telling: match plan.map(|plan| (plan.server.portmap(), plan.server.register)) {
                Some((Some(_), _)) => Telling::Ourselves,
                Some((None, true)) => Telling::Rpcbind,
                Some((None, false)) | None => Telling::Nobody,
            },
            has_portmapper: TcpStream::connect_timeout(&portmapper, PATIENCE).is_ok(),
            firewall: firewall(),
            clock: clock::discipline().ok(),
            powers: Powers {
                acts_as_others: process::can_act_as_others(),
                opens_handles: process::can_open_handles(),
            },
            descriptors: process::prepare(),
            places: directories.map(|(path, crosses)| place(path, crosses, &all)).collect(),
            mounts: all.into_iter().filter(Mount::is_nfs).collect(),
        }
    }
}

/// Tries a port, by stream and with `with_udp` by datagram, unless our server has the port.
fn port(address: SocketAddr, with_udp: bool, is_ours: bool) -> Port {
    let stream = || TcpListener::bind(address).map(drop);
    let datagram = || if with_udp { UdpSocket::bind(address).map(drop) } else { Ok(()) };
    let error = if is_ours { None } else { stream().and_then(|()| datagram()).err() };
    let trouble = error.map(|error| checks::address_advice(&BindError { address, error }));
    Port { address, with_udp, trouble }
}

fn firewall() -> Firewall {
    let mut why = "neither nft nor iptables is here".to_owned();
    for (program, words) in [("nft", &["list", "ruleset"][..]), ("iptables", &["-S"])] {
        // Not everybody has where they lie in the path.
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
                let first = text.lines().next().unwrap_or("it says nothing");
                why = format!("{program} cannot tell: {first}");
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

/// Whether a device's ext4 has a journal: one shows among those of the kernel then.
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
