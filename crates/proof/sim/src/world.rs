//! A world of one server: its hosts, its links and its events.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use bytes::Bytes;
use leasehold_base::random::Random;
use leasehold_base::units::Time;
use leasehold_core::calls::Carrier;

use crate::client::{Client, PROGRAM_COUNT, Wish};
use crate::digest::Digest;
use crate::faults::{DOWN_MAX, DOWN_MIN, Faults, about, upto};
use crate::history::History;
use crate::network::{Direction, Link};
use crate::op::{Owner, Place};
use crate::queue::Queue;
use crate::server::{Server, Way};
use crate::{Broken, Options, Report};

/// The duration of the faults.
const FAULTS_TIME: Duration = Duration::from_secs(60);

/// The maximum time after the faults: twice the longest timeout of a call.
const HEALING_MAX: Duration = Duration::from_secs(1200);

/// The timeout of a connection attempt of a client.
const CONNECTING_MAX: Duration = Duration::from_secs(5);

/// The maximum delay after which the other end of a connection learns that the connection broke.
const NEWS_MAX: Duration = Duration::from_millis(100);

/// The port from which a client makes its first connection, and sends all its datagrams.
const PORT: u16 = 700;

/// An event of the world.
#[derive(Debug)]
enum Happening {
    ToServer {
        way: Way,
        from: SocketAddr,
        bytes: Bytes,
    },
    ToClient {
        way: Way,
        bytes: Bytes,
    },
    /// The request for a connection arrives at the server.
    Asked {
        connection: u64,
    },
    Accepted {
        connection: u64,
    },
    /// The timeout of a client's connection attempt expires.
    Tired {
        connection: u64,
    },
    /// A client learns that a connection is closed.
    ClientLost {
        connection: u64,
    },
    ServerLost {
        connection: u64,
    },
    Cut,
    Reset,
    Crash,
    Kill,
    Restart,
    Heal,
}

struct Host {
    client: Client,
    carrier: Carrier,
    address: SocketAddr,
    /// True if the client uses another port for each connection.
    changes_port: bool,
    link: Link,
    /// The newest connection of the client.
    connection: Option<u64>,
}

struct Connection {
    host: usize,
    from: SocketAddr,
    /// True if the client considers the connection open.
    client_open: bool,
    server_open: bool,
    accepted: bool,
    /// The arrival time of the last part that was sent to the server. Later parts must not arrive
    /// earlier.
    to_server: Time,
    to_client: Time,
}

pub(crate) struct World {
    now: Time,
    random: Random,
    faults: Faults,
    server: Server,
    hosts: Vec<Host>,
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    queue: Queue<Happening>,
    history: History,
    digest: Digest,
    trace: Option<Vec<String>>,
}

impl World {
    pub(crate) fn new(options: Options) -> Self {
        let mut random = Random::from_seed(options.seed);
        let host_count = 2 + u8::try_from(random.below(2)).expect("below two");
        let owners = (0..host_count * PROGRAM_COUNT).map(Owner::Program).chain([Owner::Shared]);
        let places: Vec<Place> =
            owners.flat_map(|owner| [Place::Folder(owner), Place::File(owner)]).collect();
        let server = Server::new(options.mutant, &places, &mut random);
        let one_address = random.one_in(3);
        let hosts = (0..host_count).map(|number| Host::draw(number, one_address, &mut random));
        let hosts = hosts.collect();
        let faults = Faults::draw(&mut random);
        let mut world = Self {
            now: Time::ZERO,
            random,
            faults,
            server,
            hosts,
            connections: BTreeMap::new(),
            next_connection: 0,
            queue: Queue::new(),
            history: History::default(),
            digest: Digest::new(),
            trace: options.trace.then(Vec::new),
        };
        world.tell(|| format!("{faults:?}"));
        world.schedule_fault(faults.cuts, Happening::Cut);
        world.schedule_fault(faults.resets, Happening::Reset);
        world.schedule_fault(faults.crashes, Happening::Crash);
        world.schedule_fault(faults.kills, Happening::Kill);
        world.queue.schedule(Time::ZERO + FAULTS_TIME, Happening::Heal);
        world
    }

    /// Runs the world to its end. Reports a broken promise if the world does not end in time.
    pub(crate) fn run(mut self) -> (History, Report, Option<Broken>) {
        let last = Time::ZERO + FAULTS_TIME + HEALING_MAX;
        while let Some(time) = self.next_time().filter(|time| *time <= last) {
            self.now = self.now.max(time);
            while self.queue.next_time().is_some_and(|time| time <= self.now)
                && let Some(happening) = self.queue.pop()
            {
                self.tell(|| format!("{happening:?}"));
                self.happen(happening);
                self.serve();
            }
            self.serve();
            for index in 0..self.hosts.len() {
                let wishes = self.hosts[index].client.wake(self.now, &mut self.history);
                self.fulfil(index, wishes);
            }
        }
        let ended = self.hosts.iter().all(|host| host.client.has_ended());
        let how = "programs do not end after the last fault".to_owned();
        let stuck = (!ended).then_some(Broken { promise: "progress", how });
        if let Some(trace) = &mut self.trace {
            trace.extend(self.history.ids().map(|id| self.history.tell(id)));
        }
        let report = Report {
            digest: self.digest.value(),
            operations: self.history.doings().len(),
            crashes: self.history.crashes(),
            kills: self.history.kills(),
            backups: 0,
            replaced: 0,
            trace: self.trace.unwrap_or_default(),
        };
        (self.history, report, stuck)
    }

    fn next_time(&self) -> Option<Time> {
        let clients = self.hosts.iter().filter_map(|host| host.client.next_wake());
        clients.chain(self.queue.next_time()).chain(self.server.next_wake()).min()
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::ToServer { way, from, bytes } => self.reach_server(way, from, &bytes),
            Happening::ToClient { way, bytes } => self.reach_client(way, &bytes),
            Happening::Asked { connection } => self.asked(connection),
            Happening::Accepted { connection } => self.accepted(connection),
            Happening::Tired { connection } if self.connections[&connection].accepted => {}
            Happening::Tired { connection } => self.client_lost(connection),
            Happening::ClientLost { connection } => self.client_lost(connection),
            Happening::ServerLost { connection } => self.server_lost(connection),
            Happening::Cut => {
                let (index, most) = (self.any_host(), self.faults.cut);
                self.hosts[index].link.cut(&mut self.random, self.now, most);
                self.schedule_fault(self.faults.cuts, Happening::Cut);
            }
            Happening::Reset => {
                let index = self.any_host();
                if let Some(connection) = self.hosts[index].connection {
                    self.break_connection(connection);
                }
                self.schedule_fault(self.faults.resets, Happening::Reset);
            }
            Happening::Crash => {
                self.crash("any");
                self.schedule_fault(self.faults.crashes, Happening::Crash);
            }
            Happening::Kill => {
                self.kill();
                self.schedule_fault(self.faults.kills, Happening::Kill);
            }
            Happening::Restart => self.server.start(self.now, &mut self.random),
            Happening::Heal => {
                self.faults = Faults::NONE;
                for host in &mut self.hosts {
                    host.link.heal();
                    host.client.end();
                }
            }
        }
    }

    /// Schedules the next fault of a kind, on average after the time `mean`. Schedules nothing
    /// after the world has healed.
    fn schedule_fault(&mut self, mean: Option<Duration>, fault: Happening) {
        if let Some(mean) = mean {
            let at = self.now + about(&mut self.random, mean);
            if at < Time::ZERO + FAULTS_TIME {
                self.queue.schedule(at, fault);
            }
        }
    }

    fn any_host(&mut self) -> usize {
        let count = u64::try_from(self.hosts.len()).expect("hosts are few");
        usize::try_from(self.random.below(count)).expect("hosts are few")
    }

    /// Lets the server continue its calls, and crash if a crash point was reached.
    fn serve(&mut self) {
        for (way, bytes) in self.server.run(self.now, &self.faults) {
            match way {
                Way::Datagram { client } => {
                    let link = &self.hosts[client].link;
                    let (random, faults) = (&mut self.random, &self.faults);
                    for at in link.datagram(random, faults, self.now, Direction::ToClient) {
                        let bytes = bytes.clone();
                        self.queue.schedule(at, Happening::ToClient { way, bytes });
                    }
                }
                Way::Stream { connection } => {
                    let at = self.segment(connection, Direction::ToClient);
                    self.queue.schedule(at, Happening::ToClient { way, bytes });
                }
            }
        }
        if let Some(point) = self.server.take_crash() {
            self.crash(&point);
        }
    }

    fn crash(&mut self, point: &str) {
        if !self.server.is_up() {
            return;
        }
        self.tell(|| format!("crash at {point}"));
        self.server.crash(&mut self.random);
        self.history.crash(self.now);
        self.down();
    }

    fn kill(&mut self) {
        if !self.server.is_up() {
            return;
        }
        let cut_short = self.server.kill(self.now).into_iter().filter_map(|(way, xid)| {
            let host = match way {
                Way::Datagram { client } => client,
                Way::Stream { connection } => self.connections[&connection].host,
            };
            self.hosts[host].client.op_of(xid)
        });
        let cut_short = cut_short.collect();
        self.tell(|| format!("killed in the middle of {cut_short:?}"));
        self.history.kill(self.now, cut_short);
        self.down();
    }

    /// Takes the server down, and schedules its restart. All its connections are lost.
    fn down(&mut self) {
        let down = DOWN_MIN + upto(&mut self.random, DOWN_MAX - DOWN_MIN);
        self.queue.schedule(self.now + down, Happening::Restart);
        for (number, connection) in &mut self.connections {
            if connection.server_open {
                connection.server_open = false;
                // Some clients learn at once that their connection is lost, and others only when
                // they call the restarted server.
                let news = upto(&mut self.random, down + NEWS_MAX);
                let lost = Happening::ClientLost { connection: *number };
                self.queue.schedule(self.now + news, lost);
            }
        }
    }

    fn reach_server(&mut self, way: Way, from: SocketAddr, bytes: &Bytes) {
        let open = match way {
            Way::Datagram { .. } => true,
            Way::Stream { connection } => self.connections[&connection].server_open,
        };
        if open && self.server.is_up() {
            self.server.receive(self.now, from, way, bytes);
        }
    }

    fn reach_client(&mut self, way: Way, bytes: &Bytes) {
        let index = match way {
            Way::Datagram { client } => client,
            Way::Stream { connection } if self.connections[&connection].client_open => {
                self.connections[&connection].host
            }
            Way::Stream { .. } => return,
        };
        let wishes = self.hosts[index].client.receive(self.now, bytes, &mut self.history);
        self.fulfil(index, wishes);
    }

    fn fulfil(&mut self, index: usize, wishes: Vec<Wish>) {
        for wish in wishes {
            match wish {
                Wish::Connect => self.connect(index),
                Wish::Send(bytes) => self.send(index, &bytes),
            }
        }
    }

    fn send(&mut self, index: usize, bytes: &Bytes) {
        let host = &self.hosts[index];
        match (host.carrier, host.connection) {
            (Carrier::Datagram, _) => {
                let (random, faults, from) = (&mut self.random, &self.faults, host.address);
                let way = Way::Datagram { client: index };
                for at in host.link.datagram(random, faults, self.now, Direction::ToServer) {
                    let bytes = bytes.clone();
                    self.queue.schedule(at, Happening::ToServer { way, from, bytes });
                }
            }
            (Carrier::Stream, Some(connection)) => {
                let from = self.connections[&connection].from;
                let at = self.segment(connection, Direction::ToServer);
                let (way, bytes) = (Way::Stream { connection }, bytes.clone());
                self.queue.schedule(at, Happening::ToServer { way, from, bytes });
            }
            (Carrier::Stream, None) => panic!("a stream call needs a connection"),
        }
    }

    /// Returns the arrival time of a part of a stream.
    fn segment(&mut self, connection: u64, direction: Direction) -> Time {
        let connection = self.connections.get_mut(&connection).expect("the connection exists");
        let link = &self.hosts[connection.host].link;
        let at = link.segment(&mut self.random, &self.faults, self.now, direction);
        let last = match direction {
            Direction::ToServer => &mut connection.to_server,
            Direction::ToClient => &mut connection.to_client,
        };
        *last = at.max(*last);
        *last
    }

    fn connect(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        let number = self.next_connection;
        self.next_connection += 1;
        let mut from = host.address;
        if host.changes_port {
            from.set_port(from.port() + u16::try_from(number).expect("worlds are short"));
        }
        if let Some(old) = host.connection.replace(number) {
            self.connections.get_mut(&old).expect("the connection exists").client_open = false;
        }
        let (to_server, to_client) = (self.now, self.now);
        let (client_open, server_open, accepted) = (true, false, false);
        self.connections.insert(
            number,
            Connection {
                host: index,
                from,
                client_open,
                server_open,
                accepted,
                to_server,
                to_client,
            },
        );
        let at = self.segment(number, Direction::ToServer);
        self.queue.schedule(at, Happening::Asked { connection: number });
        self.queue.schedule(self.now + CONNECTING_MAX, Happening::Tired { connection: number });
    }

    fn asked(&mut self, number: u64) {
        let index = self.connections[&number].host;
        let at = self.segment(number, Direction::ToClient);
        if !self.server.is_up() {
            self.queue.schedule(at, Happening::ClientLost { connection: number });
            return;
        }
        let older = self.connections.range(..number);
        let older = older.filter(|(_, older)| older.host == index && older.server_open);
        let older: Vec<u64> = older.map(|(older, _)| *older).collect();
        for connection in older {
            if self.hosts[index].changes_port {
                self.server_lost(connection);
            } else {
                // Two connections cannot use the same port at the same time. So the old connection
                // is closed, but its end at the server may learn this late.
                let at = self.now + upto(&mut self.random, NEWS_MAX);
                self.queue.schedule(at, Happening::ServerLost { connection });
            }
        }
        self.connections.get_mut(&number).expect("the connection exists").server_open = true;
        self.queue.schedule(at, Happening::Accepted { connection: number });
    }

    fn accepted(&mut self, number: u64) {
        let connection = self.connections.get_mut(&number).expect("the connection exists");
        if connection.client_open {
            connection.accepted = true;
            let index = connection.host;
            let wishes = self.hosts[index].client.connection(self.now, true);
            self.fulfil(index, wishes);
        }
    }

    fn break_connection(&mut self, number: u64) {
        let (first, second) = (upto(&mut self.random, NEWS_MAX), upto(&mut self.random, NEWS_MAX));
        self.queue.schedule(self.now + first, Happening::ClientLost { connection: number });
        self.queue.schedule(self.now + second, Happening::ServerLost { connection: number });
    }

    fn client_lost(&mut self, number: u64) {
        let connection = self.connections.get_mut(&number).expect("the connection exists");
        if connection.client_open {
            connection.client_open = false;
            let index = connection.host;
            let wishes = self.hosts[index].client.connection(self.now, false);
            self.fulfil(index, wishes);
        }
    }

    fn server_lost(&mut self, number: u64) {
        let connection = self.connections.get_mut(&number).expect("the connection exists");
        if connection.server_open {
            connection.server_open = false;
            self.server.connection_closed(connection.from, number);
        }
    }

    /// Adds a line to the digest, and to the trace if the options request a trace.
    fn tell(&mut self, line: impl FnOnce() -> String) {
        let line = line();
        self.digest.note(&self.now.as_nanoseconds().to_be_bytes());
        self.digest.note(line.as_bytes());
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:.6} {line}", self.now.since(Time::ZERO).as_secs_f64()));
        }
    }
}

impl Host {
    fn draw(number: u8, one_address: bool, random: &mut Random) -> Self {
        let carrier = if random.one_in(2) { Carrier::Datagram } else { Carrier::Stream };
        // If all clients have the same address, their ports differ.
        let last = if one_address { 1 } else { number + 1 };
        let port = PORT + u16::from(number) * 10_000;
        Self {
            client: Client::new(carrier, number * PROGRAM_COUNT, random),
            carrier,
            address: SocketAddr::from(([10, 0, 0, last], port)),
            changes_port: random.one_in(2),
            link: Link::default(),
            connection: None,
        }
    }
}
