//! Asking a binding database where servers are, and having our own known there (`spec/binding.x`).

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_wire::binding::{
    Bound, Claim, Identifier, Name, PROGRAM, Status, VERSION, list, lookup, register, withdraw,
};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

use crate::caller::{Caller, read};
use crate::client::SourcePort;
use crate::periodic::Periodic;

/// How long a database may take to connect, and to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often a server registers anew (rule 7).
const RENEWAL: Duration = Duration::from_secs(20);

/// A binding database, by its host's name or address and its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// The host, an address without brackets.
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

/// Where a server is that is bound to a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The name.
    pub name: String,
    /// What tells the server from every other.
    pub identifier: Identifier,
    /// The address.
    pub address: SocketAddr,
}

impl Located {
    /// What an answer says, if it makes sense: it is a stranger's, and is shown to people.
    fn of(bound: &Bound<'_>) -> Option<Self> {
        let name = core::str::from_utf8(bound.name.0).ok()?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        let port = u16::try_from(bound.port).ok().filter(|port| *port != 0)?;
        let host = bound.host.0;
        // An address of a link is of no use without the link.
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
    /// Where the server of a name is; nothing where the database knows none.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub fn lookup(&self, name: &str) -> io::Result<Option<Located>> {
        let results = self.ask()?.call(lookup::NUMBER, &Name(name.as_bytes()))?;
        let found: lookup::Reply<'_> = read(&results)?;
        Ok(found.as_ref().and_then(Located::of))
    }

    /// Where all servers are that it knows.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub fn list(&self) -> io::Result<Vec<Located>> {
        let results = self.ask()?.call(list::NUMBER, &())?;
        let all: list::Reply<'_> = read(&results)?;
        Ok(all.0.iter().filter_map(Located::of).collect())
    }

    fn ask(&self) -> io::Result<Caller> {
        self.first(|address| TcpStream::connect_timeout(&address, PATIENCE))
    }

    /// A connection to the first of its addresses that can be had.
    fn first(&self, connect: impl Fn(SocketAddr) -> io::Result<TcpStream>) -> io::Result<Caller> {
        let mut failed = io::Error::new(ErrorKind::NotFound, "the host has no address");
        for address in (self.host.as_str(), self.port).to_socket_addrs()? {
            match connect(address) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    return Ok(Caller::new(stream, PROGRAM, VERSION));
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

/// A server that is bound to a name, for as long as this is kept.
pub struct Binding {
    renewal: Periodic,
    owner: Arc<Mutex<Owner>>,
}

impl Binding {
    /// Has a server at these addresses bound to a name, from now on if that can be, and otherwise
    /// as soon as it can; what keeps it from that is logged.
    ///
    /// # Errors
    /// When there is no thread to be had.
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

    /// Ends it at once, where the database can be told.
    pub fn withdraw(self) {
        drop(self.renewal);
        self.owner.lock().unwrap_or_else(PoisonError::into_inner).withdraw();
    }
}

/// Whom a name is bound to.
struct Owner {
    database: Database,
    name: String,
    identifier: Identifier,
    served: Vec<SocketAddr>,
    standing: Standing,
}

/// What came of the last registration.
#[derive(PartialEq, Eq)]
enum Standing {
    New,
    Bound,
    Unbound(String),
}

impl Owner {
    /// Registers, and tells when that comes out otherwise than the last time.
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

    /// A connection from an address that is served on, because that is the one that is bound; and
    /// the port that is served there (rule 5).
    fn connect(&self) -> io::Result<(Caller, u16)> {
        let mut failed = io::Error::new(ErrorKind::NotFound, "no address is served on");
        for served in &self.served {
            let connect = |to| connect(served.ip(), to);
            match self.database.first(connect) {
                Ok(caller) => return Ok((caller, served.port())),
                Err(error) => failed = error,
            }
        }
        let text = format!("it cannot be reached from what is served on: {failed}");
        Err(io::Error::new(failed.kind(), text))
    }
}

/// Connects from an address of this machine, and a port that takes privilege where that can be had.
fn connect(from: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    if from.is_ipv4() != to.is_ipv4() {
        return Err(io::Error::new(ErrorKind::AddrNotAvailable, "another family of addresses"));
    }
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = SourcePort::PrivilegedIfPossible.open(|port| {
        let socket = net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // Connecting keeps to it, too.
        sockopt::set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
        // What faded away on that port is no hindrance.
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

/// What a refusal means, and what to do.
fn advice(status: Status) -> &'static str {
    match status {
        Status::Ok => "it is bound",
        Status::Wrong => "the name has other characters than letters, digits, '.', '-' and '_'",
        Status::Taken => "it is another server's, until a minute after that is gone",
        Status::Full => "the database has no room for more names, or none for more of this host",
        Status::Refused => {
            "the database believes root and its own user there, and a port below 1024 elsewhere"
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

    /// A database of this process, which believes all.
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
    fn a_server_is_bound_as_soon_as_it_can_be() {
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
        assert!(matches!(owner.standing, Standing::Unbound(_)), "nobody is there");
        // The second is as the first would be behind a restart: it has forgotten all.
        for _ in 0..2 {
            let (running, database) = database();
            owner.database = database.clone();
            owner.register();
            assert!(owner.standing == Standing::Bound);
            let found = database.lookup("FILES").expect("it answers").expect("it is bound");
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
    fn what_makes_no_sense_is_not_taken() {
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
