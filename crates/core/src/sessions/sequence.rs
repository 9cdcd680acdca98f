//! SEQUENCE: requests run once, and their replies are cached in the slots of a session.

use bytes::Bytes;
use leasehold_base::limits::sessions::SEQUENCE_REPLY_BYTES;
use leasehold_base::units::{ConnectionId, Time};

use super::flags::StatusFlags;
use super::slots::{Room, Verdict};
use super::types::{Channel, ClientId, Error, Principal, SequenceId, SessionId, SlotId};
use super::{Effect, Sessions};

/// The arguments of SEQUENCE, and the facts about its COMPOUND that decide whether it runs.
#[doc(alias = "SEQUENCE4args")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// The session.
    pub session: SessionId,
    /// The slot.
    pub slot: SlotId,
    /// The number of the request in its slot.
    pub sequence: SequenceId,
    /// The highest slot in which the client has a request outstanding.
    pub highest: SlotId,
    /// True if the client requests that the reply is cached.
    pub cache_this: bool,
    /// The connection of the request.
    pub connection: ConnectionId,
    /// The user of the request.
    pub principal: Principal,
    /// A digest of the COMPOUND, by which a different request in the same place is recognised.
    pub digest: u64,
    /// The size of the request in bytes, with its RPC header.
    pub request_bytes: u32,
    /// The number of operations of the COMPOUND, with SEQUENCE.
    pub operations: u32,
}

/// The results of a SEQUENCE that succeeded.
#[doc(alias = "SEQUENCE4resok")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequenced {
    /// The session.
    pub session: SessionId,
    /// The number of the request in its slot.
    pub sequence: SequenceId,
    /// The slot.
    pub slot: SlotId,
    /// The highest slot that a request may use.
    pub highest: SlotId,
    /// The highest slot that the client should use.
    pub target: SlotId,
    /// The status flags.
    pub flags: StatusFlags,
}

/// The way in which a COMPOUND is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// The operations run; [`Sessions::complete`] must follow in every case, also if the connection
    /// was closed.
    Run {
        /// The results of SEQUENCE.
        results: Sequenced,
        /// The client of the session.
        client: ClientId,
        /// The channel, whose limits the owner checks before an operation changes anything: a reply
        /// above `cached_bytes` must not be made if the client requested that it is cached.
        channel: Channel,
    },
    /// The request is a retry, and this is the whole reply of the first request.
    Replay(Bytes),
    /// The request is a retry whose reply is not cached: the second operation fails with
    /// NFS4ERR_RETRY_UNCACHED_REP, and no operation runs.
    Uncached(Sequenced),
}

/// Identifies a running request to the owner of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// The session.
    pub session: SessionId,
    /// The slot.
    pub slot: SlotId,
    /// The number of the request in its slot.
    pub sequence: SequenceId,
}

impl Sequenced {
    /// Returns the identity of the running request.
    #[must_use]
    pub const fn request(&self) -> Request {
        Request { session: self.session, slot: self.slot, sequence: self.sequence }
    }
}

impl Sessions {
    /// Handles SEQUENCE, the first operation of a COMPOUND.
    ///
    /// # Errors
    /// Returns an error of SEQUENCE. The slot is then unchanged, and the lease is not renewed.
    pub fn sequence(
        &mut self,
        now: Time,
        request: &Sequence,
        effects: &mut Vec<Effect>,
    ) -> Result<Admitted, Error> {
        self.pass(now, effects);
        let admitted = self.admit(now, request, effects);
        self.audit();
        admitted
    }

    fn admit(
        &mut self,
        now: Time,
        request: &Sequence,
        effects: &mut Vec<Effect>,
    ) -> Result<Admitted, Error> {
        let id = request.session;
        let session = self.sessions.get(&id).ok_or(Error::BadSession)?;
        let (client, channel) = (session.client, session.fore);
        if request.operations > channel.operations {
            return Err(Error::TooManyOperations);
        }
        if request.request_bytes > channel.request_bytes {
            return Err(Error::RequestTooBig);
        }
        // Rule 8
        if request.cache_this && channel.cached_bytes < SEQUENCE_REPLY_BYTES {
            return Err(Error::ReplyTooBigToCache);
        }
        // Rule 6: an error of SEQUENCE leaves the slot unchanged.
        let verdict = match session.slots.judge(request) {
            Ok(verdict) => verdict,
            Err(error) => {
                #[cfg(any(test, feature = "mutants"))]
                if self.mutant == Some(super::Mutant::CountsErrors)
                    && error == Error::SequenceMisordered
                {
                    self.sessions.get_mut(&id).expect("found above").slots.misnumber(request);
                }
                #[cfg(any(test, feature = "mutants"))]
                if self.mutant == Some(super::Mutant::RunsCopies) && error == Error::Delay {
                    let results = self.results(request, client);
                    return Ok(Admitted::Run { results, client, channel });
                }
                return Err(error);
            }
        };
        if let Verdict::New { cached } = verdict {
            self.begin(request, client, cached)?;
        }
        self.bind_by_use(id, request.connection);
        self.renew(now, client, effects);
        self.revive_backchannel(now, id, effects);
        let results = self.results(request, client);
        Ok(match verdict {
            Verdict::New { .. } => Admitted::Run { results, client, channel },
            Verdict::Replay(reply) => Admitted::Replay(reply),
            Verdict::Uncached => Admitted::Uncached(results),
        })
    }

    fn results(&self, request: &Sequence, client: ClientId) -> Sequenced {
        let Sequence { session, sequence, slot, .. } = *request;
        let (highest, target) = self.sessions[&session].slots.highest();
        let flags = self.flags(client, session);
        Sequenced { session, sequence, slot, highest, target, flags }
    }

    /// Rule 8: reserves memory for the reply, and starts the request.
    fn begin(&mut self, request: &Sequence, client: ClientId, cached: usize) -> Result<(), Error> {
        let session = self.sessions.get_mut(&request.session).expect("the session was found");
        let owner = self.clients.get_mut(client).expect("a session has a client");
        let reserved = if request.cache_this { session.fore.cached_bytes as usize } else { 0 };
        let (total, own) = (self.reply_bytes - cached, owner.reply_bytes - cached);
        let is_guaranteed = own + reserved <= self.limits.guaranteed_bytes;
        if reserved > 0 && !is_guaranteed && total + reserved > self.limits.replies_bytes {
            return Err(Error::Delay);
        }
        let left = self.limits.slots.saturating_sub(self.slots);
        let left = left.min(self.limits.slots_of_client.saturating_sub(owner.slots));
        let room = Room {
            slots: u32::try_from(left).unwrap_or(u32::MAX),
            slots_max: self.limits.slots_of_session,
            slots_min: self.limits.slots_min,
            // Above three quarters of the memory, clients use fewer slots, so that calls of other
            // clients are not delayed.
            is_short: total > self.limits.replies_bytes / 4 * 3,
        };
        let before = session.slots.accounted();
        let retired = session.slots.begin(request, reserved, room);
        let more = session.slots.accounted() - before;
        self.slots += more;
        owner.slots += more;
        self.reply_bytes = total + reserved - retired;
        owner.reply_bytes = own + reserved - retired;
        Ok(())
    }

    /// Ends a running request with its whole reply, which must not share memory with a larger
    /// buffer, or without a reply that is too large for the cache. The owner sends the reply. A request whose session was destroyed is ignored.
    ///
    /// # Panics
    /// Panics if the session exists and the request is not running.
    pub fn complete(&mut self, request: Request, reply: Option<Bytes>) {
        let Some(session) = self.sessions.get_mut(&request.session) else { return };
        let reserved = session.slots.reserved(request.slot);
        // Rule 8: a reply without reserved memory is cached if it is small and memory is plentiful.
        let small_bytes = self.limits.small_reply_bytes.min(session.fore.cached_bytes as usize);
        let plenty = (self.limits.replies_bytes / 2).saturating_sub(self.reply_bytes);
        let most = if reserved > 0 { reserved } else { small_bytes.min(plenty) };
        let reply = reply.filter(|reply| reply.len() <= most);
        #[cfg(any(test, feature = "mutants"))]
        let reply = reply.filter(|_| self.mutant != Some(super::Mutant::DropsReplies));
        let (before, after) = session.slots.complete(request.slot, request.sequence, reply);
        let owner = self.clients.get_mut(session.client).expect("a session has a client");
        self.reply_bytes = self.reply_bytes - before + after;
        owner.reply_bytes = owner.reply_bytes - before + after;
        self.audit();
    }
}
