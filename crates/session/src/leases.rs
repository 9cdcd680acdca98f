//! The lease program (`spec/lease.x`) in place of NFS version 3: the client's identity, the
//! piggybacked lease information of calls, and the calls from the server.

use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_base::units::Time;
use leasehold_base::xdr::{Decode as _, Encode, Message, Reader, Writer, decode_all};
use leasehold_core::calls::Weight;
use leasehold_wire::lease::callback::{self, evict, report};
use leasehold_wire::lease::{
    self, Answer, Ask, Base, Call, Caller, Change, ClientName, Granted, Head, goodbye, hello,
    leases,
};
use leasehold_wire::list::{List, UpTo};
use leasehold_wire::nfs3::Status;
use leasehold_wire::rpc::{self, Reply, ReplyStatus};

use crate::call::Results;
use crate::credential::Credential;
use crate::error::Error;
use crate::session::{Inbound, Procedure, Session};

/// The messages of the lease program.
pub use leasehold_wire::lease as messages;

/// The pauses before a retry of a call that the server postponed.
const LATER_PAUSE_MIN: Duration = Duration::from_millis(20);
const LATER_PAUSE_MAX: Duration = Duration::from_secs(2);

/// A receiver of the server's calls and of the server's replies to HELLO. No method may wait.
pub trait Listener: Send + Sync {
    /// Reports a new registration at the server: the server's epoch has changed, or the server has
    /// forgotten the client. The client can reclaim leases only if the server is in its grace
    /// period.
    fn welcomed(&self, welcome: &hello::Welcome);

    /// Reports a lost connection: the server may be unable to reach the client before the next
    /// call.
    fn disconnected(&self);

    /// Reports that the server recalls leases.
    fn evicted(&self, leases: &[evict::Lease]);

    /// Returns the current size and times of an object; None if the lease is not held.
    fn reported(&self, lease: &evict::Lease) -> Option<report::Now>;
}

/// A client of the lease program. Clones share the client.
#[derive(Clone)]
pub struct Leases {
    shared: Arc<Shared>,
}

struct Shared {
    session: Session,
    client: [u8; 16],
    name: Vec<u8>,
    standing: Mutex<Standing>,
    listener: Mutex<Option<Arc<dyn Listener>>>,
}

/// The registration of the client at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    instance: u64,
    epoch: u64,
    /// The number of registrations that the client has made.
    welcomes: u64,
    /// True if the server reported that it grants leases on directories as well.
    leases_names: bool,
}

/// Piggybacked lease requests of one call, and the grants in its reply.
#[derive(Debug, Default)]
pub struct Rider {
    asks: Vec<Ask>,
    base: Option<Base>,
    told: Mutex<Told>,
}

/// The lease information in a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The send time of the answered call, from which the terms count.
    pub sent: Time,
    /// The granted leases.
    pub granted: Vec<Granted>,
    /// The changed objects.
    pub changes: Vec<Change>,
    /// The modrev of the object, if the call was late for it.
    pub late: Option<u64>,
    /// True if the call received a reply.
    pub answered: bool,
}

impl Rider {
    /// Creates a value with lease requests and the base of the call's change.
    #[must_use]
    pub fn new(asks: Vec<Ask>, base: Option<Base>) -> Self {
        Self { asks, base, told: Mutex::default() }
    }

    /// Returns the lease information of the reply.
    #[must_use]
    pub fn told(&self) -> Told {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leases {
    /// Creates a client with a unique id at the server of a session, without sending anything yet.
    /// `name` is for display. The client receives the calls of the server on the session.
    ///
    /// # Panics
    /// Panics if the session has another receiver of calls.
    #[must_use]
    pub fn new(session: &Session, client: [u8; 16], name: &[u8]) -> Self {
        let standing = Standing { instance: 1, epoch: 0, welcomes: 0, leases_names: true };
        let shared = Arc::new(Shared {
            session: session.clone(),
            client,
            name: name[..name.len().min(255)].to_vec(),
            standing: Mutex::new(standing),
            listener: Mutex::default(),
        });
        let weak = Arc::downgrade(&shared);
        session.take_calls(Box::new(move |inbound| {
            if let Some(shared) = weak.upgrade() {
                shared.called(&inbound);
            }
        }));
        let weak = Arc::downgrade(&shared);
        session.when_disconnected(Box::new(move || {
            let listener = weak.upgrade().and_then(|shared| shared.listener().clone());
            if let Some(listener) = listener {
                listener.disconnected();
            }
        }));
        Self { shared }
    }

    /// Sets the listener for the server's messages.
    pub fn listen(&self, listener: Arc<dyn Listener>) {
        *self.shared.listener() = Some(listener);
    }

    /// Registers the client. A server without the lease program refuses the call.
    ///
    /// # Errors
    /// An error if the call failed.
    pub async fn hello(&self, who: &Credential) -> Result<(), Error> {
        let standing = self.standing();
        self.renew(who, standing).await
    }

    /// Returns true if the server grants leases on directories as well as on files, according to
    /// the server's last reply to HELLO.
    #[must_use]
    pub fn leases_names(&self) -> bool {
        self.standing().leases_names
    }

    /// Requests and returns leases; also returns the send time of the call.
    ///
    /// # Errors
    /// An error if the call failed.
    pub async fn lease(
        &self,
        who: &Credential,
        wanted: Vec<leases::Wanted>,
        returned: Vec<leases::Returned>,
        progress: leases::Progress,
    ) -> Result<(Time, Vec<leases::Held>), Error> {
        let mut args = leases::Args {
            caller: self.standing().caller(self.shared.client),
            wanted: UpTo(wanted),
            returned: UpTo(returned),
            progress,
        };
        let mut pauses = Pauses::new(self.shared.session.now());
        let welcomes = self.standing().welcomes;
        loop {
            let standing = self.standing();
            if standing.welcomes != welcomes {
                // The registration was renewed, so all earlier leases are void. The call returns no
                // lease, and the owner of the leases repeats the request.
                return Ok((Time::ZERO, Vec::new()));
            }
            args.caller = standing.caller(self.shared.client);
            let sent = self.shared.session.now();
            let results = self.call(who, leases::NUMBER, Weight::Light, &args).await?;
            match results.read::<leases::Reply>()? {
                Answer::Done(done) => return Ok((sent, done.results.held.0)),
                Answer::Later | Answer::Late(_) => pauses.wait(&self.shared.session).await?,
                Answer::Epoch(_) | Answer::Instance(_) | Answer::Unknown => {
                    self.renew(who, standing).await?;
                }
            }
        }
    }

    /// Returns all leases permanently.
    ///
    /// # Errors
    /// An error if the call failed.
    pub async fn goodbye(&self, who: &Credential) -> Result<(), Error> {
        let caller = self.standing().caller(self.shared.client);
        let results = self.call(who, goodbye::NUMBER, Weight::Light, &caller).await?;
        results.read::<goodbye::Reply>().map(drop)
    }

    /// Runs a procedure of NFS version 3, and returns its results.
    pub(crate) async fn run(
        &self,
        who: &Credential,
        (number, weight): (u32, Weight),
        args: &impl Encode,
        rider: Option<&Rider>,
    ) -> Result<Results, Error> {
        let mut pauses = Pauses::new(self.shared.session.now());
        loop {
            let standing = self.standing();
            let (asks, base) =
                rider.map_or((Vec::new(), None), |rider| (rider.asks.clone(), rider.base));
            let caller = standing.caller(self.shared.client);
            let head = Head { caller, asks: List(asks), base };
            let sent = self.shared.session.now();
            let results = self.call(who, number, weight, &Call { head, args }).await?;
            let mut reader = Reader::new(results.bytes());
            let answer = Answer::<()>::decode(&mut reader).map_err(Error::Garbled)?;
            match answer {
                Answer::Done(lease::Done { granted, changes, .. }) => {
                    if let Some(rider) = rider {
                        let is_void = self.standing().welcomes != standing.welcomes;
                        let granted = if is_void { Vec::new() } else { granted.0 };
                        let changes = changes.0;
                        *rider.lock() = Told { sent, granted, changes, late: None, answered: true };
                    }
                    return Ok(Results::of(reader.rest_shared()));
                }
                Answer::Late(now) => {
                    if let Some(rider) = rider {
                        rider.lock().late = Some(now);
                    }
                    return Err(Error::Failed(Status::NotSynchronized));
                }
                Answer::Later => pauses.wait(&self.shared.session).await?,
                Answer::Epoch(_) | Answer::Instance(_) | Answer::Unknown => {
                    self.renew(who, standing).await?;
                }
            }
        }
    }

    /// Sends HELLO, unless another call has renewed the registration since `found`.
    async fn renew(&self, who: &Credential, found: Standing) -> Result<(), Error> {
        let mut instance = found.instance;
        loop {
            if self.standing().welcomes != found.welcomes {
                return Ok(());
            }
            let (client, name) = (self.shared.client, ClientName(&self.shared.name));
            let args = hello::Args { client, instance, name };
            let results = self.call(who, hello::NUMBER, Weight::Light, &args).await?;
            match results.read::<hello::Reply>()? {
                Answer::Done(done) => {
                    self.welcomed(found, instance, &done.results);
                    return Ok(());
                }
                Answer::Instance(known) => instance = known.saturating_add(1),
                Answer::Epoch(_) | Answer::Unknown | Answer::Late(_) | Answer::Later => {
                    self.shared.session.sleep(LATER_PAUSE_MIN).await;
                }
            }
        }
    }

    fn welcomed(&self, found: Standing, instance: u64, welcome: &hello::Welcome) {
        let mut standing = self.shared.standing();
        if standing.welcomes != found.welcomes {
            return;
        }
        let welcomes = found.welcomes + 1;
        let hello::Welcome { epoch, leases_names, .. } = *welcome;
        *standing = Standing { instance, epoch, welcomes, leases_names };
        drop(standing);
        let listener = self.shared.listener().clone();
        if let Some(listener) = listener {
            listener.welcomed(welcome);
        }
    }

    fn standing(&self) -> Standing {
        *self.shared.standing()
    }

    async fn call(
        &self,
        who: &Credential,
        number: u32,
        weight: Weight,
        args: &impl Encode,
    ) -> Result<Results, Error> {
        let (program, version) = (lease::PROGRAM, lease::VERSION);
        let procedure = Procedure { program, version, number, weight };
        self.shared.session.call(who, procedure, args).await
    }
}

impl Standing {
    const fn caller(self, client: [u8; 16]) -> Caller {
        Caller { client, instance: self.instance, epoch: self.epoch }
    }
}

impl Shared {
    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listener(&self) -> MutexGuard<'_, Option<Arc<dyn Listener>>> {
        self.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Processes a call of the server. A call of an epoch other than the current registration's
    /// epoch is ignored and receives no reply. If the epoch is later than the known epoch, the
    /// server repeats the call until the client has registered again.
    fn called(&self, inbound: &Inbound) {
        let mut reader = Reader::new(&inbound.message);
        let Ok(call) = rpc::Call::decode(&mut reader) else { return };
        let Some(listener) = self.listener().clone() else { return };
        let epoch = self.standing().epoch;
        let is_ours = call.program == callback::PROGRAM && call.version == callback::VERSION;
        let message = match call.procedure {
            _ if !is_ours => reply(&call, ReplyStatus::ProgramUnavailable, &()),
            rpc::null::NUMBER => reply(&call, ReplyStatus::Success, &()),
            evict::NUMBER => match decode_all::<evict::Args>(&mut reader) {
                Ok(args) if args.epoch == epoch => {
                    let message = reply(&call, ReplyStatus::Success, &());
                    self.session.reply(inbound.connection, message);
                    return listener.evicted(&args.leases.0);
                }
                Ok(_) => return,
                Err(_) => reply(&call, ReplyStatus::GarbageArguments, &()),
            },
            report::NUMBER => match decode_all::<report::Args>(&mut reader) {
                Ok(args) if args.epoch == epoch => {
                    reply(&call, ReplyStatus::Success, &listener.reported(&args.lease))
                }
                Ok(_) => return,
                Err(_) => reply(&call, ReplyStatus::GarbageArguments, &()),
            },
            _ => reply(&call, ReplyStatus::ProcedureUnavailable, &()),
        };
        self.session.reply(inbound.connection, message);
    }
}

fn reply(call: &rpc::Call<'_>, status: ReplyStatus, results: &impl Encode) -> Message {
    let mut writer = Writer::new();
    Reply { xid: call.xid, status }.encode(&mut writer);
    results.encode(&mut writer);
    writer.finish()
}

/// Pauses that double, up to the soft timeout of the session.
struct Pauses {
    begun: Time,
    next: Duration,
}

impl Pauses {
    const fn new(begun: Time) -> Self {
        Self { begun, next: LATER_PAUSE_MIN }
    }

    async fn wait(&mut self, session: &Session) -> Result<(), Error> {
        let soft = session.options().soft;
        if soft.is_some_and(|soft| session.now().since(self.begun) + self.next >= soft) {
            return Err(Error::TimedOut);
        }
        session.sleep(self.next).await;
        self.next = (self.next * 2).min(LATER_PAUSE_MAX);
        Ok(())
    }
}
