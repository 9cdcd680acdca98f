//! Registers and unregisters the programs of this server at the local rpcbind.

use core::fmt;
use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

use leasehold_base::limits::durations::RPCBIND_TIMEOUT;
use leasehold_portmap::Binding;
use leasehold_wire::portmap::rpcbind::{self, Text, VERSION_4, dump, set, unset};
use leasehold_wire::portmap::{PORT, PROGRAM};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

use crate::caller::{Caller, read};
use crate::client::SourcePort;

/// The socket of rpcbind for local programs. Over this socket rpcbind can determine the user of a
/// program.
const SOCKET: &str = "/run/rpcbind.sock";

/// The registration of programs. The drop of the value unregisters them.
#[derive(Debug)]
pub struct Registration {
    told: Vec<Entry>,
}

/// The key of an entry of rpcbind, which has one address for each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    program: u32,
    version: u32,
    network: &'static str,
}

/// The reason why a registration failed.
#[derive(Debug)]
pub enum RegisterError {
    /// rpcbind does not run on this machine.
    NotThere(io::Error),
    /// rpcbind returned an error or an invalid reply.
    Failed(io::Error),
    /// rpcbind already has another address for the entry, or rejects the address of this server.
    Refused {
        /// The rejected entry: a program, its version and the network.
        what: String,
        /// The existing address and its owner, as rpcbind reports them.
        holder: Option<String>,
    },
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotThere(error) => {
                write!(f, "rpcbind answers neither at {SOCKET} nor at 127.0.0.1:{PORT}: {error}")
            }
            Self::Failed(error) => write!(f, "rpcbind returned an invalid reply or none: {error}"),
            Self::Refused { what, holder: Some(holder) } => {
                write!(f, "rpcbind has {what} already, {holder}")
            }
            Self::Refused { what, holder: None } => write!(f, "rpcbind rejects {what}"),
        }
    }
}

impl std::error::Error for RegisterError {}

impl Registration {
    /// Registers these programs, all or none. rpcbind has only one address of a program for each
    /// network, so the first address of each network is registered.
    ///
    /// # Errors
    /// rpcbind does not run, or rejects an entry.
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
            tracing::warn!(%error, "cannot remove this server from rpcbind");
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

    /// Returns the registered address and owner of a program.
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
            // rpcbind ignores this field and determines the owner itself.
            owner: Text(b""),
        }
    }
}

fn local(socket: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(RPCBIND_TIMEOUT))?;
    Ok(stream)
}

/// Connects to rpcbind over the loopback interface, where rpcbind accepts registrations only from a
/// privileged port.
fn loopback() -> io::Result<TcpStream> {
    // If the process may not use a privileged port, the connection uses any port, and rpcbind then
    // rejects the registration.
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
    stream.set_read_timeout(Some(RPCBIND_TIMEOUT))?;
    Ok(stream)
}
