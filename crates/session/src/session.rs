//! The two ends of a session: for those who call, and for the transport.

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
use crate::state::{Counters, Doings, State};
use crate::transport::{Connection, Traffic, Transport};

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Procedure {
    /// The program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// The procedure's number.
    pub number: u32,
    /// How much work it is.
    pub weight: Weight,
}

/// A call that the server makes, on the client's connection.
#[derive(Clone, Debug)]
pub struct Inbound {
    /// Where it came from, and its reply goes to.
    pub connection: Connection,
    /// The whole message, not yet looked at but for saying that it is a call.
    pub message: Bytes,
}

/// Who takes the calls of a server; called on the transport's thread, so it must not wait.
pub type Callee = Box<dyn Fn(Inbound) + Send + Sync>;

/// Who hears that a connection is lost; called on the transport's thread, so it must not wait.
pub(crate) type Mourner = Box<dyn Fn() + Send + Sync>;

/// A client's session with one server, for those who call. Clones are the same session; when the
/// last is dropped, and no call of it is left, its connections are closed.
#[derive(Clone)]
pub struct Session {
    pub(crate) shared: Arc<Shared>,
}

/// The transport's end of a session, which does not keep it.
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
    /// Begins a session; no connection is opened before a call needs it. `make_transport` gets the
    /// end that the transport drives.
    ///
    /// Xids begin at random: with a seed that no earlier session with the server had, so that the
    /// server cannot mistake its calls for theirs.
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

    /// How it calls.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// A call: a future that sends it when it is first polled, and ends with its results. When it
    /// is dropped before, the call is forgotten: the server may run it or not.
    pub fn call(&self, who: &Credential, procedure: Procedure, args: &impl Encode) -> Call {
        let Procedure { program, version, number: procedure, weight } = procedure;
        let mut writer = Writer::new();
        // The number is known when it is sent.
        let (xid, verifier) = (Xid(0), OpaqueAuth::NONE);
        rpc::Call { xid, program, version, procedure, credential: who.as_auth(), verifier }
            .encode(&mut writer);
        args.encode(&mut writer);
        Call::new(self, writer.finish(), weight)
    }

    /// Waits so long, by the transport's clock.
    pub fn sleep(&self, span: Duration) -> Sleep {
        Sleep::new(self, self.now() + span)
    }

    /// Waits until a time of the transport's clock.
    pub fn sleep_until(&self, until: Time) -> Sleep {
        Sleep::new(self, until)
    }

    /// The time by the transport's clock.
    #[must_use]
    pub fn now(&self) -> Time {
        self.shared.transport.now()
    }

    /// Says who takes the calls that the server makes; at most once.
    ///
    /// # Panics
    /// When somebody takes them already.
    pub fn take_calls(&self, callee: Callee) {
        let taken = self.shared.callee.set(callee);
        assert!(taken.is_ok(), "the server's calls have one owner");
    }

    /// Says who hears that a connection is lost; at most once.
    ///
    /// # Panics
    /// When somebody hears it already.
    pub(crate) fn when_disconnected(&self, mourner: Mourner) {
        let taken = self.shared.mourner.set(mourner);
        assert!(taken.is_ok(), "a session's connections have one owner");
    }

    /// Sends the reply to a call of the server, if its connection is still there.
    pub fn reply(&self, connection: Connection, message: Message) {
        let is_current = self.shared.state().is_current(connection);
        if is_current {
            self.shared.transport.send(connection, &Arc::new(message));
        }
    }

    /// What was done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.state().counters
    }

    /// How many calls have not ended.
    #[must_use]
    pub fn open_calls(&self) -> usize {
        self.shared.state().open_count()
    }

    /// How many connections there are now; over datagrams, one.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        self.shared.state().connected_count()
    }

    /// What went over the connections so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.shared.transport.traffic()
    }

    /// Ends all calls with [`Error::Closed`](crate::Error::Closed), and takes no more.
    pub fn close(&self) {
        self.shared.with(State::close);
    }
}

impl Driver {
    /// A connection that was asked for is there.
    pub fn connected(&self, connection: Connection) {
        self.with(|state, now, doings| state.connected(now, connection, doings));
    }

    /// A connection that was asked for could not be had, or is lost; `why` is for people. Over
    /// datagrams: the server's machine says that nobody listens.
    pub fn disconnected(&self, connection: Connection, why: &str) {
        let Some(shared) = self.shared.upgrade() else { return };
        let lost = shared.with(|state, now, doings| {
            let before = state.connected_count();
            state.disconnected(now, connection, why, doings);
            state.connected_count() < before
        });
        if let Some(mourner) = shared.mourner.get().filter(|_| lost) {
            mourner();
        }
    }

    /// Whole messages came in, in this order. What is neither reply nor call is passed over. Those
    /// who wait for replies that came in together are woken together.
    pub fn received(&self, connection: Connection, messages: impl IntoIterator<Item = Bytes>) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut messages = messages.into_iter();
        // Who takes a call may call in turn, so the state is let go first.
        let mut take = |state: &mut State, now, doings: &mut Doings| {
            for message in messages.by_ref() {
                let mut reader = Reader::new(&message);
                let (Ok(xid), Ok(kind)) = (reader.u32(), reader.u32()) else { continue };
                match kind {
                    REPLY => state.reply(now, connection, (Xid(xid), message), doings),
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

    /// The time has come that the transport was asked to wake at.
    pub fn tick(&self) {
        let Some(shared) = self.shared.upgrade() else { return };
        let lanes = shared.state().lanes_to_look_at(shared.transport.now());
        // The state is let go meanwhile, as the transport has locks of its own.
        let look = |lane| (lane, shared.transport.traffic_of(lane));
        let seen: Vec<(usize, Traffic)> = lanes.into_iter().map(look).collect();
        shared.with(|state, now, doings| {
            for (lane, traffic) in seen {
                state.looked(now, lane, traffic, doings);
            }
            state.tick(now, doings);
        });
    }

    /// Whether anybody still has the session.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.shared.strong_count() > 0
    }

    fn with(&self, change: impl FnOnce(&mut State, Time, &mut Doings)) {
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
        // A panic in the call table is a bug that every later step would meet again.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lane of a call that begins on this thread, where that is not all one.
    pub(crate) fn lane(&self) -> Option<usize> {
        self.transport.lane()
    }

    /// Changes the state, and then does what follows from it.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut State, Time, &mut Doings) -> T) -> T {
        let mut doings = Doings::default();
        let changed = change(&mut self.state(), self.transport.now(), &mut doings);
        for connection in doings.connects {
            self.transport.connect(connection);
        }
        for (connection, message) in doings.sends {
            self.transport.send(connection, &message);
        }
        if let Some(time) = doings.wake_at {
            self.transport.wake_at(time);
        }
        for waker in doings.wakers {
            waker.wake();
        }
        changed
    }
}
