//! The two ends of a session: the callers' end and the transport's end.

use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use leasehold_base::random::Random;
use leasehold_base::units::{Time, Xid};
use leasehold_base::xdr::{Encode, Message, Reader, Writer};
use leasehold_core::calls::Weight;
use leasehold_wire::rpc::{self, OpaqueAuth};

use crate::call::Call;
use crate::credential::Credential;
use crate::options::Options;
use crate::sleep::Sleep;
use crate::state::{Actions, Counters, State};
use crate::transport::{Connection, Traffic, Transport};

/// A procedure to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Procedure {
    /// The program.
    pub program: u32,
    /// The version of the program.
    pub version: u32,
    /// The procedure's number.
    pub number: u32,
    /// The weight of the procedure, which selects the estimate for the timeout.
    pub weight: Weight,
}

/// A call from the server on the client's connection.
#[derive(Clone, Debug)]
pub struct Inbound {
    /// The connection of the call, which also carries its reply.
    pub connection: Connection,
    /// The whole message; only its type has been decoded.
    pub message: Bytes,
}

/// A receiver of the server's calls. The receiver runs on the transport's thread, so it must not
/// wait.
pub type Callee = Box<dyn Fn(Inbound) + Send + Sync>;

/// A callback for lost connections. The callback runs on the transport's thread, so it must not
/// wait.
pub(crate) type Mourner = Box<dyn Fn() + Send + Sync>;

/// A client's session with one server: the callers' end. Clones share the session; dropping the
/// last clone and the last call closes the connections.
#[derive(Clone)]
pub struct Session {
    pub(crate) shared: Arc<Shared>,
}

/// The transport's end of a session, which does not keep the session alive.
#[derive(Clone)]
pub struct Driver {
    shared: Weak<Shared>,
}

pub(crate) struct Shared {
    options: Options,
    state: Mutex<State>,
    transport: Box<dyn Transport>,
    callee: OnceLock<Callee>,
    mourner: OnceLock<Mourner>,
}

impl Session {
    /// Begins a session; the first call opens a connection. `make_transport` receives the
    /// transport's end.
    ///
    /// The first xid is random. The seed must differ from the seeds of earlier sessions with the
    /// server, so that the server cannot confuse their calls.
    pub fn new<T: Transport + 'static>(
        options: Options,
        random: Random,
        make_transport: impl FnOnce(Driver) -> T,
    ) -> Self {
        let state = Mutex::new(State::new(&options, random));
        let shared = Arc::new_cyclic(|shared| Shared {
            options,
            state,
            transport: Box::new(make_transport(Driver { shared: Weak::clone(shared) })),
            callee: OnceLock::new(),
            mourner: OnceLock::new(),
        });
        Self { shared }
    }

    /// Returns the options of the session.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// Returns a call: a future that sends the call at its first poll, and ends with the results.
    /// If the caller drops the future earlier, the session forgets the call; the server may still
    /// run the call.
    pub fn call(&self, who: &Credential, procedure: Procedure, args: &impl Encode) -> Call {
        let Procedure { program, version, number: procedure, weight } = procedure;
        let mut writer = Writer::new();
        // The xid is assigned when the call is sent, so zero takes its place here.
        let (xid, verifier) = (Xid(0), OpaqueAuth::NONE);
        rpc::Call { xid, program, version, procedure, credential: who.as_auth(), verifier }
            .encode(&mut writer);
        args.encode(&mut writer);
        Call::new(self, writer.finish(), weight)
    }

    /// Waits for a duration, by the transport's clock.
    pub fn sleep(&self, span: Duration) -> Sleep {
        Sleep::new(self, self.now() + span)
    }

    /// Waits until a time on the transport's clock.
    pub fn sleep_until(&self, until: Time) -> Sleep {
        Sleep::new(self, until)
    }

    /// Returns the time of the transport's clock.
    #[must_use]
    pub fn now(&self) -> Time {
        self.shared.transport.now()
    }

    /// Sets the receiver of the server's calls; at most once.
    ///
    /// # Panics
    /// Panics if there is a receiver already.
    pub fn take_calls(&self, callee: Callee) {
        let taken = self.shared.callee.set(callee);
        assert!(taken.is_ok(), "the server's calls have one owner");
    }

    /// Sets the callback for lost connections; at most once.
    ///
    /// # Panics
    /// Panics if there is a callback already.
    pub(crate) fn when_disconnected(&self, mourner: Mourner) {
        let taken = self.shared.mourner.set(mourner);
        assert!(taken.is_ok(), "a session's connections have one owner");
    }

    /// Sends the reply to a call of the server, if the connection of the call is still open.
    pub fn reply(&self, connection: Connection, message: Message) {
        let is_current = self.shared.state().is_current(connection);
        if is_current {
            self.shared.transport.send(connection, &Arc::new(message));
        }
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.state().counters
    }

    /// Returns the number of open calls.
    #[must_use]
    pub fn open_calls(&self) -> usize {
        self.shared.state().open_count()
    }

    /// Returns the number of connections; over datagrams, one.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.shared.state().connected_count()
    }

    /// Returns the traffic of all connections.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.shared.transport.traffic()
    }

    /// Ends all calls with [`Error::Closed`](crate::Error::Closed), and refuses further ones.
    pub fn close(&self) {
        self.shared.with(State::close);
    }
}

impl Driver {
    /// Reports that a requested connection is open.
    pub fn connected(&self, connection: Connection) {
        self.with(|state, now, actions| state.connected(now, connection, actions));
    }

    /// Reports that a requested connection failed or closed; `why` is for display. Over datagrams,
    /// this event reports that the server's host has no program on the port.
    pub fn disconnected(&self, connection: Connection, why: &str) {
        let Some(shared) = self.shared.upgrade() else { return };
        let lost = shared.with(|state, now, actions| {
            let before = state.connected_count();
            state.disconnected(now, connection, why, actions);
            state.connected_count() < before
        });
        if let Some(mourner) = shared.mourner.get().filter(|_| lost) {
            mourner();
        }
    }

    /// Processes received messages in this order, and ignores messages that are neither replies nor
    /// calls. Callers whose replies arrived together are woken together.
    pub fn received(&self, connection: Connection, messages: impl IntoIterator<Item = Bytes>) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut messages = messages.into_iter();
        // The receiver of a call may start calls itself and then takes the lock, so the lock is
        // released before the receiver runs.
        let mut take = |state: &mut State, now, actions: &mut Actions| {
            for message in messages.by_ref() {
                let mut reader = Reader::new(&message);
                let (Ok(xid), Ok(kind)) = (reader.u32(), reader.u32()) else { continue };
                match kind {
                    REPLY => state.reply(now, connection, (Xid(xid), message), actions),
                    CALL => return Some(message),
                    _ => {}
                }
            }
            None
        };
        while let Some(message) = shared.with(&mut take) {
            match shared.callee.get() {
                Some(callee) => callee(Inbound { connection, message }),
                None => shared.state().counters.unclaimed += 1,
            }
        }
    }

    /// Runs the work that is due at the time of a requested wake.
    pub fn tick(&self) {
        let Some(shared) = self.shared.upgrade() else { return };
        let lanes = shared.state().lanes_to_look_at(shared.transport.now());
        // The transport has its own locks, so it is asked for the traffic only while the session's
        // lock is released. Otherwise the two locks could deadlock.
        let look = |lane| (lane, shared.transport.traffic_of(lane));
        let seen: Vec<(usize, Traffic)> = lanes.into_iter().map(look).collect();
        shared.with(|state, now, actions| {
            for (lane, traffic) in seen {
                state.looked(now, lane, traffic, actions);
            }
            state.tick(now, actions);
        });
    }

    /// Returns true if the session still exists.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.shared.strong_count() > 0
    }

    fn with(&self, change: impl FnOnce(&mut State, Time, &mut Actions)) {
        if let Some(shared) = self.shared.upgrade() {
            shared.with(change);
        }
    }
}

/// Kinds of messages (RFC 5531 section 9, `msg_type`).
const CALL: u32 = 0;
const REPLY: u32 = 1;

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A panic in the call table is a bug that every later step would detect again, so a
        // poisoned lock is not an additional error.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the lane for a call that begins on this thread, if the transport prefers one.
    pub(crate) fn lane(&self) -> Option<usize> {
        self.transport.lane()
    }

    /// Runs a step on the state, and then performs its actions.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut State, Time, &mut Actions) -> T) -> T {
        let mut actions = Actions::default();
        let changed = change(&mut self.state(), self.transport.now(), &mut actions);
        for connection in actions.connects {
            self.transport.connect(connection);
        }
        for (connection, message) in actions.sends {
            self.transport.send(connection, &message);
        }
        if let Some(time) = actions.wake_at {
            self.transport.wake_at(time);
        }
        for waker in actions.wakers {
            waker.wake();
        }
        changed
    }
}
