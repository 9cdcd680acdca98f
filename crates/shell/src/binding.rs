//! The client of a binding database: looks up servers, and registers the server of this process
//! (`spec/binding.x`).

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_base::limits::durations::NAME_SERVICE_TIMEOUT;
use leasehold_wire::binding::{
    Bound, Claim, Identifier, Name, PROGRAM, Status, VERSION, list, lookup, register, withdraw,
};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

use crate::caller::{Caller, read};
use crate::client::SourcePort;
use crate::periodic::Periodic;

/// The interval of registrations (rule 7).
const RENEWAL: Duration = Duration::from_secs(20);

/// The address of a binding database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// The host name, or an address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The location of a server that is bound to a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The name.
    pub name: String,
    /// The unique identifier of the server.
    pub identifier: Identifier,
    /// The address.
    pub address: SocketAddr,
}

impl Located {
    /// Converts a reply if all its fields are valid. The reply comes from an untrusted server, and
    /// programs show its texts to users.
    fn of(bound: &Bound<'_>) -> Option<Self> {
        let name = core::str::from_utf8(bound.name.0).ok()?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        let port = u16::try_from(bound.port).ok().filter(|port| *port != 0)?;
        let host = bound.host.0;
        // A link-local address is useless without its link, which the reply does not contain, so
        // the function rejects such an address.
        let is_of_link = matches!(host, IpAddr::V6(host) if host.is_unicast_link_local());
        let is_host = !host.is_unspecified() && !host.is_multicast() && !is_of_link;
        let address = SocketAddr::new(host, port);
        (is_name && is_host).then(|| Self {
            name: name.to_owned(),
            identifier: bound.identifier,
            address,
        })
    }
}

impl Database {
    /// Returns the server that is bound to a name; `None` if the database has no such name.
    ///
    /// # Errors
    /// The database does not answer.
    pub fn lookup(&self, name: &str) -> io::Result<Option<Located>> {
        let results = self.ask()?.call(lookup::NUMBER, &Name(name.as_bytes()))?;
        let found: lookup::Reply<'_> = read(&results)?;
        Ok(found.as_ref().and_then(Located::of))
    }

    /// Returns all servers in the database.
    ///
    /// # Errors
    /// The database does not answer.
    pub fn list(&self) -> io::Result<Vec<Located>> {
        let results = self.ask()?.call(list::NUMBER, &())?;
        let all: list::Reply<'_> = read(&results)?;
        Ok(all.0.iter().filter_map(Located::of).collect())
    }

    fn ask(&self) -> io::Result<Caller> {
        self.first(|address| TcpStream::connect_timeout(&address, NAME_SERVICE_TIMEOUT))
    }

    /// Connects to the first reachable address of the database.
    fn first(&self, connect: impl Fn(SocketAddr) -> io::Result<TcpStream>) -> io::Result<Caller> {
        let mut failed = io::Error::new(ErrorKind::NotFound, "the host has no address");
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match connect(address) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(NAME_SERVICE_TIMEOUT))?;
                    stream.set_write_timeout(Some(NAME_SERVICE_TIMEOUT))?;
                    return Ok(Caller::new(stream, PROGRAM, VERSION));
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

/// The registration of a server under a name. The drop of the value ends the registration.
pub struct Binding {
    renewal: Periodic,
    owner: Arc<Mutex<Owner>>,
}

impl Binding {
    /// Registers a server at these addresses under a name, and repeats the registration until the
    /// value is dropped. Logs the reason of a failure.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn begin(
        database: Database,
        name: String,
        identifier: Identifier,
        served: &[SocketAddr],
    ) -> io::Result<Self> {
        let served = served.to_vec();
        let mut owner = Owner { database, name, identifier, served, standing: Standing::New };
        owner.register();
        let owner = Arc::new(Mutex::new(owner));
        let renewed = Arc::clone(&owner);
        let renew = move || renewed.lock().unwrap_or_else(PoisonError::into_inner).register();
        Ok(Self { renewal: Periodic::start("binding", RENEWAL, renew)?, owner })
    }

    /// Removes the registration at once if the database answers.
    pub fn withdraw(self) {
        drop(self.renewal);
        self.owner.lock().unwrap_or_else(PoisonError::into_inner).withdraw();
    }
}

/// A server that owns a name in a binding database.
struct Owner {
    database: Database,
    name: String,
    identifier: Identifier,
    served: Vec<SocketAddr>,
    standing: Standing,
}

/// The result of the last registration.
#[derive(PartialEq, Eq)]
enum Standing {
    New,
    Bound,
    Unbound(String),
}

impl Owner {
    /// Registers the server, and logs the result if it differs from the previous result.
    fn register(&mut self) {
        let standing = match self.try_to_register() {
            Ok(Status::Ok) => Standing::Bound,
            Ok(status) => Standing::Unbound(advice(status).to_owned()),
            Err(error) => Standing::Unbound(error.to_string()),
        };
        if standing == self.standing {
            return;
        }
        let (name, database) = (&self.name, &self.database);
        match &standing {
            Standing::Unbound(why) => {
                tracing::warn!(name, %database, "the server is not bound to its name: {why}");
            }
            Standing::New | Standing::Bound => tracing::info!(name, %database, "bound to its name"),
        }
        self.standing = standing;
    }

    fn try_to_register(&self) -> io::Result<Status> {
        let (mut caller, port) = self.connect()?;
        read(&caller.call(register::NUMBER, &self.claim(port))?)
    }

    fn withdraw(&self) {
        if self.standing != Standing::Bound {
            return;
        }
        let withdrawn = self.connect().and_then(|(mut caller, port)| {
            let results = caller.call(withdraw::NUMBER, &self.claim(port))?;
            read::<withdraw::Reply>(&results)
        });
        if let Err(error) = withdrawn {
            let (name, database) = (&self.name, &self.database);
            tracing::warn!(name, %database, %error, "the name stays bound for its term");
        }
    }

    fn claim(&self, port: u16) -> Claim<'_> {
        let name = Name(self.name.as_bytes());
        Claim { name, identifier: self.identifier, port: port.into() }
    }

    /// Connects from an address at which the server serves, because the database binds the source
    /// address to the name. Returns the port of the server at that address (rule 5).
    fn connect(&self) -> io::Result<(Caller, u16)> {
        let mut failed = io::Error::new(ErrorKind::NotFound, "the server serves no address");
        for served in &self.served {
            let connect = |to| connect(served.ip(), to);
            match self.database.first(connect) {
                Ok(caller) => return Ok((caller, served.port())),
                Err(error) => failed = error,
            }
        }
        let text = format!("cannot connect from a served address: {failed}");
        Err(io::Error::new(failed.kind(), text))
    }
}

/// Connects from an address of this machine, and from a privileged port if the process may use one.
fn connect(from: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    if from.is_ipv4() != to.is_ipv4() {
        return Err(io::Error::new(ErrorKind::AddrNotAvailable, "another address family"));
    }
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = SourcePort::PrivilegedIfPossible.open(|port| {
        let socket = net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // In Linux the send timeout also limits the time of the connection attempt.
        sockopt::set_socket_timeout(&socket, Timeout::Send, Some(NAME_SERVICE_TIMEOUT))?;
        // With this option a former connection in TIME_WAIT does not block the port.
        sockopt::set_socket_reuseaddr(&socket, true)?;
        net::bind(&socket, &SocketAddr::new(from, port.unwrap_or(0)))?;
        net::connect(&socket, &to).map_err(|error| match error {
            Errno::INPROGRESS => Errno::TIMEDOUT,
            error => error,
        })?;
        Ok(socket)
    })?;
    Ok(TcpStream::from(socket))
}

/// Returns a text with the meaning of a status and the remedy.
fn advice(status: Status) -> &'static str {
    match status {
        Status::Ok => "the name is bound",
        Status::Wrong => "the name has other characters than letters, digits, '.', '-' and '_'",
        Status::Taken => "another server has the name, until a minute after its end",
        Status::Full => "the database has no room for more names, or for more names of this host",
        Status::Refused => {
            "the database accepts root and its own user locally, and ports below 1024 elsewhere"
        }
    }
}

#[cfg(test)]
mod tests {
    use core::num::NonZeroUsize;
    use std::net::TcpListener;

    use leasehold_names::Names;
    use leasehold_wire::binding::Host;

    use super::*;
    use crate::limits::STALL_MAX;
    use crate::server::{Options, Running, Server};

    /// A database in this process that accepts all registrations.
    fn database() -> (Running, Database) {
        let options = Options {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            loops: NonZeroUsize::MIN,
            connections_max: 16,
            connections_of_client_max: None,
            stall_max: STALL_MAX,
            policy: None,
            replies_in_turn: false,
            datagrams: true,
        };
        let server = Server::bind(options).expect("a free port");
        let port = server.addresses()[0].port();
        let running = server.start(Arc::new(Names::new(true))).expect("threads");
        (running, Database { host: "127.0.0.1".into(), port })
    }

    #[test]
    fn registration_succeeds_once_a_database_answers() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = silent.local_addr().expect("bound").port();
        drop(silent);
        let away = Database { host: "127.0.0.1".into(), port };
        let mut owner = Owner {
            database: away.clone(),
            name: "files".into(),
            identifier: [7; 16],
            served: vec![SocketAddr::from(([127, 0, 0, 1], 2049))],
            standing: Standing::New,
        };
        owner.register();
        assert!(matches!(owner.standing, Standing::Unbound(_)), "the database is down");
        // Each database begins empty, like a database after a restart, so the server must register
        // again.
        for _ in 0..2 {
            let (running, database) = database();
            owner.database = database.clone();
            owner.register();
            assert!(owner.standing == Standing::Bound);
            let found = database.lookup("FILES").expect("it answers").expect("the name is bound");
            assert_eq!((found.identifier, found.address), ([7; 16], owner.served[0]));
            assert_eq!(database.list().expect("it answers"), [found]);
            owner.withdraw();
            assert_eq!(database.lookup("files").expect("it answers"), None);
            running.stop(Duration::from_secs(1));
        }
        owner.database = away;
        owner.register();
        assert!(matches!(owner.standing, Standing::Unbound(_)), "it is gone again");
    }

    #[test]
    fn invalid_replies_are_rejected() {
        let host = Host([192, 0, 2, 1].into());
        let good = Bound { name: Name(b"files"), identifier: [7; 16], host, port: 2049 };
        let located = Located::of(&good).expect("is good");
        assert_eq!((&*located.name, located.address.port()), ("files", 2049));
        for bad in [
            Bound { name: Name(b""), ..good },
            Bound { name: Name(b"a\x1b[2J"), ..good },
            Bound { name: Name(b"a b"), ..good },
            Bound { name: Name(b"\xff"), ..good },
            Bound { host: Host([0; 4].into()), ..good },
            Bound { host: Host([224, 0, 0, 1].into()), ..good },
            Bound { host: Host([0xfe80, 0, 0, 0, 0, 0, 0, 1].into()), ..good },
            Bound { port: 0, ..good },
            Bound { port: 65_536, ..good },
        ] {
            assert_eq!(Located::of(&bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_database_is_written_with_its_port() {
        let written = |host: &str| Database { host: host.into(), port: 99 }.to_string();
        assert_eq!((written("names"), written("::1")), ("names:99".into(), "[::1]:99".into()));
    }
}
