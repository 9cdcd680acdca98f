//! The facts about the machine: only this module reads from it.

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use leasehold_base::limits::durations::PORTMAPPER_CONNECT_TIMEOUT;
use leasehold_fs::Verifier;
use leasehold_shell::clock::{self, Discipline};
use leasehold_shell::{BindError, Pool, process};
use leasehold_store_dir::{self as dir, DirStore};

use crate::below::{self, Begins};
use crate::mountinfo::{self, Mount};

/// The server to examine: its plan, and the state of its running process.
pub struct Planned {
    /// The addresses to serve on; empty if no server is planned.
    pub listen: Vec<SocketAddr>,
    /// True if the server answers calls by UDP.
    pub with_udp: bool,
    /// The method by which clients learn the server's ports.
    pub telling: Telling,
    /// The directories to serve, and the directories for stripes.
    pub directories: Vec<Directory>,
    /// True if a server with the same state directory replies.
    pub is_running: bool,
    /// Directories that were replaced while the server had them open.
    pub replaced: Vec<PathBuf>,
    /// The notice of a server that does not serve version 4 of NFS although its options request it.
    pub lacks_v4: Option<&'static str>,
    /// Describes the error that prevents serving on an address, and its remedy.
    pub advice: fn(&BindError) -> String,
}

/// A directory to serve, or for stripes.
pub struct Directory {
    /// The directory.
    pub path: PathBuf,
    /// True if the export lets clients enter the file systems that are mounted below the directory.
    pub crosses: bool,
}

/// The state of this machine, as far as it concerns a server or a client.
pub struct Facts {
    pub(crate) ports: Vec<Port>,
    /// True if a server with the same state directory replies.
    pub(crate) is_running: bool,
    /// Directories that were replaced while the server had them open.
    pub(crate) replaced: Vec<PathBuf>,
    pub(crate) lacks_v4: Option<&'static str>,
    pub(crate) telling: Telling,
    /// True if a program accepts connections on the portmapper's port.
    pub(crate) has_portmapper: bool,
    pub(crate) firewall: Firewall,
    /// The state of the clock, if the kernel reports it.
    pub(crate) clock: Option<Discipline>,
    pub(crate) powers: Powers,
    /// The process's limit on descriptors.
    pub(crate) descriptors: usize,
    pub(crate) places: Vec<Place>,
    /// The mounts from NFS servers.
    pub(crate) mounts: Vec<Mount>,
}

/// A port to serve on.
pub(crate) struct Port {
    pub(crate) address: SocketAddr,
    /// True if the server answers calls by UDP at the address.
    pub(crate) with_udp: bool,
    /// The reason why the server cannot use the port, and the remedy.
    pub(crate) trouble: Option<String>,
}

/// The method by which clients learn the server's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// Clients do not learn the ports.
    Nobody,
    /// By the server's own portmapper.
    Ourselves,
    /// By the rpcbind of the machine.
    Rpcbind,
}

/// The firewall rules for incoming packets.
pub(crate) enum Firewall {
    /// The rules cannot be read; the text has the reason.
    Unknown(String),
    /// The name of the program that printed the rules, and its output.
    Rules(&'static str, String),
}

/// The capabilities of the process.
pub(crate) struct Powers {
    /// True if the process can act as any user.
    pub(crate) acts_as_others: bool,
    /// True if the process can open an object by its kernel handle, without a search for its path.
    pub(crate) opens_handles: bool,
    /// Take kernel leases on files of any user.
    pub(crate) takes_leases: bool,
}

/// A directory to serve, or for stripes.
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    /// The mount that contains the directory.
    pub(crate) mount: Option<Mount>,
    /// True if the ext4 file system has a journal; `None` for other file systems, or if unknown.
    pub(crate) has_journal: Option<bool>,
    /// The free bytes and the free inodes, each in percent of the total.
    pub(crate) free_percent: Option<(u64, u64)>,
    /// The reason why the server cannot serve the directory.
    pub(crate) refused: Option<String>,
    /// The directories below at which other file systems are mounted.
    pub(crate) begins: Vec<Begins>,
    /// True if the export lets clients enter these file systems.
    pub(crate) crosses: bool,
}

impl Facts {
    /// Collects the facts of this machine, for a planned server.
    #[must_use]
    pub fn gather(planned: Planned) -> Self {
        let all = mountinfo::read();
        let Planned {
            listen,
            with_udp,
            telling,
            directories,
            is_running,
            replaced,
            lacks_v4,
            advice,
        } = planned;
        // If the server already runs, its ports are in use: do not try to bind its addresses.
        let port = |address| port(address, with_udp, is_running, advice);
        let portmapper = SocketAddr::from(([127, 0, 0, 1], leasehold_portmap::PORT));
        Self {
            ports: listen.into_iter().map(port).collect(),
            is_running,
            replaced,
            lacks_v4,
            telling,
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
            places: directories.iter().map(|one| place(&one.path, one.crosses, &all)).collect(),
            mounts: all.into_iter().filter(Mount::is_nfs).collect(),
        }
    }
}

/// Opens a directory as a server does, to inspect it without changes.
///
/// # Errors
/// A server cannot serve the directory.
pub fn opened_to_look(directory: &Path) -> Result<DirStore, dir::OpenError> {
    let options = dir::Options {
        blocking: Arc::new(Pool::new()),
        verifier: Verifier([0; 8]),
        durability: dir::Durability::Memory,
        descriptors_max: 64,
        handles: dir::HandleSource::Probe,
    };
    DirStore::open(directory, options)
}

/// Tries to bind a port, for TCP and with `with_udp` for UDP; skips the attempt if `is_ours`,
/// because the running server then uses the port.
fn port(
    address: SocketAddr,
    with_udp: bool,
    is_ours: bool,
    advice: fn(&BindError) -> String,
) -> Port {
    let stream = || TcpListener::bind(address).map(drop);
    let datagram = || if with_udp { UdpSocket::bind(address).map(drop) } else { Ok(()) };
    let error = if is_ours { None } else { stream().and_then(|()| datagram()).err() };
    let trouble = error.map(|error| advice(&BindError { address, error }));
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
        refused: opened_to_look(path).err().map(|error| error.to_string()),
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
