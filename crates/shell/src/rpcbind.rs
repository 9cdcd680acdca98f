//! Telling the rpcbind of this machine where our programs are, and taking it back.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

use leasehold_portmap::Binding;
use leasehold_wire::portmap::rpcbind::{self, Text, VERSION_4, dump, set, unset};
use leasehold_wire::portmap::{PORT, PROGRAM};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

use crate::caller::{Caller, read};
use crate::client::SourcePort;

/// Where rpcbind listens for programs of its machine: there it knows their users.
const SOCKET: &str = "/run/rpcbind.sock";

/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What rpcbind was told; taken back when this is dropped.
#[derive(Debug)]
pub struct Registration {
    told: Vec<Entry>,
}

/// What rpcbind has one address of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    program: u32,
    version: u32,
    network: &'static str,
}

/// Why rpcbind could not be told.
#[derive(Debug)]
pub enum RegisterError {
    /// It does not run here.
    NotThere(io::Error),
    /// It did not answer as it should.
    Failed(io::Error),
    /// It has another address already, or will not take ours.
    Refused {
        /// What it was told: a program, its version and the network.
        what: String,
        /// Where that is already, and whose it is, as rpcbind has it.
        holder: Option<String>,
    },
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere(error) => {
                write!(f, "rpcbind answers neither at {SOCKET} nor at 127.0.0.1:{PORT}: {error}")
            }
            Self::Failed(error) => write!(f, "rpcbind did not answer as it should: {error}"),
            Self::Refused { what, holder: Some(holder) } => {
                write!(f, "rpcbind has {what} already, {holder}")
            }
            Self::Refused { what, holder: None } => write!(f, "rpcbind does not take {what}"),
        }
    }
}

impl std::error::Error for RegisterError {}

impl Registration {
    /// Tells rpcbind of these programs, all of them or none. It knows one address of a program in
    /// each network: that is the first.
    ///
    /// # Errors
    /// When rpcbind is not there, or will not have it.
    pub fn new(bindings: &[Binding]) -> Result<Self, RegisterError> {
        let mut first = BTreeMap::new();
        for binding in bindings {
            let entry = Entry {
                program: binding.program,
                version: binding.version,
                network: binding.network_name(),
            };
            first.entry(entry).or_insert(binding.address);
        }
        let mut rpcbind = Rpcbind::connect().map_err(RegisterError::NotThere)?;
        let mut registration = Self { told: Vec::new() };
        for (entry, address) in first {
            let taken = rpcbind.set(entry, address).map_err(RegisterError::Failed);
            if let Ok(true) = taken {
                registration.told.push(entry);
                continue;
            }
            let holder = rpcbind.holder(entry).unwrap_or_default();
            drop(registration);
            taken?;
            let Entry { program, version, network } = entry;
            let what = format!("program {program} version {version} over {network}");
            return Err(RegisterError::Refused { what, holder });
        }
        Ok(registration)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.told.is_empty() {
            return;
        }
        let taken_back = Rpcbind::connect().and_then(|mut rpcbind| {
            self.told.iter().try_for_each(|entry| rpcbind.unset(*entry).map(drop))
        });
        if let Err(error) = taken_back {
            tracing::warn!(%error, "rpcbind still tells of this server");
        }
    }
}

/// A connection to rpcbind.
struct Rpcbind(Caller);

impl Rpcbind {
    fn connect() -> io::Result<Self> {
        Ok(Self(match local(Path::new(SOCKET)) {
            Ok(stream) => Caller::new(stream, PROGRAM, VERSION_4),
            Err(_) => Caller::new(loopback()?, PROGRAM, VERSION_4),
        }))
    }

    fn set(&mut self, entry: Entry, address: SocketAddr) -> io::Result<bool> {
        let address = leasehold_portmap::universal(address);
        let taken = self.0.call(set::NUMBER, &entry.binding(&address))?;
        read(&taken)
    }

    fn unset(&mut self, entry: Entry) -> io::Result<bool> {
        let taken = self.0.call(unset::NUMBER, &entry.binding(""))?;
        read(&taken)
    }

    /// Where a program is by its list, and whose it is.
    fn holder(&mut self, entry: Entry) -> io::Result<Option<String>> {
        let results = self.0.call(dump::NUMBER, &())?;
        let list: dump::Reply<'_> = read(&results)?;
        let held = list.0.iter().find(|held| {
            (held.program, held.version) == (entry.program, entry.version)
                && held.network.0 == entry.network.as_bytes()
        });
        Ok(held.map(|held| {
            let (address, owner) = (held.address.0, held.owner.0);
            format!("at {} of {}", address.escape_ascii(), owner.escape_ascii())
        }))
    }
}

impl Entry {
    fn binding<'a>(&self, address: &'a str) -> rpcbind::Binding<'a> {
        rpcbind::Binding {
            program: self.program,
            version: self.version,
            network: Text(self.network.as_bytes()),
            address: Text(address.as_bytes()),
            // It finds out by itself.
            owner: Text(b""),
        }
    }
}

fn local(socket: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Over the loopback rpcbind takes a program's word only from a port that takes privilege.
fn loopback() -> io::Result<TcpStream> {
    // Without the privilege it will say no.
    let socket = SourcePort::PrivilegedIfPossible.open(|port| {
        let flags = SocketFlags::CLOEXEC;
        let socket = net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        if let Some(port) = port {
            net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], port)))?;
        }
        net::connect(&socket, &SocketAddr::from(([127, 0, 0, 1], PORT)))?;
        Ok(socket)
    })?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}
