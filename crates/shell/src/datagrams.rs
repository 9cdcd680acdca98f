//! A datagram socket (UDP).

use core::net::SocketAddr;
use std::io::IoSlice;
use std::os::fd::OwnedFd;

use leasehold_base::limits::DATAGRAM_BYTES_MAX;
use leasehold_base::xdr::Message;
use leasehold_serve::account::ClientId;
use leasehold_serve::{Arrival, Transport, Trust};
use leasehold_wire::record;
use rustix::io::Errno;

use crate::buffers::{Held, Received};
use crate::counters::Counters;
use crate::limits::{BATCH_DATAGRAMS_MAX, SOCKET_PARKED_MAX};
use crate::loop_context::{Answered, LoopContext};
use crate::peer::Judge;
use crate::sys::{self, Route};
use crate::tasks::Origin;

/// The trust and the client number of the sender of a datagram.
#[derive(Clone, Copy)]
struct Sender {
    trust: Trust,
    client: ClientId,
}

/// A datagram socket.
///
/// The server does not queue datagram replies: if the socket rejects a reply, the server drops the
/// reply, and the client retransmits its call.
#[derive(Debug)]
pub(crate) struct Datagrams {
    pub(crate) socket: OwnedFd,
    port: u16,
    /// The index of the socket in its loop.
    place: usize,
    /// True if the socket may have more to read.
    pub(crate) readable: bool,
    /// The number of waiting calls that arrived at this socket.
    parked: u32,
}

impl Datagrams {
    pub(crate) fn new(socket: OwnedFd, port: u16, place: usize) -> Self {
        Self { socket, port, place, readable: true, parked: 0 }
    }

    /// Returns true if a turn of this socket could receive and answer datagrams.
    pub(crate) fn can_go_on(&self, loop_context: &LoopContext) -> bool {
        self.readable
            && loop_context.receiving
            && self.parked < SOCKET_PARKED_MAX
            && loop_context.has_room()
    }

    /// Returns true if no call that arrived at this socket waits.
    pub(crate) fn is_done(&self) -> bool {
        self.parked == 0
    }

    /// Answers received datagrams, up to a limit.
    pub(crate) fn turn(&mut self, loop_context: &mut LoopContext, judge: &mut Judge) {
        // The trust in a sender does not change within one turn, so consecutive datagrams from one
        // address share one check.
        let mut last: Option<(Route, Sender)> = None;
        let mut received = Received::default();
        for _ in 0..BATCH_DATAGRAMS_MAX {
            if !self.can_go_on(loop_context) {
                break;
            }
            loop_context.buffers.make_room(&mut received, DATAGRAM_BYTES_MAX);
            match sys::receive_datagram(&self.socket, &mut received.bytes) {
                Ok(Some(route)) => {
                    let sender = match last {
                        Some((before, sender)) if before == route => sender,
                        _ => {
                            let to = SocketAddr::new(route.to.address, self.port);
                            Sender {
                                trust: judge.trust(
                                    Transport::Datagram,
                                    route.from,
                                    to,
                                    loop_context.now,
                                ),
                                client: loop_context
                                    .meter
                                    .client(route.from.ip(), loop_context.now),
                            }
                        }
                    };
                    last = Some((route, sender));
                    let memory = received.memory();
                    let length = received.bytes.len();
                    let call = Held::of(record::take(&mut received.bytes, length), memory);
                    self.answer(call, route, sender, loop_context);
                }
                Ok(None) => received.bytes.clear(),
                Err(Errno::AGAIN) => self.readable = false,
                // The error reports that an earlier reply did not reach its client. The client
                // retransmits its call, so the loop continues.
                Err(_) => {}
            }
        }
        loop_context.buffers.settle(&mut received);
    }

    fn answer(&mut self, call: Held, route: Route, sender: Sender, loop_context: &mut LoopContext) {
        let arrival = Arrival {
            from: route.from,
            to: route.to.address,
            connection: None,
            trust: sender.trust,
            now: loop_context.now,
        };
        match loop_context.call(arrival, call, sender.client, Origin::Datagram(self.place, route)) {
            Answered::Reply(reply) => self.send(reply, &route, loop_context),
            Answered::Nothing | Answered::Panicked => {}
            Answered::Parked => self.parked += 1,
        }
    }

    /// Sends the reply of a call that waited.
    pub(crate) fn complete(
        &mut self,
        reply: Option<Message>,
        route: &Route,
        loop_context: &mut LoopContext,
    ) {
        self.parked -= 1;
        if let Some(reply) = reply {
            self.send(reply, route, loop_context);
        }
    }

    /// Sends an unsolicited message if this socket reaches its client.
    pub(crate) fn post(&self, message: Message, route: &Route, loop_context: &mut LoopContext) {
        let own = rustix::net::getsockname(&self.socket).ok();
        let own = own.and_then(|own| SocketAddr::try_from(own).ok());
        if own.is_some_and(|own| own.is_ipv4() == route.from.is_ipv4()) {
            self.send(message, route, loop_context);
        }
    }

    fn send(&self, reply: Message, route: &Route, loop_context: &mut LoopContext) {
        let counters = &loop_context.shared.counters;
        if reply.len() > DATAGRAM_BYTES_MAX {
            Counters::count(&counters.datagrams_too_large);
        } else {
            let (before, payload, after) = reply.parts();
            let mut parts = [before, &payload[..], after].map(IoSlice::new);
            if let Err(error) = sys::send_datagram(&self.socket, &mut parts, route) {
                Counters::count(&counters.datagrams_dropped);
                tracing::debug!(client = %route.from, %error, "cannot send a reply");
            }
        }
        loop_context.keep(Some(reply.into_writer()));
    }
}
