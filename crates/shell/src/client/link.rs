//! One socket of a session: whoever calls sends on it, the runtime's thread receives.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use leasehold_base::limits::DATAGRAM_BYTES_MAX;
use leasehold_base::xdr::Message;
use leasehold_session::{Carrier, Connection};
use leasehold_wire::record::{Next, Splitter};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, sendmsg, shutdown};

use crate::buffers::{Buffers, Held, Received};
use crate::outbox::Outbox;
use crate::sys;

/// The sending half, for any thread.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) connection: Connection,
    pub(super) socket: OwnedFd,
    carrier: Carrier,
    outbox: Mutex<Outbox>,
}

impl Wire {
    pub(super) fn new(connection: Connection, socket: OwnedFd, carrier: Carrier) -> Self {
        Self { connection, socket, carrier, outbox: Mutex::default() }
    }

    /// Sends a message, or what of it the socket takes now; the rest of a stream follows when the
    /// socket takes more. A datagram that cannot be sent is lost, as others are on the way.
    pub(super) fn send(&self, message: &Message) {
        match self.carrier {
            Carrier::Stream => {
                let mut outbox = self.outbox();
                let was_empty = outbox.is_empty();
                outbox.push_copy(message);
                // Otherwise the socket is full, and will say when it is not.
                if was_empty {
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

/// The receiving half, of the runtime's thread.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    received: Received,
    splitter: Splitter,
    missing: usize,
}

/// What a receive came to.
pub(super) enum Came {
    /// All there was.
    AllForNow,
    /// The connection is over; why, for people.
    End(String),
}

impl Receiver {
    /// Takes what has come, and hands each whole message on.
    pub(super) fn receive(
        &mut self,
        wire: &Wire,
        buffers: &mut Buffers,
        hand_on: impl FnMut(Bytes),
    ) -> Came {
        let came = match wire.carrier {
            Carrier::Stream => self.receive_stream(wire, buffers, hand_on),
            Carrier::Datagram => self.receive_datagrams(wire, buffers, hand_on),
        };
        buffers.settle(&mut self.received);
        came
    }

    fn receive_stream(
        &mut self,
        wire: &Wire,
        buffers: &mut Buffers,
        mut hand_on: impl FnMut(Bytes),
    ) -> Came {
        loop {
            buffers.make_room(&mut self.received, self.missing);
            let bytes = &mut self.received.bytes;
            match sys::receive(&wire.socket, bytes) {
                Ok(0) => return Came::End("the server closed the connection".to_owned()),
                Ok(_) => {}
                Err(Errno::AGAIN) => return Came::AllForNow,
                Err(Errno::INTR) => continue,
                Err(error) => return Came::End(error.to_string()),
            }
            loop {
                match self.splitter.next(&mut self.received.bytes) {
                    Ok(Next::Record(record)) => {
                        hand_on(Held::of(record, self.received.memory()).call);
                    }
                    Ok(Next::Need(missing)) => {
                        self.missing = missing;
                        break;
                    }
                    Err(error) => return Came::End(error.to_string()),
                }
            }
        }
    }

    fn receive_datagrams(
        &mut self,
        wire: &Wire,
        buffers: &mut Buffers,
        mut hand_on: impl FnMut(Bytes),
    ) -> Came {
        let mut came = Came::AllForNow;
        loop {
            buffers.make_room(&mut self.received, DATAGRAM_BYTES_MAX);
            match sys::receive(&wire.socket, &mut self.received.bytes) {
                Ok(_) => {
                    let datagram = self.received.bytes.split().freeze();
                    hand_on(Held::of(datagram, self.received.memory()).call);
                }
                Err(Errno::AGAIN) => return came,
                Err(Errno::INTR) => {}
                // The server's machine says that nobody listens. The socket is good for more.
                Err(error) => came = Came::End(error.to_string()),
            }
        }
    }
}
