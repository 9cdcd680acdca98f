//! Malicious or numerous clients: memory stays bounded, the log reports the problem once, and the
//! server continues to serve other clients.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, bind, connect, socket, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::{Home, NFS, Serving, TIMEOUT, address, call, over_stream, root, success};

const GETATTR: u32 = 1;
const LOOKUP: u32 = 3;
const READ: u32 = 6;

/// The longest wait of an honest client for a reply: far above its wait on a busy machine, and far
/// below its wait behind the attackers.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The memory limit with many clients that need little, in MiB.
const SMALL: u64 = 64;

/// The memory limit with incomplete records, or with unread replies: 256 MiB for each of the two
/// threads, and the base memory.
const LARGE: u64 = 2 * 256 + 128;

/// One test at a time: all tests share the descriptors of this process.
static TURN: Mutex<()> = Mutex::new(());

/// A server, and its log.
struct Attacked {
    serving: Serving,
    home: Home,
    address: SocketAddr,
    root: Vec<u8>,
    start: Instant,
    _turn: MutexGuard<'static, ()>,
}

impl Attacked {
    fn new() -> Self {
        // A failed test must not fail others.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        raise_limit();
        let home = Home::new();
        let log = File::create(home.path("log")).unwrap();
        let serving = Serving::logging(home.command(&["--json", "--threads", "2"]), log.into());
        let ready = serde_json::from_str(&serving.line()).unwrap();
        let address = address(&ready);
        let root = root(address);
        Self { serving, home, address, root, start: Instant::now(), _turn: turn }
    }

    /// Connects from a separate address, which the honest client does not use.
    fn connect(&self) -> TcpStream {
        self.try_connect().unwrap()
    }

    fn try_connect(&self) -> std::io::Result<TcpStream> {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        // The ports must not all be in use by recent connections.
        let [_, _, high, low] = self.serving.child.id().to_be_bytes();
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &SocketAddr::from((Ipv4Addr::new(127, 66, high, low), 0)))?;
        connect(&socket, &self.address)?;
        // Thousands of ports must not stay in use for a minute after the test.
        sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(stream)
    }

    /// Returns a GETATTR of the root, as a record.
    fn getattr(&self) -> Vec<u8> {
        let handle = [&32_u32.to_be_bytes()[..], &self.root].concat();
        record(&call(NFS, GETATTR, &handle))
    }

    /// Checks that the honest client and a new client were served, that the server's memory stayed
    /// below the limit in MiB, and that it logged the problem at a limited rate.
    fn is_well(&self, honest: Honest, memory_max: u64, warning: Option<&str>) {
        honest.was_served();
        assert!(over_stream(self.address, &call(NFS, 0, &[])).starts_with(&success()));
        let status = fs::read_to_string(format!("/proc/{}/status", self.serving.child.id()));
        let status = status.unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        let memory = line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024;
        assert!(memory <= memory_max, "it held {memory} MiB");
        let log = fs::read_to_string(self.home.path("log")).unwrap();
        let lines: Vec<_> = log.lines().filter(|line| line.contains(" WARN ")).collect();
        assert!(warning.is_none_or(|text| lines.iter().any(|line| line.contains(text))), "{log}");
        // At most one line per second of each kind, and a few kinds.
        let lines_max = 4 + 2 * self.start.elapsed().as_secs();
        assert!(lines.len() as u64 <= lines_max, "{log}");
    }

    /// Starts an honest client.
    fn honest(&self) -> Honest {
        let (address, message) = (self.address, self.getattr());
        let over = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            let (mut count, mut longest) = (0, Duration::ZERO);
            while !end.load(Ordering::Relaxed) || count < 10 {
                let start = Instant::now();
                stream.write_all(&message).unwrap();
                assert!(receive(&mut stream).starts_with(&success()));
                longest = longest.max(start.elapsed());
                count += 1;
                thread::sleep(Duration::from_millis(1));
            }
            (count, longest)
        });
        Honest { over, thread }
    }
}

/// A client that reads the root's attributes repeatedly.
struct Honest {
    over: Arc<AtomicBool>,
    thread: JoinHandle<(u32, Duration)>,
}

impl Honest {
    /// Ends the client and checks that it was always served.
    fn was_served(self) {
        self.over.store(true, Ordering::Relaxed);
        let (count, longest) = self.thread.join().unwrap();
        assert!(longest < WAIT_MAX, "the slowest of {count} answers took {longest:?}");
    }
}

/// Raises the limit on descriptors to the system's maximum; the server does the same.
fn raise_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).unwrap();
    limit.maximum.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap())
}

fn record(message: &[u8]) -> Vec<u8> {
    let mark = 0x8000_0000 | u32::try_from(message.len()).unwrap();
    [&mark.to_be_bytes(), message].concat()
}

/// Receives the next record of a stream.
fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).unwrap();
    let mut reply = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut reply).unwrap();
    reply
}

#[test]
fn a_thousand_busy_connections() {
    let server = Attacked::new();
    let honest = server.honest();
    let mut streams: Vec<_> = (0..1000).map(|_| server.connect()).collect();
    let batch = server.getattr().repeat(16);
    for _ in 0..5 {
        for stream in &mut streams {
            stream.write_all(&batch).unwrap();
        }
        for stream in &mut streams {
            for _ in 0..16 {
                assert!(receive(stream).starts_with(&success()));
            }
        }
    }
    server.is_well(honest, SMALL, None);
}

#[test]
fn ten_thousand_idle_connections() {
    let server = Attacked::new();
    let honest = server.honest();
    // Fewer connections if the machine's limit for a process is lower.
    let limit = raise_limit();
    let wanted = 10_500.min(limit * 3 / 5);
    let streams: Vec<_> = (0..wanted).filter_map(|_| server.try_connect().ok()).collect();
    assert!(streams.len() + 10 > wanted.min(limit / 2), "{} of {wanted}", streams.len());
    let is_full = wanted > limit / 2;
    server.is_well(honest, SMALL, is_full.then_some("too many connections"));
}

#[test]
fn slow_senders() {
    let server = Attacked::new();
    let honest = server.honest();
    let mut streams: Vec<_> = (0..500).map(|_| server.connect()).collect();
    // The head of a record of a mebibyte, and one byte of it at a time.
    for stream in &mut streams {
        stream.write_all(&0x8010_0000_u32.to_be_bytes()).unwrap();
    }
    for _ in 0..20 {
        for stream in &mut streams {
            stream.write_all(b"x").unwrap();
        }
    }
    server.is_well(honest, SMALL, None);
}

#[test]
fn huge_marks() {
    let server = Attacked::new();
    let honest = server.honest();
    for mark in [0xffff_ffff_u32, 0x7fff_ffff, 0x8020_0000, 0x0020_0000].repeat(250) {
        let mut stream = server.connect();
        stream.write_all(&mark.to_be_bytes()).unwrap();
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "it is closed");
    }
    server.is_well(honest, SMALL, Some("its client sends more than the largest message"));
}

#[test]
fn endless_fragments() {
    let server = Attacked::new();
    let honest = server.honest();
    for fragment in [&[0, 0, 0, 0][..], &[0, 0, 0, 1, 7]] {
        for _ in 0..100 {
            let mut stream = server.connect();
            let endless = fragment.repeat(10_000);
            // The server may close the connection before all is sent.
            let sent = stream.write_all(&endless);
            let mut rest = [0; 1];
            match stream.read(&mut rest) {
                Ok(count) => assert_eq!(count, 0),
                Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{sent:?}"),
            }
        }
    }
    server.is_well(honest, SMALL, Some("its client sends fragments without end"));
}

#[test]
fn records_that_never_end() {
    let server = Attacked::new();
    let honest = server.honest();
    let mut part = 0x000f_ffff_u32.to_be_bytes().to_vec();
    part.resize(4 + 0xf_ffff, 7);
    let mut streams = Vec::new();
    for _ in 0..1500 {
        let mut stream = server.connect();
        // The server may close this connection.
        let _ = stream.write_all(&part);
        streams.push(stream);
    }
    server.is_well(honest, LARGE, Some("its client holds resources that others need"));
}

#[test]
fn clients_that_disconnect_silently() {
    let server = Attacked::new();
    let honest = server.honest();
    let handle = [&32_u32.to_be_bytes()[..], &server.root].concat();
    let read = record(&call(NFS, READ, &[&handle[..], &[0; 12]].concat()));
    for at in 0..2000 {
        let mut stream = server.connect();
        stream.write_all(&read[..read.len() - at % 2]).unwrap();
        if at % 4 < 2 {
            // The connection closes orderly, without a reset.
            sockopt::set_socket_linger(&stream, None).unwrap();
        }
    }
    server.is_well(honest, SMALL, None);
}

#[test]
fn datagrams_of_nonsense() {
    let server = Attacked::new();
    let honest = server.honest();
    let socket = UdpSocket::bind("127.66.6.6:0").unwrap();
    for length in (0..20_000).map(|number| number % 1400) {
        socket.send_to(&vec![7; length], server.address).unwrap();
    }
    server.is_well(honest, SMALL, None);
}

#[test]
fn unread_replies() {
    let server = Attacked::new();
    fs::write(server.home.path("data/file"), vec![7; 1 << 20]).unwrap();
    let lookup = [&32_u32.to_be_bytes()[..], &server.root, &4_u32.to_be_bytes(), b"file"].concat();
    let found = over_stream(server.address, &call(NFS, LOOKUP, &lookup));
    let handle = &found[success().len() + 4..][..36];
    let whole = [handle, &0_u64.to_be_bytes(), &(1_u32 << 20).to_be_bytes()].concat();
    let batch = record(&call(NFS, READ, &whole)).repeat(8);
    let honest = server.honest();
    let mut deaf = Vec::new();
    for _ in 0..800 {
        let mut stream = server.connect();
        let _ = stream.write_all(&batch);
        deaf.push(stream);
    }
    server.is_well(honest, LARGE, Some("its client holds resources that others need"));
}
