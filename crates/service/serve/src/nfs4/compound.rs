//! The interpreter of COMPOUND (RFC 8881 2.10.6, 16.2).
//!
//! Rules:
//! 1. Operations are decoded one at a time. Invalid arguments fail with NFS4ERR_BADXDR at the
//!    position of the operation, after all earlier operations have run.
//! 2. The first operation is SEQUENCE, or one of the operations that stand alone; any other
//!    compound fails with NFS4ERR_OP_NOT_IN_SESSION.
//! 3. Each operation uses the exports of its own start, and holds nothing of them until the next
//!    operation: a change of the exports never waits for a compound.
//! 4. An operation whose result may not fit into the reply fails before it changes anything.
//! 5. A retry of a compound receives the reply of the first run and runs no operation.

use core::hash::Hasher as _;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::units::{ConnectionId, Time, Xid};
use leasehold_base::xdr::{Decode as _, Encode as _, Message, Reader, Writer};
use leasehold_core::sessions::{Admitted, Channel, ClientId, Principal, Request};
use leasehold_fs::{ExportId, ObjectId};
use leasehold_wire::nfs4::compound::{Header, ReplyWriter};
use leasehold_wire::nfs4::{Completion, Number, Operation, Stateid, Status, sequence};
use leasehold_wire::rpc::{Reply, ReplyStatus};
use siphasher::sip::SipHasher13;

use super::clients::Clients;
use super::convert;
use super::counts::{self, Ran};
use super::operations::{self, Position, Row};
use super::pseudo::NodeId;
use crate::context::{Context, Target};
use crate::procedure::{Running, garbage};

/// The bytes at the start of a request that distinguish it from another request with the same slot
/// and number. The arguments of all operations except the data of WRITE are within these bytes.
const DIGESTED_BYTES_MAX: usize = 512;

/// The number and the status of a result, in bytes.
const RESULT_HEAD_BYTES: usize = 8;

/// A file handle of a compound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A directory above the exports.
    Node(NodeId),
    /// The root of the server, which is the root of an export too.
    Top(ExportId, ObjectId),
    /// An object of an export.
    Object(ExportId, ObjectId),
}

/// A file handle with the state id that belongs to it (RFC 8881 16.2.3.1.2).
#[derive(Clone, Copy)]
pub(super) struct Cursor {
    pub(super) place: Place,
    pub(super) stateid: Option<Stateid>,
}

/// The request of a session that a compound belongs to.
#[derive(Clone, Copy)]
pub(super) struct InSession {
    pub(super) client: ClientId,
    pub(super) request: Request,
    /// True if the client wants the whole reply cached.
    pub(super) caches: bool,
}

/// A running compound.
pub(super) struct Compound {
    pub(super) context: Context,
    pub(super) nfs4: Arc<Clients>,
    pub(super) minor: u32,
    /// The number of operations in the compound.
    pub(super) operations: u32,
    /// The size of the message, in bytes.
    pub(super) request_bytes: u32,
    pub(super) digest: u64,
    pub(super) session: Option<InSession>,
    pub(super) current: Option<Cursor>,
    pub(super) saved: Option<Cursor>,
    /// The size of the reply so far, in bytes.
    reply_bytes: usize,
    /// The largest size of the reply, in bytes.
    reply_bytes_max: usize,
    /// The reply of an earlier run.
    pub(super) replay: Option<Bytes>,
    /// True for a retry whose reply is not cached: the operation after SEQUENCE fails.
    pub(super) is_uncached_retry: bool,
}

impl Compound {
    /// Returns the current file handle.
    ///
    /// # Errors
    /// [`Status::NoFileHandle`].
    pub(super) fn place(&self) -> Result<Place, Status> {
        self.current.map(|cursor| cursor.place).ok_or(Status::NoFileHandle)
    }

    /// Sets the current file handle, and clears the current state id.
    pub(super) fn go_to(&mut self, place: Place) {
        self.current = Some(Cursor { place, stateid: None });
    }

    /// Returns the current object.
    ///
    /// # Errors
    /// [`Status::NoFileHandle`], and `in_node` for a directory above the exports.
    pub(super) fn object(&self, in_node: Status) -> Result<(ExportId, ObjectId), Status> {
        match self.place()? {
            Place::Node(_) => Err(in_node),
            Place::Top(export, object) | Place::Object(export, object) => Ok((export, object)),
        }
    }

    /// Returns the current object with its export and the caller.
    ///
    /// # Errors
    /// The errors of [`Compound::object`], and [`Status::Stale`] for an export that is gone or that
    /// the client may not access.
    pub(super) async fn target(&self, in_node: Status) -> Result<Target<'_>, Status> {
        self.target_of(self.object(in_node)?).await
    }

    pub(super) async fn target_of(
        &self,
        (export, object): (ExportId, ObjectId),
    ) -> Result<Target<'_>, Status> {
        let offer = self.context.exports.by_id(export).ok_or(Status::Stale)?;
        self.context.target_in(offer, object).await.map_err(convert::status)
    }

    /// Returns the connection of the call; each call of version 4 arrives on one.
    pub(super) fn connection(&self) -> ConnectionId {
        self.context.arrival.connection.unwrap_or_default()
    }

    /// Returns the time of the arrival of the call.
    pub(super) const fn now(&self) -> Time {
        self.context.arrival.now
    }

    /// Returns the room for the results of the current operation, in bytes.
    pub(super) const fn reply_bytes_left(&self) -> usize {
        self.reply_bytes_max.saturating_sub(self.reply_bytes + RESULT_HEAD_BYTES)
    }

    /// Returns the user on whose behalf the call was sent.
    pub(super) fn principal(&self) -> Principal {
        match &self.context.claimed {
            None => Principal::Anonymous,
            Some(caller) => Principal::System(caller.uid),
        }
    }

    /// Returns the client of the session.
    ///
    /// # Errors
    /// [`Status::OperationNotInSession`].
    pub(super) fn client(&self) -> Result<ClientId, Status> {
        self.session.map(|session| session.client).ok_or(Status::OperationNotInSession)
    }
}

/// Runs COMPOUND.
pub(super) fn run(
    context: Context,
    nfs4: Arc<Clients>,
    (xid, head_bytes): (Xid, usize),
    arguments: Bytes,
    mut writer: Writer,
) -> Running {
    Box::pin(async move {
        let mut reader = Reader::new(&arguments);
        let Ok(header) = Header::decode(&mut reader) else { return Some(garbage(xid, writer)) };
        let start = writer.len();
        Reply { xid, status: ReplyStatus::Success }.encode(&mut writer);
        let body_at = writer.len() - start;
        let mut compound = Compound {
            minor: header.minor_version,
            operations: header.count,
            request_bytes: u32::try_from(arguments.len() + head_bytes).unwrap_or(u32::MAX),
            digest: digest(&arguments),
            session: None,
            current: None,
            saved: None,
            reply_bytes: 0,
            reply_bytes_max: usize::MAX,
            replay: None,
            is_uncached_retry: false,
            context,
            nfs4,
        };
        let mut reply = ReplyWriter::new(writer, header.tag);
        let is_served = compound.context.service.versions.has_minor(header.minor_version);
        let last = match is_served {
            true => compound.run_all(&mut reader, &mut reply).await,
            false => Some(Status::MinorVersionMismatch),
        };
        if let Some(reply) = compound.replay {
            return Some(replayed(xid, &reply));
        }
        let status = last.map_or(Completion::Done(()), Completion::Failed);
        let message = reply.finish(status).finish();
        if let Some(session) = compound.session {
            compound.nfs4.complete(&session, &message, body_at);
        }
        Some(message)
    })
}

/// Encodes the reply to a retry from the cached part after the RPC header.
fn replayed(xid: Xid, body: &Bytes) -> Message {
    let mut writer = Writer::new();
    Reply { xid, status: ReplyStatus::Success }.encode(&mut writer);
    writer.raw(body);
    writer.finish()
}

/// Returns a number that differs for different requests with near certainty.
fn digest(arguments: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(&arguments[..arguments.len().min(DIGESTED_BYTES_MAX)]);
    hasher.write_usize(arguments.len());
    hasher.finish()
}

impl Compound {
    /// Runs the operations until one fails. Returns the status of the last operation, None for
    /// success.
    async fn run_all(
        &mut self,
        reader: &mut Reader<'_>,
        reply: &mut ReplyWriter,
    ) -> Option<Status> {
        for index in 0..self.operations {
            let Ok(number) = reader.u32() else {
                // Rule 1: there is no operation number that the result could repeat.
                return Some(Status::BadXdr);
            };
            // Rule 3.
            self.context.exports = self.context.service.exports();
            let status = self.run_one(index, Number(number), reader, reply).await;
            if self.replay.is_some() || status.is_some() {
                return status;
            }
        }
        None
    }

    /// Runs an operation, encodes its result, and counts the operation.
    async fn run_one(
        &mut self,
        index: u32,
        number: Number,
        reader: &mut Reader<'_>,
        reply: &mut ReplyWriter,
    ) -> Option<Status> {
        self.reply_bytes = reply.len();
        let (call_bytes, minor) = (reader.rest().len(), self.minor);
        let operation = number.operation().filter(|known| known.minor_version() <= minor);
        let clock = self.nfs4.counts.clock(self.digest);
        let running = self.answer(index, (number, operation), reader, reply);
        let (status, timing) = match clock {
            None => (running.await, None),
            Some(clock) => {
                let (status, timing) = counts::timed(clock, running).await;
                (status, Some(timing))
            }
        };
        let ran = Ran {
            operation,
            // A retry has its result in the cached reply.
            failed: status.filter(|_| self.replay.is_none()),
            bytes_in: call_bytes.saturating_sub(reader.rest().len()),
            bytes_out: reply.len().saturating_sub(self.reply_bytes),
            timing,
        };
        let event_loop = self.context.arrival.connection.map_or(0, |from| from.event_loop);
        self.nfs4.counts.add(event_loop, &ran);
        status
    }

    async fn answer(
        &mut self,
        index: u32,
        (number, known): (Number, Option<Operation>),
        reader: &mut Reader<'_>,
        reply: &mut ReplyWriter,
    ) -> Option<Status> {
        let Some(operation) = known else {
            return fail(Number::ILLEGAL, Status::IllegalOperation, reply);
        };
        let Some(row) = operations::row(operation) else {
            return fail(number, Status::NotSupported, reply);
        };
        if let Err(status) = self.may_run(index, operation, row) {
            return fail(number, status, reply);
        }
        (row.handler)(self, reader, reply.begin(number)).await
    }

    /// Checks the position of an operation, and the room for its result.
    fn may_run(&self, index: u32, operation: Operation, row: &Row) -> Result<(), Status> {
        if self.is_uncached_retry {
            return Err(Status::RetryUncachedReply);
        }
        // Rule 2.
        match (row.position, index) {
            (Position::First, 0) => {}
            (Position::First, _) => return Err(Status::SequencePosition),
            (Position::Alone, 0) if self.operations > 1 => return Err(Status::NotOnlyOperation),
            (Position::Alone, 0) => {}
            // RFC 8881 18.34.3: only this operation never follows SEQUENCE.
            (Position::Alone, _) if operation == Operation::BindConnection => {
                return Err(Status::NotOnlyOperation);
            }
            (Position::Alone | Position::InSession, _) => {
                self.client()?;
            }
        }
        // Rule 4.
        // An operation with a result of variable length changes nothing, and limits its result.
        let result_bytes = operation.result_bytes_max().unwrap_or(0) as usize;
        if self.reply_bytes + result_bytes > self.reply_bytes_max {
            let caches = self.session.is_some_and(|session| session.caches);
            return Err(if caches { Status::ReplyTooBigToCache } else { Status::ReplyTooBig });
        }
        Ok(())
    }
}

/// Encodes the result of an operation that failed before it ran.
fn fail(number: Number, status: Status, reply: &mut ReplyWriter) -> Option<Status> {
    reply.append_failure(number, status);
    Some(status)
}

/// SEQUENCE: rule 5.
pub(super) async fn sequence(
    compound: &mut Compound,
    args: sequence::Args,
) -> Result<sequence::Done, Status> {
    let admitted = compound.nfs4.sequence(compound, &args)?;
    match admitted {
        Admitted::Run { results, client, channel } => {
            compound.begin(client, results.request(), channel, args.cache);
            Ok(super::sessions::sequenced(&results))
        }
        Admitted::Replay(reply) => {
            compound.replay = Some(reply);
            Err(Status::Delay)
        }
        Admitted::Uncached(results) => {
            compound.is_uncached_retry = true;
            Ok(super::sessions::sequenced(&results))
        }
    }
}

impl Compound {
    fn begin(&mut self, client: ClientId, request: Request, channel: Channel, caches: bool) {
        self.reply_bytes_max = channel.reply_bytes as usize;
        if caches {
            self.reply_bytes_max = self.reply_bytes_max.min(channel.cached_bytes as usize);
        }
        self.session = Some(InSession { client, request, caches });
    }
}
