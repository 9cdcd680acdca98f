//! What the loops ask of the service.

use core::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::units::{ConnectionId, Time};
use leasehold_base::xdr::Writer;
use leasehold_fs::Answer;
use leasehold_names::{self as names, Names};
use leasehold_portmap::{Asked, Carrier, Portmapper};
use leasehold_serve::{Arrival, Response, Service, Transport, Trust};

/// Whoever answers messages; [`Service`], or a stand-in of a test.
pub trait Handler: Send + Sync {
    /// Answers one RPC message; with nothing, when there must be no reply.
    fn answer(&self, arrival: Arrival, message: Bytes, writer: Writer) -> Response;

    /// Is told that a stream is no more: once its client has ended it, which may still wait for
    /// replies, again behind calls of it that are only read then, and again when it is closed.
    fn connection_closed(&self, from: SocketAddr, connection: ConnectionId);

    /// Does what is due by now, and says when there is more to do; it is asked again then, and every
    /// few seconds, because what comes in meanwhile may bring that forward.
    fn wake(&self, now: Time) -> Option<Time>;
}

impl Handler for Arc<Service> {
    fn answer(&self, arrival: Arrival, message: Bytes, writer: Writer) -> Response {
        Service::answer(self, arrival, message, writer)
    }

    fn connection_closed(&self, from: SocketAddr, connection: ConnectionId) {
        Service::connection_closed(self, from, connection);
    }

    fn wake(&self, now: Time) -> Option<Time> {
        Service::wake(self, now)
    }
}

impl Handler for Portmapper {
    fn answer(&self, arrival: Arrival, message: Bytes, writer: Writer) -> Response {
        let carrier = match arrival.transport() {
            Transport::Stream => Carrier::Stream,
            Transport::Datagram => Carrier::Datagram,
        };
        let asked = Asked { from: arrival.from.ip(), to: arrival.to, carrier };
        Answer::now(Self::answer(self, asked, &message, writer)).into()
    }

    // It remembers nothing of anybody.
    fn connection_closed(&self, _: SocketAddr, _: ConnectionId) {}

    fn wake(&self, _: Time) -> Option<Time> {
        None
    }
}

impl Handler for Names {
    fn answer(&self, arrival: Arrival, message: Bytes, writer: Writer) -> Response {
        let asked = names::Asked {
            from: arrival.from.ip(),
            by_stream: arrival.transport() == Transport::Stream,
            is_believed: arrival.trust == Trust::Claimed,
            now: arrival.now,
        };
        Answer::now(Self::answer(self, asked, &message, writer)).into()
    }

    // Names outlive connections.
    fn connection_closed(&self, _: SocketAddr, _: ConnectionId) {}

    // What has run out is forgotten when somebody asks.
    fn wake(&self, _: Time) -> Option<Time> {
        None
    }
}
