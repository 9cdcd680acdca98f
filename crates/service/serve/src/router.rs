//! Routes each call to the program that it names: one row for each program that is not in the
//! procedure table.
//!
//! Rules:
//!
//! 1. A row answers the calls of its program, in its versions, that arrive over its transports. The
//!    service answers all other calls, and refuses calls of a program that it does not have.
//! 2. Rows of one program with different versions share the program number, and so does a row with
//!    the procedure table. A call with a version that none of them has is answered `PROG_MISMATCH`
//!    with the lowest and the highest version of all (RFC 5531 section 9).
//! 3. A message whose head cannot be decoded is offered to each program, as the reply of a client to
//!    a callback. If no program expects the reply, the message goes to the service, which has
//!    callbacks of its own.

use core::net::SocketAddr;
use core::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::units::{ConnectionId, Time, Xid};
use leasehold_base::xdr::{Encode as _, Reader, Writer};
use leasehold_fs::MaybeReady;
use leasehold_wire::rpc::{Call, CallError, Reply, ReplyStatus, Versions};

use crate::{Arrival, Response, Service, Transport, table};

/// A program whose procedures are not in the procedure table.
pub trait Program: Send + Sync {
    /// Answers one RPC message with a call of the program, as [`Service::answer`] does.
    fn answer(&self, arrival: Arrival, message: Bytes, writer: Writer) -> Response;

    /// Receives a message that is not a call. Returns true if the message is the reply to a callback
    /// of the program.
    fn replied(&self, _arrival: &Arrival, _message: &Bytes) -> bool {
        false
    }

    /// Receives the end of a stream, as [`Service::connection_closed`] does.
    fn connection_closed(&self, _from: SocketAddr, _connection: ConnectionId) {}

    /// Performs due work, and returns the time of the next work, if known.
    fn wake(&self, _now: Time) -> Option<Time> {
        None
    }
}

/// The transports over which a program receives calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transports {
    /// Streams and datagrams.
    All,
    /// Streams only. Over datagrams the program is unavailable.
    Streams,
}

/// A row of the router: a program with its versions.
pub struct Row {
    /// The number of the program.
    pub number: u32,
    /// The versions that the handler supports.
    pub versions: RangeInclusive<u32>,
    /// The transports of the program.
    pub transports: Transports,
    /// The program.
    pub handler: Arc<dyn Program>,
}

impl Row {
    /// Returns a row that makes a program unavailable, also one of the procedure table.
    #[must_use]
    pub fn unavailable(number: u32) -> Self {
        let (versions, transports) = (0..=u32::MAX, Transports::All);
        Self { number, versions, transports, handler: Arc::new(Unavailable) }
    }

    fn is_of(&self, number: u32, transport: Transport) -> bool {
        let is_carried = match self.transports {
            Transports::All => true,
            Transports::Streams => transport == Transport::Stream,
        };
        self.number == number && is_carried
    }
}

/// The programs of a server: the service with its procedure table, and further programs.
pub struct Router {
    service: Arc<Service>,
    rows: Vec<Row>,
}

/// The recipient of a call.
enum Recipient<'a> {
    Service,
    Program(&'a dyn Program),
    /// The version is not supported.
    Nobody(Xid, Versions),
}

impl Router {
    /// Creates a router over a service and further programs.
    #[must_use]
    pub fn new(service: Arc<Service>, rows: Vec<Row>) -> Self {
        Self { service, rows }
    }

    /// Answers one RPC message, as [`Service::answer`] does.
    pub fn answer(&self, arrival: Arrival, message: Bytes, mut writer: Writer) -> Response {
        // Most servers have no further programs: decode the head of a call only once.
        if !self.rows.is_empty() {
            let recipient = match Call::decode(&mut Reader::new(&message)) {
                Ok(call) => self.recipient(&call, arrival.transport()),
                // Rule 3
                Err(CallError::NotACall) if self.is_reply(&arrival, &message) => {
                    return MaybeReady::now(None).into();
                }
                Err(_) => Recipient::Service,
            };
            match recipient {
                Recipient::Service => {}
                Recipient::Program(program) => return program.answer(arrival, message, writer),
                Recipient::Nobody(xid, versions) => {
                    let status = ReplyStatus::ProgramMismatch(versions);
                    Reply { xid, status }.encode(&mut writer);
                    return MaybeReady::now(Some(writer.finish())).into();
                }
            }
        }
        self.service.answer(arrival, message, writer)
    }

    fn is_reply(&self, arrival: &Arrival, message: &Bytes) -> bool {
        self.rows.iter().any(|row| row.handler.replied(arrival, message))
    }

    fn recipient(&self, call: &Call<'_>, transport: Transport) -> Recipient<'_> {
        let rows = self.rows.iter().filter(|row| row.is_of(call.program, transport));
        // Rule 1
        if let Some(row) = rows.clone().find(|row| row.versions.contains(&call.version)) {
            return Recipient::Program(&*row.handler);
        }
        let in_table = table::versions(call.program);
        if rows.clone().next().is_none() || in_table.clone().any(|it| it == call.version) {
            return Recipient::Service;
        }
        // Rule 2
        let low = rows.clone().map(|row| *row.versions.start()).chain(in_table.clone()).min();
        let high = rows.map(|row| *row.versions.end()).chain(in_table).max();
        let versions = Versions { low: low.unwrap_or(0), high: high.unwrap_or(0) };
        Recipient::Nobody(call.xid, versions)
    }

    /// Receives the end of a stream, and reports it to the service and to each program.
    pub fn connection_closed(&self, from: SocketAddr, connection: ConnectionId) {
        self.service.connection_closed(from, connection);
        self.rows.iter().for_each(|row| row.handler.connection_closed(from, connection));
    }

    /// Runs the work of all programs that is due, and returns the time of the next work, if known.
    pub fn wake(&self, now: Time) -> Option<Time> {
        let service = self.service.wake(now);
        self.rows.iter().filter_map(|row| row.handler.wake(now)).chain(service).min()
    }
}

/// The handler of a program that this server does not offer.
struct Unavailable;

impl Program for Unavailable {
    fn answer(&self, _: Arrival, message: Bytes, mut writer: Writer) -> Response {
        let Ok(call) = Call::decode(&mut Reader::new(&message)) else {
            return MaybeReady::now(None).into();
        };
        Reply { xid: call.xid, status: ReplyStatus::ProgramUnavailable }.encode(&mut writer);
        MaybeReady::now(Some(writer.finish())).into()
    }
}

#[cfg(test)]
mod tests;
