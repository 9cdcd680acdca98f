//! One socket of a session: callers send on it, and the receiving thread receives.

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
use crate::rcvlowat::Threshold;
use crate::remote::told_at_the_end;
use crate::sys;

/// The sending half of a socket, which any thread may use.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) connection: Connection,
    pub(super) socket: OwnedFd,
    carrier: Carrier,
    outbox: Mutex<Outbox>,
    /// The number of bytes that callers have passed to the wire. `came` is the number of bytes that
    /// the wire has received.
    given: AtomicU64,
    came: AtomicU64,
}

impl Wire {
    pub(super) fn new(connection: Connection, socket: OwnedFd, carrier: Carrier) -> Self {
        let (outbox, given, came) = <_>::default();
        Self { connection, socket, carrier, outbox, given, came }
    }

    /// Sends a message. If a stream socket accepts only a part, the rest follows when the socket
    /// accepts more. A datagram that the socket rejects is lost, like a datagram that the network
    /// loses.
    pub(super) fn send(self: &Arc<Self>, message: &Message) {
        match self.carrier {
            Carrier::Stream => {
                let mut outbox = self.outbox();
                let before = outbox.len();
                outbox.push_copy(message);
                self.given.fetch_add((outbox.len() - before) as u64, Ordering::Relaxed);
                // If the outbox already contained bytes, a send is pending, or the socket will
                // report that it is writable. If the thread defers its sends, the send follows at
                // the end of the round. In both cases nothing is sent here.
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
                    tracing::debug!(%error, "cannot send a datagram");
                }
            }
        }
    }

    /// Returns true for a connection, false for datagrams.
    pub(super) fn is_stream(&self) -> bool {
        self.carrier == Carrier::Stream
    }

    /// Returns the traffic so far. Returns zero for datagrams, because the sender cannot know if
    /// they arrive.
    pub(super) fn traffic(&self) -> Traffic {
        if !self.is_stream() {
            return Traffic::default();
        }
        // The received bytes include bytes that the kernel has received and this process has not
        // read yet, such as a part of a large message.
        let received = self.came.load(Ordering::Relaxed);
        let came = received + ioctl_fionread(&self.socket).unwrap_or(0);
        // While this thread holds the mutex of the outbox, no other thread sends, so both counts
        // belong to the same moment.
        let outbox = self.outbox();
        let given = self.given.load(Ordering::Relaxed);
        let waiting = outbox.len() + sys::unacknowledged(&self.socket).unwrap_or(0);
        drop(outbox);
        Traffic { given, taken: given.saturating_sub(waiting as u64), came }
    }

    /// Counts received bytes.
    fn came(&self, bytes: usize) {
        self.came.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Continues to send after the socket has reported that it accepts more data.
    pub(super) fn writable(&self) {
        self.send_from(&mut self.outbox());
    }

    fn send_from(&self, outbox: &mut Outbox) {
        if let Err(error) = outbox.send(&self.socket) {
            tracing::debug!(%error, "a connection failed");
            // The shutdown makes the receiving thread detect the end of the connection, and that
            // thread closes the connection.
            let _ = shutdown(&self.socket, Shutdown::Both);
        }
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        // The poison of the mutex is ignored, because no code panics in the middle of a change of
        // the outbox.
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    /// The wires with deferred sends of this thread; `None` if the thread does not defer sends.
    static PUT_OFF: RefCell<Option<Vec<Arc<Wire>>>> = const { RefCell::new(None) };
}

/// The mode of a thread that works in rounds and defers its sends: at the end of each round, one
/// system call sends all calls on a socket. Such a thread must not block until a call is answered,
/// because the call is not sent before the end of the round.
pub(crate) struct PutOff {
    /// This field makes the type neither `Send` nor `Sync`, because the mode belongs to the thread
    /// that created the value.
    here: PhantomData<*const ()>,
}

impl PutOff {
    /// Defers later sends of the calling thread to the end of its round.
    pub(crate) fn begin() -> Self {
        PUT_OFF.set(Some(Vec::new()));
        Self { here: PhantomData }
    }

    /// Sends all deferred messages, at the end of a round.
    pub(crate) fn send(&self) {
        loop {
            let last = PUT_OFF.with_borrow_mut(|wires| wires.as_mut().and_then(Vec::pop));
            let Some(wire) = last else { return };
            wire.writable();
        }
    }

    /// Defers a send if the calling thread defers its sends. Returns true if the send was deferred.
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

/// The receiving half of a socket, which only the receiving thread uses.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    received: Received,
    splitter: Splitter,
    missing: usize,
    /// The complete messages that one receive has returned.
    whole: Vec<Bytes>,
    threshold: Threshold,
}

/// The result of a receive.
pub(super) enum Came {
    /// All received data was processed.
    AllForNow,
    /// The connection has ended, with the reason as text.
    End(String),
}

impl Receiver {
    /// Receives available data and passes complete messages to `hand_on`, which takes them out.
    /// `end_came` is true if the socket has reported the end of the stream, which follows the
    /// available data.
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
            // A short read has emptied the socket, and later data raises a new event, so the loop
            // need not read again unless the end of the stream has arrived.
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
            // The wake-ups are delivered together at the end, so that a task that waits for several
            // of these replies is woken once.
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

    /// Splits the received bytes into messages, and passes the complete messages to `hand_on`.
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
                // The error means that the server's host has reported that no process listens at
                // the port. The socket stays usable, so the loop continues to receive.
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

    /// `taken` counts the bytes that the operating system of the other host has accepted, without
    /// the bytes that still wait at either end.
    #[test]
    fn accepted_bytes_exclude_waiting_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port left");
        // The accepted socket inherits the size of this small receive buffer.
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
        assert!(
            wire.traffic().taken < given / 2,
            "the peer does not read, and there is little room"
        );
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
    fn deferred_sends_leave_in_order_at_the_end_of_a_round() {
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
        // Reads one received message, and returns its last word. A record mark of four bytes
        // precedes the message.
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
