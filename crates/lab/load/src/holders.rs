//! Clients of the lease program that hold leases beside a load.

use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use leasehold_wire::lease::{
    self, Answer, Caller, ClientName, Kind, Terms, goodbye, hello, leases,
};
use leasehold_wire::list::UpTo;
use leasehold_wire::nfs3::{DirectoryArgs, Handle, Name};

use crate::connection::{Connection, Program};
use crate::setting::{file_name, looked_up};
use crate::{Error, FILES, Setting};

const LEASES: Program = Program(lease::PROGRAM, lease::VERSION);

/// The number of clients of one source address. A server bounds the clients of one address.
const OF_ADDRESS: u32 = 400;

/// The requested term: the longest that a server grants.
const TERM_MS: u32 = 60_000;

/// The time for which a server may refuse leases, because earlier calls still run.
const GRANT_TIMEOUT: Duration = Duration::from_secs(10);

/// Clients on this machine, each with a read lease on a file of its own.
pub struct Holders {
    connections: Vec<Connection>,
    clients: Vec<Holder>,
}

struct Holder {
    connection: usize,
    id: [u8; 16],
    epoch: u64,
    file: Handle,
}

impl Holders {
    /// Registers clients, and requests their leases on files of a setting that no operation uses.
    /// The server must listen on an IPv4 address of this machine.
    ///
    /// # Errors
    /// A connection fails, or the server refuses a client or a lease.
    pub fn register(setting: &Setting, count: u32) -> Result<Self, Error> {
        let mut holders = Self { connections: Vec::new(), clients: Vec::new() };
        for number in 0..count {
            if number.is_multiple_of(OF_ADDRESS) {
                // Each address of 127.0.0.0/8 is an address of this machine.
                let [.., host] = (1 + number / OF_ADDRESS).to_be_bytes();
                let source = Ipv4Addr::new(127, 0, 0, host);
                holders.connections.push(Connection::open_from(source, setting.server)?);
            }
            let connection = holders.connections.len() - 1;
            let holder = holders.registered(setting, connection, number)?;
            holders.clients.push(holder);
        }
        holders.renew()?;
        Ok(holders)
    }

    /// Renews all leases.
    ///
    /// # Errors
    /// A connection fails, or the server refuses a lease.
    pub fn renew(&mut self) -> Result<(), Error> {
        for holder in &self.clients {
            let connection = &mut self.connections[holder.connection];
            let end = Instant::now() + GRANT_TIMEOUT;
            while !holder.is_granted(connection)? {
                if Instant::now() > end {
                    return Err(Error::Wrong("it grants no lease".to_owned()));
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(())
    }

    /// Ends all leases.
    ///
    /// # Errors
    /// A connection fails.
    pub fn end(mut self) -> Result<(), Error> {
        for holder in &self.clients {
            let connection = &mut self.connections[holder.connection];
            let _: goodbye::Reply = connection.call(LEASES, goodbye::NUMBER, &holder.caller())?;
        }
        Ok(())
    }

    fn registered(
        &mut self,
        setting: &Setting,
        connection: usize,
        number: u32,
    ) -> Result<Holder, Error> {
        let mut id = *b"load holder 0000";
        id[12..].copy_from_slice(&number.to_be_bytes());
        let stream = &mut self.connections[connection];
        let args = hello::Args { client: id, instance: 1, name: ClientName(b"load") };
        let answer: hello::Reply = stream.call(LEASES, hello::NUMBER, &args)?;
        let Answer::Done(lease::Done { results: hello::Welcome { epoch, .. }, .. }) = answer else {
            return Err(Error::Wrong(format!("HELLO: {answer:?}")));
        };
        let name = file_name(number % FILES);
        let place = DirectoryArgs { directory: setting.many, name: Name(&name) };
        Ok(Holder { connection, id, epoch, file: looked_up(stream, place)? })
    }
}

impl Holder {
    const fn caller(&self) -> Caller {
        Caller { client: self.id, instance: 1, epoch: self.epoch }
    }

    /// Requests the lease, and returns true if the client may cache the file.
    fn is_granted(&self, connection: &mut Connection) -> Result<bool, Error> {
        let terms = Terms { kind: Kind::Read, term_ms: TERM_MS, opportune: false, space: 0 };
        let args = leases::Args {
            caller: self.caller(),
            wanted: UpTo(vec![leases::Wanted { object: self.file, terms, reclaim: false }]),
            returned: UpTo(Vec::new()),
            progress: leases::Progress::Recovered,
        };
        let answer: leases::Reply = connection.call(LEASES, leases::NUMBER, &args)?;
        match &answer {
            Answer::Done(done) => Ok(done.results.held.0.iter().any(|held| held.grant.cachable)),
            Answer::Later => Ok(false),
            Answer::Epoch(_) | Answer::Instance(_) | Answer::Unknown | Answer::Late(_) => {
                Err(Error::Wrong(format!("LEASE: {answer:?}")))
            }
        }
    }
}
