//! The lease program (`spec/lease.x`) in the place of NFS version 3: who calls, what goes with a
//! call beside its arguments, and what the server calls in turn.

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

/// The pauses before a server is asked again that said that it is not yet time.
const LATER_PAUSE_MIN: Duration = Duration::from_millis(20);
const LATER_PAUSE_MAX: Duration = Duration::from_secs(2);

/// What the server says by itself, and what it said to HELLO. Nothing here may wait.
pub trait Listener: Send + Sync {
    /// The server knows the client by nothing that was before: its epoch is another, or it has
    /// forgotten the client. Leases can be reclaimed only if it is recovering.
    fn welcomed(&self, welcome: &hello::Welcome);

    /// A connection is lost: the server may not reach the client before that calls again.
    fn disconnected(&self);

    /// The server wants leases back.
    fn evicted(&self, leases: &[evict::Lease]);

    /// The server asks for size and times; none when the lease is not held.
    fn reported(&self, lease: &evict::Lease) -> Option<report::Now>;
}

/// A client of the lease program. Clones are the same client.
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

/// As whom the server knows the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Standing {
    instance: u64,
    epoch: u64,
    /// How often the client was welcomed.
    welcomes: u64,
    /// Whether it was said that names are leased.
    leases_names: bool,
}

/// What goes with one call beside its arguments, and what comes with its answer.
#[derive(Debug, Default)]
pub struct Rider {
    asks: Vec<Ask>,
    base: Option<Base>,
    told: Mutex<Told>,
}

/// What came with an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// When the call was sent that was answered: terms count from then.
    pub sent: Time,
    /// The leases that were granted.
    pub granted: Vec<Granted>,
    /// The objects that were changed.
    pub changes: Vec<Change>,
    /// The modrev of the object, when the call was too late for it.
    pub late: Option<u64>,
    /// Whether there was an answer.
    pub answered: bool,
}

impl Rider {
    /// What asks for leases, and says what the call's change was made from.
    #[must_use]
    pub fn new(asks: Vec<Ask>, base: Option<Base>) -> Self {
        Self { asks, base, told: Mutex::default() }
    }

    /// What came with the answer.
    #[must_use]
    pub fn told(&self) -> Told {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leases {
    /// A client of the server of a session, by an id that no other has; nothing is said yet.
    /// `name` is for people. It takes the calls that the server makes on the session.
    ///
    /// # Panics
    /// When somebody takes those calls already.
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

    /// Says who hears what the server says.
    pub fn listen(&self, listener: Arc<dyn Listener>) {
        *self.shared.listener() = Some(listener);
    }

    /// Says who the client is. A server that does not serve the program denies that.
    ///
    /// # Errors
    /// When the call came to nothing.
    pub async fn hello(&self, who: &Credential) -> Result<(), Error> {
        let standing = self.standing();
        self.renew(who, standing).await
    }

    /// Whether the server leases names as well as files, as it said to the last HELLO.
    #[must_use]
    pub fn leases_names(&self) -> bool {
        self.standing().leases_names
    }

    /// Asks for leases and gives some back; says as well when the call was sent.
    ///
    /// # Errors
    /// When the call came to nothing.
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
                // What was asked in another epoch is asked again by who holds the leases.
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

    /// Gives all leases back, for good.
    ///
    /// # Errors
    /// When the call came to nothing.
    pub async fn goodbye(&self, who: &Credential) -> Result<(), Error> {
        let caller = self.standing().caller(self.shared.client);
        let results = self.call(who, goodbye::NUMBER, Weight::Light, &caller).await?;
        results.read::<goodbye::Reply>().map(drop)
    }

    /// Runs a procedure of NFS version 3, and gives its results.
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

    /// Says HELLO, unless somebody has since the server was found to know the client no more.
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

    /// Takes a call of the server. One of another epoch is void and is not answered: it is sent
    /// again if it is of one that the client will hear of.
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

/// Pauses that double, until the soft time of the session is over.
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
