//! A session and its connections: BIND_CONN_TO_SESSION and DESTROY_SESSION.

use std::collections::BTreeMap;

use leasehold_base::units::{ConnectionId, Time};

use super::backchannel::Back;
use super::create::CallbackProgram;
use super::slots::Slots;
use super::types::{Channel, ClientId, Error, SessionId};
use super::{Effect, Sessions};

/// The channels for which BIND_CONN_TO_SESSION requests a connection.
#[doc(alias = "channel_dir_from_client4")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The backchannel.
    Back,
    /// Both channels, or at least the backchannel.
    BackOrBoth,
    /// The fore channel.
    Fore,
    /// Both channels, or at least the fore channel.
    ForeOrBoth,
}

/// The channels to which a connection is bound.
#[doc(alias = "channel_dir_from_server4")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The backchannel.
    Back,
    /// Both channels.
    Both,
    /// The fore channel.
    Fore,
}

/// A session.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) client: ClientId,
    pub(super) fore: Channel,
    pub(super) slots: Slots,
    /// The backchannel, if the client offers a usable one.
    pub(super) back: Option<Back>,
    pub(super) connections: BTreeMap<ConnectionId, Binding>,
    /// True if the client has sent a SEQUENCE, so that it knows the session.
    pub(super) is_used: bool,
}

/// The relation of a connection to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Binding {
    pub(super) channels: Bound,
    /// True if a SEQUENCE bound the connection, so that the client may still select the channels.
    is_implicit: bool,
}

impl Binding {
    /// Returns the binding of the connection of a CREATE_SESSION.
    pub(super) const fn created(back_channel: bool) -> Self {
        let channels = if back_channel { Bound::Both } else { Bound::Fore };
        Self { channels, is_implicit: false }
    }

    pub(super) const fn is_back(self) -> bool {
        !matches!(self.channels, Bound::Fore)
    }
}

impl Session {
    pub(super) const fn new(
        client: ClientId,
        fore: Channel,
        slots: Slots,
        back: Option<Back>,
    ) -> Self {
        Self { client, fore, slots, back, connections: BTreeMap::new(), is_used: false }
    }

    /// Returns a connection of the backchannel, if the backchannel works.
    pub(super) fn back_connection(&self) -> Option<ConnectionId> {
        let back = self.back.as_ref().filter(|back| self.is_used && !back.is_faulty);
        back.and_then(|_| self.any_back())
    }

    fn any_back(&self) -> Option<ConnectionId> {
        let mut bound = self.connections.iter().filter(|(_, binding)| binding.is_back());
        bound.next().map(|(connection, _)| *connection)
    }

    /// Returns true if the session has a connection for callbacks.
    pub(super) fn is_connected(&self) -> bool {
        self.any_back().is_some()
    }

    /// Rule 19: the connection carries no more callbacks. It still carries requests.
    pub(super) fn unbind_back(&mut self, connection: ConnectionId) {
        if let Some(binding) = self.connections.get_mut(&connection) {
            *binding = Binding { channels: Bound::Fore, is_implicit: true };
        }
        self.doubt_back();
    }

    /// Rule 21: a backchannel without connection is not proven.
    fn doubt_back(&mut self) {
        let is_connected = self.is_connected();
        if let Some(back) = &mut self.back {
            back.is_proven &= is_connected;
        }
    }
}

impl Sessions {
    /// Handles BIND_CONN_TO_SESSION.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] for a change of the channels of a bound connection and for the
    /// backchannel of a session without one, and [`Error::Delay`] for too many connections.
    pub fn bind_connection(
        &mut self,
        now: Time,
        id: SessionId,
        connection: ConnectionId,
        direction: Direction,
        effects: &mut Vec<Effect>,
    ) -> Result<Bound, Error> {
        self.pass(now, effects);
        let session = self.sessions.get(&id).ok_or(Error::BadSession)?;
        let known = session.connections.get(&connection);
        let current = known.filter(|binding| !binding.is_implicit).map(|known| known.channels);
        // Rule 10: a connection that a SEQUENCE bound may still get the backchannel.
        let channels = match (direction, current) {
            (Direction::Fore, None | Some(Bound::Fore)) => Bound::Fore,
            (Direction::Back, None | Some(Bound::Back)) => Bound::Back,
            (Direction::ForeOrBoth, None | Some(Bound::Fore | Bound::Both))
            | (Direction::BackOrBoth, None | Some(Bound::Back | Bound::Both)) => Bound::Both,
            (Direction::Fore, Some(Bound::Back | Bound::Both))
            | (Direction::Back, Some(Bound::Fore | Bound::Both))
            | (Direction::ForeOrBoth, Some(Bound::Back))
            | (Direction::BackOrBoth, Some(Bound::Fore)) => return Err(Error::Invalid),
        };
        let channels = match (channels, direction) {
            _ if session.back.is_some() => channels,
            (Bound::Fore, _) | (Bound::Both, Direction::ForeOrBoth) => Bound::Fore,
            (Bound::Back | Bound::Both, _) => return Err(Error::Invalid),
        };
        let client = session.client;
        if !self.bind(id, connection, Binding { channels, is_implicit: false }) {
            return Err(Error::Delay);
        }
        self.dispatch(now, client, effects);
        self.audit();
        Ok(channels)
    }

    /// Binds a connection to a session; returns false if the session has too many connections.
    pub(super) fn bind(
        &mut self,
        id: SessionId,
        connection: ConnectionId,
        binding: Binding,
    ) -> bool {
        let most = self.limits.connections_of_session;
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        if session.connections.len() >= most && !session.connections.contains_key(&connection) {
            return false;
        }
        session.connections.insert(connection, binding);
        if let Some(back) = session.back.as_mut().filter(|_| binding.is_back()) {
            back.was_connected = true;
        }
        session.doubt_back();
        self.connections.entry(connection).or_default().insert(id);
        true
    }

    /// Rule 10: a SEQUENCE binds its connection to the fore channel. If the session has too many
    /// connections, the request runs, and the connection is not bound.
    pub(super) fn bind_by_use(&mut self, id: SessionId, connection: ConnectionId) {
        let session = self.sessions.get(&id).expect("the session was found");
        if !session.connections.contains_key(&connection) {
            self.bind(id, connection, Binding { channels: Bound::Fore, is_implicit: true });
        }
    }

    /// Rule 10: the loss of a connection ends no session and no state.
    pub(super) fn lose_connection(
        &mut self,
        now: Time,
        connection: ConnectionId,
        effects: &mut Vec<Effect>,
    ) {
        for id in self.connections.remove(&connection).unwrap_or_default() {
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            let client = session.client;
            session.connections.remove(&connection);
            session.doubt_back();
            self.set_adrift(now, client, id, connection);
            self.dispatch(now, client, effects);
        }
    }

    /// Handles BACKCHANNEL_CTL: sets the program and the credential of callbacks.
    ///
    /// # Errors
    /// Returns [`Error::BadSession`], or [`Error::Invalid`] for a session without backchannel.
    pub fn control_backchannel(
        &mut self,
        id: SessionId,
        callback: &CallbackProgram,
    ) -> Result<(), Error> {
        let program = callback.copied()?;
        let session = self.sessions.get_mut(&id).ok_or(Error::BadSession)?;
        let back = session.back.as_mut().ok_or(Error::Invalid)?;
        back.program = program;
        // Rule 21: the new program has answered no callback.
        back.is_proven = false;
        Ok(())
    }

    /// Returns the program and the credential of the callbacks of a session.
    #[must_use]
    pub fn callback_program(&self, id: SessionId) -> Option<&CallbackProgram> {
        self.sessions.get(&id)?.back.as_ref().map(|back| &back.program)
    }

    /// Handles DESTROY_SESSION.
    ///
    /// # Errors
    /// Returns an error of DESTROY_SESSION.
    pub fn destroy_session(
        &mut self,
        now: Time,
        id: SessionId,
        connection: ConnectionId,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        self.pass(now, effects);
        let client = self.sessions.get(&id).ok_or(Error::BadSession)?.client;
        // Rule 11: the connection may be bound to another session of the same client.
        let bound = self.connections.get(&connection);
        let of_client = |id: &SessionId| self.sessions.get(id).is_some_and(|s| s.client == client);
        if !bound.is_some_and(|ids| ids.iter().any(of_client)) {
            return Err(Error::ConnectionNotBound);
        }
        self.requeue(now, client, id);
        self.remove_session(id);
        self.dispatch(now, client, effects);
        self.audit();
        Ok(())
    }

    /// Removes a session whose callbacks have moved.
    pub(super) fn remove_session(&mut self, id: SessionId) {
        let Some(session) = self.sessions.remove(&id) else { return };
        for connection in session.connections.keys() {
            if let Some(ids) = self.connections.get_mut(connection) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.connections.remove(connection);
                }
            }
        }
        let (slots, bytes) = (session.slots.accounted(), session.slots.bytes());
        self.slots -= slots;
        self.reply_bytes -= bytes;
        if let Some(client) = self.clients.get_mut(session.client) {
            client.sessions.remove(&id);
            client.slots -= slots;
            client.reply_bytes -= bytes;
        }
    }
}
