//! The options with which clients find the server without its port: `--portmap` and `--register`.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use leasehold_portmap::{Binding, Carrier, PORT, PROGRAM, Portmapper, VERSIONS};
use leasehold_serve::table::PROGRAMS;
use leasehold_shell::inherited_sockets::{InheritedSockets, Purpose};
use leasehold_shell::{self as shell, BindError, RegisterError, Registration, Running, Server};
use leasehold_wire::nfs4;

use crate::config;
use crate::failure::{Failure, Kind};
use crate::restart::Sockets;

/// The maximum number of connections to the portmapper, and the time that a client may take for one
/// request. The values are small because each request has one short reply.
const CONNECTIONS_MAX: usize = 1024;
const STALL_MAX: Duration = Duration::from_secs(30);

/// The method by which clients will learn the server's ports, before the server starts to use the
/// method.
pub(crate) enum Telling {
    /// Clients do not learn the ports.
    Nobody,
    /// The server's own portmapper.
    Ourselves(Server, Vec<Binding>),
    /// The rpcbind of this machine.
    Rpcbind(Vec<Binding>),
}

/// The method by which clients learn the server's ports, while the server runs.
pub(crate) enum Told {
    Nobody,
    Ourselves(Running, Vec<SocketAddr>),
    Rpcbind(Registration),
}

/// The portmapper that clients query.
pub(crate) struct Found {
    /// The addresses of the server's own portmapper.
    pub(crate) portmap: Vec<SocketAddr>,
    /// True if clients find the server without options for ports.
    pub(crate) is_found: bool,
}

impl Telling {
    /// Binds the addresses of a portmapper for a server at `addresses`, if one is configured.
    pub(crate) fn prepare(
        options: &config::options::Server,
        addresses: &[SocketAddr],
        descriptors: usize,
        given: &mut InheritedSockets,
    ) -> Result<Self, Failure> {
        let (mut programs, versions) = (Vec::new(), options.versions());
        for program in PROGRAMS {
            let numbers = program.versions.iter().map(|version| version.number);
            let numbers = numbers.filter(|version| versions.serves(program.number, *version));
            programs.extend(bindings(program.number, numbers, addresses, options.carriers()));
        }
        if versions.has_v4() {
            // Version 4 needs a transport with congestion control (RFC 8881 2.9.1).
            let (program, version) = (nfs4::PROGRAM, [nfs4::VERSION]);
            programs.extend(bindings(program, version, addresses, &[Carrier::Stream]));
        }
        let Some(asked) = options.portmap() else {
            return Ok(if options.register { Self::Rpcbind(programs) } else { Self::Nobody });
        };
        // The portmapper listens on port 111 of each address of the server, unless an option sets
        // its address.
        let usual = addresses.iter().map(|address| SocketAddr::new(address.ip(), PORT));
        let listen: BTreeSet<_> = asked.map_or_else(|| usual.collect(), |one| [one].into());
        let carriers = options.carriers();
        let options = shell::Options {
            listen: listen.into_iter().collect(),
            loops: NonZeroUsize::MIN,
            connections_max: CONNECTIONS_MAX.min(descriptors / 8),
            connections_of_client_max: None,
            stall_max: STALL_MAX,
            policy: None,
            replies_in_turn: false,
            datagrams: options.answers_datagrams(),
        };
        let server = Server::bind_given(options, Purpose::Portmap, given)
            .map_err(|error| Kind::Address.because(advice(&error)))?;
        programs.extend(bindings(PROGRAM, VERSIONS, server.addresses(), carriers));
        Ok(Self::Ourselves(server, programs))
    }

    /// Starts the portmapper, or registers with rpcbind.
    pub(crate) fn start(self) -> Result<Told, Failure> {
        match self {
            Self::Nobody => Ok(Told::Nobody),
            Self::Ourselves(server, bindings) => {
                let addresses = server.addresses().to_vec();
                let portmapper = Portmapper::new(bindings, shell::clock::seconds_since_1970);
                let running = server.start(Arc::new(portmapper)).map_err(|error| {
                    Kind::Running.because(format!("cannot start the portmapper: {error}"))
                })?;
                Ok(Told::Ourselves(running, addresses))
            }
            Self::Rpcbind(bindings) => Registration::new(&bindings)
                .map(Told::Rpcbind)
                .map_err(|error| Kind::Address.because(register_advice(&error))),
        }
    }
}

impl config::options::Server {
    /// Returns the transports that the server accepts calls on.
    fn carriers(&self) -> &'static [Carrier] {
        match self.answers_datagrams() {
            true => &[Carrier::Stream, Carrier::Datagram],
            false => &[Carrier::Stream],
        }
    }
}

impl Told {
    /// Returns the portmapper that clients query.
    pub(crate) fn found(&self) -> Found {
        match self {
            Self::Nobody => Found { portmap: Vec::new(), is_found: false },
            Self::Ourselves(_, addresses) => Found {
                portmap: addresses.clone(),
                is_found: addresses.iter().any(|address| address.port() == PORT),
            },
            Self::Rpcbind(_) => Found { portmap: Vec::new(), is_found: true },
        }
    }

    /// Ends the portmapper, or removes the registration; keeps the portmapper's sockets for a
    /// restart.
    pub(crate) fn end(self, sockets: &mut Sockets) {
        match self {
            Self::Nobody => {}
            Self::Ourselves(running, _) => sockets.end(Purpose::Portmap, running),
            Self::Rpcbind(registration) => drop(registration),
        }
    }
}

/// Lists the versions of a program at each address and transport.
fn bindings(
    program: u32,
    versions: impl IntoIterator<Item = u32>,
    addresses: &[SocketAddr],
    carriers: &[Carrier],
) -> Vec<Binding> {
    let at = |version, carrier| {
        let at =
            move |address: &SocketAddr| Binding { program, version, carrier, address: *address };
        addresses.iter().map(at)
    };
    let by_each = |version| carriers.iter().flat_map(move |carrier| at(version, *carrier));
    versions.into_iter().flat_map(by_each).collect()
}

/// Describes the error that prevents the portmapper from using an address, and its remedy.
#[allow(clippy::wildcard_enum_match_arm, reason = "advice on the usual errors only")]
fn advice(failed: &BindError) -> String {
    let address = failed.address;
    match failed.error.kind() {
        ErrorKind::AddrInUse => format!(
            "{address} is in use, perhaps by rpcbind: register the server there with \
             --register instead of --portmap"
        ),
        ErrorKind::PermissionDenied => format!(
            "{address} requires privilege, like all ports below 1024: run as root, or omit \
             --portmap and mount with the printed port"
        ),
        _ => format!("the portmapper: {failed}"),
    }
}

fn register_advice(failed: &RegisterError) -> String {
    match failed {
        RegisterError::NotThere(_) => {
            format!("{failed}: start rpcbind, or use --portmap instead")
        }
        RegisterError::Refused { holder: Some(_), .. } => format!(
            "{failed}: stop the server; if it is gone, remove its entry with `rpcinfo -d PROGRAM \
             VERSION`"
        ),
        RegisterError::Refused { holder: None, .. } => {
            format!("{failed}: rpcbind may require root, or may not support that network")
        }
        RegisterError::Failed(_) => failed.to_string(),
    }
}
