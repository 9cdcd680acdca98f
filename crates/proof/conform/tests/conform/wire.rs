//! A proxy between the tester and a correct server, with one fault in its handling of records,
//! connections or datagrams.
//!
//! It is one loop in one thread, which handles its sockets in turn: a connection that blocks the
//! loop blocks all others, as in a server with such a design.

#![allow(clippy::wildcard_enum_match_arm, reason = "each place handles only its own faults")]

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A fault before a call is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Each fragment counts as a record.
    FragmentsAreRecords,
    /// A record that does not come in one piece ends its connection.
    OnePiece,
    /// Bytes after a record in the same piece are lost.
    OneRecordAPiece,
    /// The loop handles no other connection before a record is complete.
    HalfHoldsAll,
    /// The loop handles no other connection before a client has read all replies.
    UnreadHoldsAll,
    /// A connection is closed after this number of calls.
    Calls(usize),
    /// No more connections than this are served at a time.
    Connections(usize),
    /// No more connections than this are ever served.
    ConnectionsEver(usize),
    /// The end of the calls is the end of the connection.
    EndOfCallsEnds,
    /// A connection that is reset before a reply has come ends the server.
    DiesOfReset,
    /// A client that disconnects before its reply has come ends the server.
    DiesOfAbsence,
    /// A record that is no call ends the server.
    DiesOfNonsense,
    /// A fragment of more than this number of bytes ends the server.
    DiesOfMark(usize),
    /// A record of more than this number of fragments ends the server.
    DiesOfFragments(usize),
    /// A datagram that is no call ends the server.
    DiesOfDatagrams,
    /// A datagram of more than this number of bytes ends the server.
    DiesOfDatagram(usize),
}

/// The longest time for which a connection blocks all others: longer than the tester waits.
const HOLD: Duration = Duration::from_secs(6);

/// The delay of the reply to NULL if the end of the calls ends a connection: longer than a client
/// needs to close its side.
const LATE: Duration = Duration::from_secs(1);

const PAUSE: Duration = Duration::from_micros(200);

/// The limit of unsent bytes, beyond which the loop reads no more.
const QUEUE_MAX: usize = 1 << 20;

/// The shortest call: six words, and two empty credentials.
const CALL_BYTES_MIN: usize = 40;

/// A running loop; dropping it ends it.
pub(crate) struct Line {
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Line {
    /// Accepts connections and datagrams for the server at `to`.
    pub(crate) fn start(wire: Wire, to: SocketAddr) -> Self {
        let (listener, datagrams) = sockets();
        let address = listener.local_addr().expect("the socket is bound");
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut state = State {
                wire,
                to,
                listener,
                datagrams,
                streams: Vec::new(),
                askers: BTreeMap::new(),
                taken: 0,
                dead: false,
            };
            while !told.load(Ordering::Relaxed) {
                if !state.turn() {
                    thread::sleep(PAUSE);
                }
            }
        });
        Self { address, stop, thread: Some(thread) }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A failed loop has also failed its case.
            let _ = thread.join();
        }
    }
}

/// Opens sockets of both kinds with one port.
fn sockets() -> (TcpListener, UdpSocket) {
    loop {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port of this machine is free");
        let address = listener.local_addr().expect("the socket is bound");
        if let Ok(datagrams) = UdpSocket::bind(address) {
            listener.set_nonblocking(true).expect("the socket supports the mode");
            datagrams.set_nonblocking(true).expect("the socket supports the mode");
            return (listener, datagrams);
        }
    }
}

struct State {
    wire: Wire,
    to: SocketAddr,
    listener: TcpListener,
    datagrams: UdpSocket,
    streams: Vec<Pair>,
    askers: BTreeMap<SocketAddr, UdpSocket>,
    /// The number of connections that were ever accepted.
    taken: usize,
    /// True if it behaves like a server that has ended.
    dead: bool,
}

impl State {
    /// Handles all sockets once; returns true if there was work.
    fn turn(&mut self) -> bool {
        let mut busy = false;
        // The oldest connection comes first: so a blocking one blocks the later ones.
        let mut at = 0;
        while at < self.streams.len() {
            let count = self.streams.len();
            busy |= self.look_at(at);
            // The connections after a removed one move up.
            at += usize::from(self.streams.len() == count);
        }
        busy |= self.pass_datagrams();
        // All bytes on the present connections arrived before these.
        while let Ok((client, _)) = self.listener.accept() {
            self.take(client);
            busy = true;
        }
        busy
    }

    fn take(&mut self, client: TcpStream) {
        self.taken += 1;
        let full = match self.wire {
            Wire::Connections(most) => self.streams.len() >= most,
            Wire::ConnectionsEver(most) => self.taken > most,
            _ => false,
        };
        if self.dead || full {
            return;
        }
        if let Ok(server) = TcpStream::connect(self.to) {
            self.streams.extend(Pair::new(client, server));
        }
    }

    /// Handles a connection, and nothing else as long as it blocks all others.
    fn look_at(&mut self, at: usize) -> bool {
        let since = Instant::now();
        let mut busy = false;
        loop {
            let pair = &mut self.streams[at];
            let looked = pair.look(self.wire);
            let holds = match self.wire {
                Wire::HalfHoldsAll => pair.records.is_half(),
                Wire::UnreadHoldsAll => pair.owes(),
                _ => false,
            };
            match looked {
                Ok(moved) => busy |= moved,
                Err(End { deadly }) => {
                    self.streams.remove(at);
                    self.dead |= deadly;
                    if self.dead {
                        self.streams.clear();
                    }
                    return true;
                }
            }
            if !holds || since.elapsed() > HOLD {
                return busy;
            }
            thread::sleep(PAUSE);
        }
    }

    fn pass_datagrams(&mut self) -> bool {
        let mut busy = false;
        let mut bytes = vec![0; 1 << 16];
        while let Ok((length, from)) = self.datagrams.recv_from(&mut bytes) {
            busy = true;
            let message = &bytes[..length];
            self.dead |= match self.wire {
                Wire::DiesOfDatagrams => !is_call(message),
                Wire::DiesOfDatagram(most) => length > most,
                _ => false,
            };
            if self.dead {
                continue;
            }
            let asker = self.askers.entry(from).or_insert_with(|| {
                let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a port is free");
                socket.set_nonblocking(true).expect("the socket supports the mode");
                socket
            });
            // A failed send loses the datagram.
            let _ = asker.send_to(message, self.to);
        }
        for (from, asker) in &self.askers {
            while let Ok(length) = asker.recv(&mut bytes) {
                busy = true;
                let _ = self.datagrams.send_to(&bytes[..length], from);
            }
        }
        busy
    }
}

/// The end of a connection, and perhaps of the server.
struct End {
    deadly: bool,
}

const OVER: End = End { deadly: false };

const FATAL: End = End { deadly: true };

/// A client's connection, and its connection to the server.
struct Pair {
    client: TcpStream,
    server: TcpStream,
    to_client: Vec<u8>,
    to_server: Vec<u8>,
    records: Records,
    replies: Records,
    /// The time since which replies have been delayed.
    late: Option<Instant>,
    /// True if the client has closed its side.
    finished: bool,
}

impl Pair {
    fn new(client: TcpStream, server: TcpStream) -> Option<Self> {
        for socket in [&client, &server] {
            socket.set_nonblocking(true).ok()?;
            socket.set_nodelay(true).ok()?;
        }
        Some(Self {
            client,
            server,
            to_client: Vec::new(),
            to_server: Vec::new(),
            records: Records::default(),
            replies: Records::default(),
            late: None,
            finished: false,
        })
    }

    /// Returns true if the client has called and not got all its replies.
    const fn owes(&self) -> bool {
        self.replies.whole < self.records.whole || !self.to_client.is_empty()
    }

    /// Moves the available bytes; returns true if there were any.
    fn look(&mut self, wire: Wire) -> Result<bool, End> {
        let mut busy = false;
        if !self.finished && self.to_server.len() < QUEUE_MAX {
            let mut piece = Vec::new();
            match read(&mut self.client, &mut piece) {
                Ok(ended) => self.finished = ended,
                Err(_) => {
                    self.records.add(&piece);
                    return Err(End { deadly: wire == Wire::DiesOfReset && self.owes() });
                }
            }
            busy |= !piece.is_empty();
            self.take_calls(wire, piece)?;
            if self.finished {
                self.end_calls(wire)?;
            }
        }
        busy |= write(&mut self.server, &mut self.to_server)?;
        if self.finished && self.to_server.is_empty() {
            // The server may have closed already.
            let _ = self.server.shutdown(Shutdown::Write);
        }
        if self.to_client.len() <= QUEUE_MAX {
            let mut piece = Vec::new();
            let ended = read(&mut self.server, &mut piece).map_err(|_| OVER)?;
            busy |= !piece.is_empty();
            self.replies.add(&piece);
            self.to_client.extend(piece);
            if ended && self.to_client.is_empty() {
                return Err(OVER);
            }
        }
        let holds_back = wire == Wire::EndOfCallsEnds && self.records.last_was_null;
        if holds_back && !self.to_client.is_empty() {
            let since = *self.late.get_or_insert_with(Instant::now);
            if since.elapsed() < LATE {
                return Ok(busy);
            }
            self.late = None;
        }
        busy |= write(&mut self.client, &mut self.to_client)?;
        Ok(busy)
    }

    /// Forwards a client's bytes, or drops them.
    fn take_calls(&mut self, wire: Wire, mut piece: Vec<u8>) -> Result<(), End> {
        match wire {
            Wire::FragmentsAreRecords => {
                for mark in self.records.clone().marks_in(&piece) {
                    piece[mark] |= 0x80;
                }
            }
            Wire::OneRecordAPiece => {
                let end = self.records.clone().first_end(&piece);
                piece.truncate(end.unwrap_or(piece.len()));
            }
            _ => {}
        }
        self.records.add(&piece);
        let records = &self.records;
        let bad = match wire {
            Wire::OnePiece => !piece.is_empty() && records.is_half(),
            Wire::Calls(most) => records.whole > most,
            _ => false,
        };
        let deadly = match wire {
            Wire::DiesOfNonsense => records.nonsense,
            Wire::DiesOfMark(most) => records.longest > most,
            Wire::DiesOfFragments(most) => records.most_fragments > most,
            _ => false,
        };
        if bad || deadly {
            return Err(End { deadly });
        }
        self.to_server.extend(piece);
        Ok(())
    }

    /// Handles the end of the client's calls.
    fn end_calls(&self, wire: Wire) -> Result<(), End> {
        match wire {
            Wire::EndOfCallsEnds => Err(OVER),
            Wire::DiesOfAbsence if self.owes() => Err(FATAL),
            _ => Ok(()),
        }
    }
}

/// Reads the available bytes; returns true at the end of the stream.
fn read(socket: &mut TcpStream, into: &mut Vec<u8>) -> io::Result<bool> {
    let mut bytes = [0; 64 << 10];
    while into.len() < QUEUE_MAX {
        match socket.read(&mut bytes) {
            Ok(0) => return Ok(true),
            Ok(length) => into.extend_from_slice(&bytes[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Sends as many bytes as possible; returns true if some were sent.
fn write(socket: &mut TcpStream, from: &mut Vec<u8>) -> Result<bool, End> {
    let mut sent = 0;
    while sent < from.len() {
        match socket.write(&from[sent..]) {
            Ok(length) => sent += length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(_) => return Err(OVER),
        }
    }
    from.drain(..sent);
    Ok(sent > 0)
}

/// Returns true if a message begins like a call of this version of RPC.
fn is_call(message: &[u8]) -> bool {
    message.len() >= CALL_BYTES_MIN && message[4..12] == [0, 0, 0, 0, 0, 0, 0, 2]
}

/// The positions of records in the received bytes.
#[derive(Clone, Default)]
struct Records {
    mark: Vec<u8>,
    /// The remaining bytes of the fragment.
    left: usize,
    is_last: bool,
    inside: bool,
    fragments: usize,
    head: Vec<u8>,
    length: usize,
    /// The number of complete records.
    whole: usize,
    /// True if one of them was no call.
    nonsense: bool,
    /// True if the last one was a call of NULL.
    last_was_null: bool,
    longest: usize,
    most_fragments: usize,
}

impl Records {
    fn add(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.byte(*byte));
    }

    fn byte(&mut self, byte: u8) {
        if self.left > 0 {
            if self.head.len() < CALL_BYTES_MIN {
                self.head.push(byte);
            }
            self.length += 1;
            self.left -= 1;
        } else {
            self.inside = true;
            self.mark.push(byte);
            let Some(mark) = self.mark.first_chunk() else {
                return;
            };
            let mark = u32::from_be_bytes(*mark);
            self.mark.clear();
            self.is_last = mark >> 31 == 1;
            self.left = (mark & 0x7fff_ffff) as usize;
            self.longest = self.longest.max(self.left);
            self.fragments += 1;
            self.most_fragments = self.most_fragments.max(self.fragments);
        }
        if self.left == 0 && self.is_last && self.mark.is_empty() {
            self.whole += 1;
            self.nonsense |= !is_call(&self.head);
            let (whole, nonsense) = (self.whole, self.nonsense);
            let (longest, most_fragments) = (self.longest, self.most_fragments);
            let last_was_null = self.head.get(20..24) == Some(&[0; 4]);
            let new = Self::default();
            *self = Self { whole, nonsense, last_was_null, longest, most_fragments, ..new };
        }
    }

    /// Returns true if a record has begun and not ended.
    const fn is_half(&self) -> bool {
        self.inside
    }

    /// Returns the positions of the marks.
    fn marks_in(mut self, bytes: &[u8]) -> Vec<usize> {
        let mut marks = Vec::new();
        for (at, byte) in bytes.iter().enumerate() {
            if self.left == 0 && self.mark.is_empty() {
                marks.push(at);
            }
            self.byte(*byte);
        }
        marks
    }

    /// Returns the end of the first record.
    fn first_end(mut self, bytes: &[u8]) -> Option<usize> {
        let before = self.whole;
        let ends = |at: &usize| {
            self.byte(bytes[*at]);
            self.whole > before
        };
        (0..bytes.len()).find(ends).map(|at| at + 1)
    }
}
