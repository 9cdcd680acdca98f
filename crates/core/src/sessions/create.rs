//! CREATE_SESSION: confirmation of clients, negotiation of channels, and the cache of one reply.

use bytes::Bytes;
use leasehold_base::limits::sessions::{CALLBACK_CREDENTIAL_BYTES_MAX, COMPOUND_BYTES_MIN};
use leasehold_base::units::{ConnectionId, Time};

use super::backchannel::Back;
use super::session::{Binding, Session};
use super::slots::Slots;
use super::types::{Channel, ClientId, Error, Principal, SequenceId, SessionId};
use super::{Effect, Sessions};

/// The program and the credential of callbacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackProgram {
    /// The program number.
    pub program: u32,
    /// The minor version of the session.
    pub minor: u32,
    /// The encoded credential, which this state machine does not interpret.
    pub credential: Bytes,
}

impl CallbackProgram {
    /// Returns a copy that shares no memory with a receive buffer.
    pub(super) fn copied(&self) -> Result<Self, Error> {
        if self.credential.len() > CALLBACK_CREDENTIAL_BYTES_MAX {
            return Err(Error::Invalid);
        }
        let credential = Bytes::copy_from_slice(&self.credential);
        Ok(Self { program: self.program, minor: self.minor, credential })
    }
}

/// The arguments of CREATE_SESSION. Persistent sessions and RDMA are not supported, so their flags
/// are never set in a reply.
#[doc(alias = "CREATE_SESSION4args")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateSession {
    /// The client id.
    pub client: ClientId,
    /// The number of the request among the CREATE_SESSION requests of the client.
    pub sequence: SequenceId,
    /// The principal of the request.
    pub principal: Principal,
    /// The connection of the request.
    pub connection: ConnectionId,
    /// True if the client requests that the connection also carries callbacks.
    pub back_channel: bool,
    /// The requested attributes of the fore channel.
    pub fore: Channel,
    /// The requested attributes of the backchannel.
    pub back: Channel,
    /// The program and the credential of callbacks.
    pub callback: CallbackProgram,
}

/// The results of CREATE_SESSION.
#[doc(alias = "CREATE_SESSION4resok")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Created {
    /// The session.
    pub session: SessionId,
    /// The number of the request.
    pub sequence: SequenceId,
    /// True if the connection carries callbacks.
    pub back_channel: bool,
    /// The granted attributes of the fore channel.
    pub fore: Channel,
    /// The granted attributes of the backchannel.
    pub back: Channel,
}

/// The last CREATE_SESSION of a client, and its result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Creation {
    sequence: SequenceId,
    result: Result<Created, Error>,
}

impl Creation {
    /// Creates the state of a client that has sent no CREATE_SESSION (RFC 8881 18.36.4).
    pub(super) const fn new() -> Self {
        Self { sequence: SequenceId(0), result: Err(Error::SequenceMisordered) }
    }

    pub(super) const fn next(&self) -> SequenceId {
        self.sequence.next()
    }
}

impl Sessions {
    /// Handles CREATE_SESSION. A retry gets the result of the first request, or is refused again.
    ///
    /// # Errors
    /// Returns an error of CREATE_SESSION.
    pub fn create_session(
        &mut self,
        now: Time,
        call: &CreateSession,
        effects: &mut Vec<Effect>,
    ) -> Result<Created, Error> {
        self.pass(now, effects);
        let client = self.clients.get(call.client).ok_or(Error::StaleClientId)?;
        // Another principal must not use up a number of the client, so this error is not cached.
        if !client.is_confirmed && client.principal != call.principal {
            return Err(Error::ClientIdInUse);
        }
        let Creation { sequence, result } = client.creation;
        // Rule 3
        let is_refused = matches!(result, Err(Error::Invalid | Error::TooSmall));
        if call.sequence == sequence && !is_refused {
            self.bind_retry(now, call, result, effects);
            return result;
        }
        if call.sequence != sequence.next() && call.sequence != sequence {
            return Err(Error::SequenceMisordered);
        }
        let result = self.negotiate(call).map(|(created, back)| {
            self.create(now, call, created, back, effects);
            created
        });
        let cached = result;
        #[cfg(any(test, feature = "mutants"))]
        let cached = match self.mutant {
            Some(super::Mutant::CachesCreationLate) => Err(Error::SequenceMisordered),
            _ => cached,
        };
        // Rule 3: number and result are stored in one step.
        let client = self.clients.get_mut(call.client).expect("the client was found");
        client.creation = Creation { sequence: call.sequence, result: cached };
        self.dispatch(now, call.client, effects);
        self.audit();
        result
    }

    /// Rule 5: determines the attributes of a session without any change.
    fn negotiate(&self, call: &CreateSession) -> Result<(Created, Option<Back>), Error> {
        let (asked, most) = (call.fore, self.limits.fore);
        let client = self.clients.get(call.client).ok_or(Error::StaleClientId)?;
        if asked.operations == 0 || asked.slots == 0 {
            return Err(Error::Invalid);
        }
        if asked.request_bytes.min(asked.reply_bytes) < COMPOUND_BYTES_MIN {
            return Err(Error::TooSmall);
        }
        let program = call.callback.copied()?;
        let has_back = call.back.slots > 0;
        // CB_SEQUENCE and one operation.
        let is_usable = call.back.operations >= 2
            && call.back.request_bytes.min(call.back.reply_bytes) >= COMPOUND_BYTES_MIN;
        if has_back && !is_usable || call.back_channel && !has_back {
            return Err(Error::TooSmall);
        }
        if self.sessions.len() >= self.limits.sessions
            || client.sessions.len() >= self.limits.sessions_of_client
        {
            return Err(Error::NoSpace);
        }
        let left = self.limits.slots.saturating_sub(self.slots);
        let left = left.min(self.limits.slots_of_client.saturating_sub(client.slots));
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        let fore = Channel {
            slots: asked.slots.min(self.limits.slots_at_start).min(left).max(1),
            ..asked.at_most(most)
        };
        // The server may not change the numbers of operations and slots of the backchannel.
        let Channel { operations, slots, .. } = call.back;
        let back = Channel { operations, slots, ..call.back.at_most(most) };
        let created = Created {
            session: self.next_session(call.client),
            sequence: call.sequence,
            back_channel: call.back_channel,
            fore,
            back,
        };
        let back = has_back.then(|| Back::new(program, slots.min(self.limits.back_slots)));
        Ok((created, back))
    }

    fn create(
        &mut self,
        now: Time,
        call: &CreateSession,
        created: Created,
        back: Option<Back>,
        effects: &mut Vec<Effect>,
    ) {
        self.confirm(now, call.client, effects);
        let Created { session: id, fore, .. } = created;
        let client = self.clients.get_mut(call.client).expect("the client was found");
        client.sessions.insert(id);
        client.slots += fore.slots as usize;
        self.slots += fore.slots as usize;
        self.created += 1;
        let slots = Slots::new(fore.slots);
        self.sessions.insert(id, Session::new(call.client, fore, slots, back));
        self.bind(id, call.connection, Binding::created(call.back_channel));
    }

    /// Rule 4: confirms a client, and drops the record of its earlier incarnation.
    fn confirm(&mut self, now: Time, id: ClientId, effects: &mut Vec<Effect>) {
        let client = self.clients.get(id).expect("the client was found");
        if client.is_confirmed {
            return;
        }
        let (owner, principal) = (client.owner.clone(), client.principal.clone());
        if let Some(earlier) = self.clients.of_owner(&owner).confirmed {
            // The new incarnation has no state, so it has nothing to reclaim.
            self.drop_record(earlier, effects);
            self.expect_no_more(&owner);
        }
        self.clients.confirm(now, id);
        self.clients.wake_at(id, now + self.limits.lease);
        let must_reclaim = self.must_reclaim(&owner, &principal);
        let client = self.clients.get_mut(id).expect("the client was found");
        client.must_reclaim = must_reclaim;
    }

    /// Binds the connection of a retry: the reply may have been lost with the first connection.
    fn bind_retry(
        &mut self,
        now: Time,
        call: &CreateSession,
        result: Result<Created, Error>,
        effects: &mut Vec<Effect>,
    ) {
        if let Ok(Created { session, back_channel, .. }) = result
            && self.sessions.contains_key(&session)
        {
            self.bind(session, call.connection, Binding::created(back_channel));
            self.dispatch(now, call.client, effects);
        }
    }

    /// Returns the id of the next session: the client id, and the number of earlier sessions.
    fn next_session(&self, client: ClientId) -> SessionId {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&client.0.to_be_bytes());
        id[8..].copy_from_slice(&self.created.to_be_bytes());
        SessionId(id)
    }
}

impl Channel {
    /// Returns the lesser of each attribute; the number of slots is kept.
    fn at_most(self, most: Self) -> Self {
        Self {
            request_bytes: self.request_bytes.min(most.request_bytes),
            reply_bytes: self.reply_bytes.min(most.reply_bytes),
            cached_bytes: self.cached_bytes.min(most.cached_bytes),
            operations: self.operations.min(most.operations),
            slots: self.slots,
        }
    }
}
