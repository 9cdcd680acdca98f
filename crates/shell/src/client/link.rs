//! One socket of a session: whoever calls sends on it, the runtime's thread receives.

use std::cell::RefCell;
use std::io::IoSlice;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use leasehold_base::limits::DATAGRAM_BYTES_MAX;
use leasehold_base::xdr::Message;
use leasehold_session::{Carrier, Connection, Traffic};
use leasehold_wire::record::{self, Next, Splitter};
use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, sendmsg, shutdown};

use crate::buffers::{Buffers, Held, Received};
use crate::outbox::Outbox;
use crate::remote::told_at_the_end;
use crate::sys;
use crate::threshold::Threshold;

/// The sending half, for any thread.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) connection: Connection,
    pub(super) socket: OwnedFd,
    carrier: Carrier,
    outbox: Mutex<Outbox>,
    /// Bytes that it was given to send, and that were received, ever.
    given: AtomicU64,
    came: AtomicU64,
}

impl Wire {
    pub(super) fn new(connection: Connection, socket: OwnedFd, carrier: Carrier) -> Self {
        let (outbox, given, came) = <_>::default();
        Self { connection, socket, carrier, outbox, given, came }
    }

    /// Sends a message, or what of it the socket takes now; the rest of a stream follows when the
    /// socket takes more. A datagram that cannot be sent is lost, as others are on the way.
    pub(super) fn send(self: &Arc<Self>, message: &Message) {
        match self.carrier {
            Carrier::Stream => {
                let mut outbox = self.outbox();
                let before = outbox.len();
                outbox.push_copy(message);
                self.given.fetch_add((outbox.len() - before) as u64, Ordering::Relaxed);
                // Otherwise it is about to be sent, or the socket will say when it is not full.
                if before == 0 && !PutOff::takes(self) {
                    self.send_from(&mut outbox);
                }
            }
            Carrier::Datagram => {
                let (before, payload, after) = message.parts();
                let parts = [before, &payload[..], after].map(IoSlice::new);
                let mut no_control = SendAncillaryBuffer::default();
                let sent = sendmsg(&self.socket, &parts, &mut no_control, SendFlags::NOSIGNAL);
                if let Err(error) = sent {
                    tracing::debug!(%error, "a datagram could not be sent");
                }
            }
        }
    }

    /// Whether it is a connection, which ends.
    pub(super) fn is_stream(&self) -> bool {
        self.carrier == Carrier::Stream
    }

    /// What went over it so far; nothing of datagrams, of which nobody says what became.
    pub(super) fn traffic(&self) -> Traffic {
        if !self.is_stream() {
            return Traffic::default();
        }
        // What has come need not be received yet: a large message is when a part of it has come.
        let received = self.came.load(Ordering::Relaxed);
        let came = received + ioctl_fionread(&self.socket).unwrap_or(0);
        // While it is held, nothing goes from here to the socket.
        let outbox = self.outbox();
        let given = self.given.load(Ordering::Relaxed);
        let waiting = outbox.len() + sys::unacknowledged(&self.socket).unwrap_or(0);
        drop(outbox);
        Traffic { given, taken: given.saturating_sub(waiting as u64), came }
    }

    /// Takes note of what was received.
    fn came(&self, bytes: usize) {
        self.came.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The socket takes more.
    pub(super) fn writable(&self) {
        self.send_from(&mut self.outbox());
    }

    fn send_from(&self, outbox: &mut Outbox) {
        if let Err(error) = outbox.send(&self.socket) {
            tracing::debug!(%error, "a connection failed");
            // The runtime's thread hears of its end.
            let _ = shutdown(&self.socket, Shutdown::Both);
        }
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        // Nothing panics in between that would leave it half changed.
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    /// What this thread has yet to send, where it puts that off.
    static PUT_OFF: RefCell<Option<Vec<Arc<Wire>>>> = const { RefCell::new(None) };
}

/// A thread that works in rounds, and sends on streams at the end of each: however many calls come
/// together, they leave each socket in one system call. Such a thread waits for no call.
pub(crate) struct PutOff {
    /// It is of the thread that it was made on.
    here: PhantomData<*const ()>,
}

impl PutOff {
    /// From now on sends of the calling thread wait for the end of a round.
    pub(crate) fn begin() -> Self {
        PUT_OFF.set(Some(Vec::new()));
        Self { here: PhantomData }
    }

    /// A round ends.
    pub(crate) fn send(&self) {
        loop {
            let last = PUT_OFF.with_borrow_mut(|wires| wires.as_mut().and_then(Vec::pop));
            let Some(wire) = last else { return };
            wire.writable();
        }
    }

    /// Whether the calling thread puts off what it has to send there.
    fn takes(wire: &Arc<Wire>) -> bool {
        PUT_OFF.with_borrow_mut(|wires| match wires {
            Some(wires) => {
                wires.push(Arc::clone(wire));
                true
            }
            None => false,
        })
    }
}

impl Drop for PutOff {
    fn drop(&mut self) {
        self.send();
        PUT_OFF.set(None);
    }
}

/// The receiving half, of the runtime's thread.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    received: Received,
    splitter: Splitter,
    missing: usize,
    /// Room for the messages that came in together.
    whole: Vec<Bytes>,
    threshold: Threshold,
}

/// What a receive came to.
pub(super) enum Came {
    /// All there was.
    AllForNow,
    /// The connection is over; why, for people.
    End(String),
}

impl Receiver {
    /// Takes what has come, and hands on whole messages that came together, to be taken out;
    /// `end_came` where the end of a stream has come too, which is behind that.
    pub(super) fn receive(
        &mut self,
        wire: &Wire,
        end_came: bool,
        buffers: &mut Buffers,
        hand_on: impl FnMut(&mut Vec<Bytes>),
    ) -> Came {
        let came = match wire.carrier {
            Carrier::Stream => self.receive_stream(wire, end_came, buffers, hand_on),
            Carrier::Datagram => self.receive_datagrams(wire, buffers, hand_on),
        };
        buffers.settle(&mut self.received);
        came
    }

    fn receive_stream(
        &mut self,
        wire: &Wire,
        end_came: bool,
        buffers: &mut Buffers,
        mut hand_on: impl FnMut(&mut Vec<Bytes>),
    ) -> Came {
        loop {
            buffers.make_room(&mut self.received, self.missing);
            let bytes = &mut self.received.bytes;
            let room = bytes.capacity() - bytes.len();
            // Less than there was room for: all that had come, and more makes a new edge.
            let all_came = match sys::receive(&wire.socket, bytes) {
                Ok(0) => return Came::End("the server closed the connection".to_owned()),
                Ok(count) => {
                    wire.came(count);
                    count < room && !end_came
                }
                Err(Errno::AGAIN) => {
                    self.threshold.expect(&wire.socket, self.missing);
                    return Came::AllForNow;
                }
                Err(Errno::INTR) => continue,
                Err(error) => return Came::End(error.to_string()),
            };
            // Whoever waits for several of them is woken once.
            let mut split = Ok(());
            told_at_the_end(|| split = self.split(&mut hand_on));
            if let Err(error) = split {
                return Came::End(error.to_string());
            }
            if all_came {
                self.threshold.expect(&wire.socket, self.missing);
                return Came::AllForNow;
            }
        }
    }

    /// Hands on the messages that are whole.
    fn split(&mut self, hand_on: &mut impl FnMut(&mut Vec<Bytes>)) -> Result<(), record::Error> {
        let split = loop {
            match self.splitter.next(&mut self.received.bytes) {
                Ok(Next::Record(record)) => {
                    self.whole.push(Held::of(record, self.received.memory()).call);
                }
                Ok(Next::Need(missing)) => {
                    self.missing = missing;
                    break Ok(());
                }
                Err(error) => break Err(error),
            }
        };
        if !self.whole.is_empty() {
            hand_on(&mut self.whole);
        }
        split
    }

    fn receive_datagrams(
        &mut self,
        wire: &Wire,
        buffers: &mut Buffers,
        mut hand_on: impl FnMut(&mut Vec<Bytes>),
    ) -> Came {
        let mut came = Came::AllForNow;
        loop {
            buffers.make_room(&mut self.received, DATAGRAM_BYTES_MAX);
            match sys::receive(&wire.socket, &mut self.received.bytes) {
                Ok(_) => {
                    let datagram = self.received.bytes.split().freeze();
                    self.whole.push(Held::of(datagram, self.received.memory()).call);
                    hand_on(&mut self.whole);
                }
                Err(Errno::AGAIN) => return came,
                Err(Errno::INTR) => {}
                // The server's machine says that nobody listens. The socket is good for more.
                Err(error) => came = Came::End(error.to_string()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use leasehold_base::xdr::Writer;
    use rustix::net::sockopt::set_socket_recv_buffer_size;

    use super::*;

    /// What the other side's system took is told apart from what waits at either end.
    #[test]
    fn what_is_taken_is_told_from_what_waits() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port left");
        // Whoever is accepted has the same.
        set_socket_recv_buffer_size(&listener, 64 << 10).expect("it is a size");
        let at = listener.local_addr().expect("it has one");
        let ours = TcpStream::connect(at).expect("it listens");
        let (mut theirs, _) = listener.accept().expect("it connected");
        ours.set_nonblocking(true).expect("a socket can");
        let connection = Connection { lane: 0, generation: 0 };
        let wire = Arc::new(Wire::new(connection, ours.into(), Carrier::Stream));
        assert_eq!(wire.traffic(), Traffic::default());
        for _ in 0..4 {
            let mut writer = Writer::new();
            writer.payload(vec![7; 1 << 20].into());
            wire.send(&writer.finish());
        }
        let given = wire.traffic().given;
        assert_eq!(given, 4 * (8 + (1 << 20)), "each has its mark and length before it");
        assert!(wire.traffic().taken < given / 2, "nobody receives it, and there is little room");
        let (mut received, mut room) = (0, vec![0; 256 << 10]);
        while received < given {
            wire.writable();
            received += theirs.read(&mut room).expect("there is more") as u64;
        }
        let all = Traffic { given, taken: given, came: 0 };
        let end = Instant::now() + Duration::from_secs(60);
        while wire.traffic() != all {
            assert!(Instant::now() < end, "{:?}", wire.traffic());
            std::thread::yield_now();
        }
        std::io::Write::write_all(&mut theirs, b"answer").expect("there is room");
        while wire.traffic().came < 6 {
            assert!(Instant::now() < end, "{:?}", wire.traffic());
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_a_round_sends_leaves_at_its_end_in_order() {
        let (ours, mut theirs) = UnixStream::pair().expect("there are sockets left");
        ours.set_nonblocking(true).expect("a socket can");
        theirs.set_nonblocking(true).expect("a socket can");
        let connection = Connection { lane: 0, generation: 0 };
        let wire = Arc::new(Wire::new(connection, ours.into(), Carrier::Stream));
        let send = |number: u32| {
            let mut writer = Writer::new();
            writer.u32(number);
            wire.send(&writer.finish());
        };
        // The last word of each message that has come; four bytes of length go before it.
        let mut come = || {
            let mut bytes = [0; 64];
            let count = theirs.read(&mut bytes).unwrap_or(0);
            bytes[..count].chunks(8).map(|message| message[7]).collect::<Vec<_>>()
        };
        let put_off = PutOff::begin();
        send(1);
        send(2);
        assert!(come().is_empty(), "the round goes on");
        put_off.send();
        assert_eq!(come(), [1, 2]);
        send(3);
        drop(put_off);
        assert_eq!(come(), [3], "nothing is left behind");
        send(4);
        assert_eq!(come(), [4], "other threads send at once");
    }
}
