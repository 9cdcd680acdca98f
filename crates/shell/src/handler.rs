//! The interface of the event loops to a service.

use core::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::units::{ConnectionId, Time};
use leasehold_base::xdr::Writer;
use leasehold_fs::MaybeReady;
use leasehold_names::{self as names, Names};
use leasehold_portmap::{Asked, Carrier, Portmapper};
use leasehold_serve::{Arrival, Response, Router, Service, Transport, Trust};

/// A handler of messages: [`Service`], or a substitute in a test.
pub trait Handler: Send + Sync {
    /// Answers one RPC message; returns nothing if there must be no reply.
    fn answer(&self, arrival: Arrival, message: Bytes, writer: Writer) -> Response;

    /// Receives the end of a stream. The loop calls this method when the client has ended the
    /// stream, although replies may still be outstanding; again after later calls of that stream;
    /// and again when the connection is closed.
    fn connection_closed(&self, from: SocketAddr, connection: ConnectionId);

    /// Performs due work and returns the time of the next work. The loop calls again at that time,
    /// and every few seconds, because new requests may make work due earlier.
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

impl Handler for Router {
    fn answer(&self, arrival: Arrival, message: Bytes, writer: Writer) -> Response {
        Self::answer(self, arrival, message, writer)
    }

    fn connection_closed(&self, from: SocketAddr, connection: ConnectionId) {
        Self::connection_closed(self, from, connection);
    }

    fn wake(&self, now: Time) -> Option<Time> {
        Self::wake(self, now)
    }
}

impl Handler for Portmapper {
    fn answer(&self, arrival: Arrival, message: Bytes, writer: Writer) -> Response {
        let carrier = match arrival.transport() {
            Transport::Stream => Carrier::Stream,
            Transport::Datagram => Carrier::Datagram,
        };
        let asked = Asked { from: arrival.from.ip(), to: arrival.to, carrier };
        MaybeReady::now(Self::answer(self, asked, &message, writer)).into()
    }

    // This service has no state of clients, so the end of a connection has no effect.
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
        MaybeReady::now(Self::answer(self, asked, &message, writer)).into()
    }

    // Registered names outlive connections, so the end of a connection has no effect.
    fn connection_closed(&self, _: SocketAddr, _: ConnectionId) {}

    // The service removes expired names at the next lookup, so there is no work at a certain time.
    fn wake(&self, _: Time) -> Option<Time> {
        None
    }
}
