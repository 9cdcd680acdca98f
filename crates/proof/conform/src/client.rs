//! A client of RPC: makes calls, and ends the case without a proper reply.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_base::groups::Groups;
use leasehold_base::units::Xid;
use leasehold_base::xdr::{Decode as _, Encode, Reader, Writer};
use leasehold_wire::rpc::{self, AuthSys, OpaqueAuth, ReplyStatus};

use crate::case::{Stop, ensure};
use crate::net::{Datagrams, Got, Source, Stream};
use crate::talk::{Carrier, Procedure, Talk, procedure_name};

/// The pause after which an unanswered datagram is sent again; it doubles each time.
const RESEND_TIME: Duration = Duration::from_millis(700);

/// The number of calls in progress at once, for large numbers of calls.
const CALLS_IN_FLIGHT: usize = 16;

/// Returns an xid that no call of this run, and hardly one of another, has used: a server may
/// remember used ones.
pub(crate) fn fresh_xid() -> Xid {
    #[allow(clippy::cast_possible_truncation, reason = "any 32 bits do")]
    static NEXT: LazyLock<AtomicU32> =
        LazyLock::new(|| AtomicU32::new(RandomState::new().hash_one(0) as u32));
    Xid(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The caller's credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    /// AUTH_NONE.
    None,
    /// A user, a group and further groups.
    Sys { uid: u32, gid: u32, groups: Vec<u32> },
}

impl Credential {
    pub(crate) const fn user(uid: u32, gid: u32) -> Self {
        Self::Sys { uid, gid, groups: Vec::new() }
    }

    /// The flavour and the body.
    pub(crate) fn encoded(&self) -> (u32, Vec<u8>) {
        match self {
            Self::None => (rpc::flavor::NONE, Vec::new()),
            Self::Sys { uid, gid, groups } => {
                let groups = Groups::new(groups).expect("cases use few groups");
                let (uid, gid) = (*uid, *gid);
                let body = AuthSys { stamp: 0, machine_name: b"conform", uid, gid, groups };
                (rpc::flavor::SYS, encoded(&body))
            }
        }
    }
}

/// The bytes of a value.
pub(crate) fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut writer = Writer::new();
    value.encode(&mut writer);
    writer.finish().into_bytes().into()
}

/// Arguments that are words and nothing else, right or wrong.
pub(crate) struct Words<'a>(pub(crate) &'a [u32]);

impl Encode for Words<'_> {
    fn encode(&self, writer: &mut Writer) {
        self.0.iter().for_each(|word| writer.u32(*word));
    }
}

/// Arguments with another value behind them.
pub(crate) struct Both<A, B>(pub(crate) A, pub(crate) B);

impl<A: Encode, B: Encode> Encode for Both<A, B> {
    fn encode(&self, writer: &mut Writer) {
        self.0.encode(writer);
        self.1.encode(writer);
    }
}

/// The route of a client to a program.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) address: SocketAddr,
    pub(crate) carrier: Carrier,
    pub(crate) source: Source,
    /// The timeout of a reply.
    pub(crate) patience: Duration,
}

/// The connection to the server, once it is open.
enum Link {
    Stream(Stream),
    Datagrams(Datagrams),
}

impl Link {
    fn open(route: &Route, talk: &Talk) -> io::Result<Self> {
        match route.carrier {
            Carrier::Tcp => Stream::connect(route.address, route.source, talk).map(Self::Stream),
            Carrier::Udp => Datagrams::open(route.address, route.source, talk).map(Self::Datagrams),
        }
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self {
            Self::Stream(stream) => stream.send(message),
            Self::Datagrams(datagrams) => datagrams.send(message),
        }
    }

    fn receive(&mut self, patience: Duration) -> Got {
        match self {
            Self::Stream(stream) => stream.receive(patience),
            Self::Datagrams(datagrams) => datagrams.receive(patience),
        }
    }
}

/// A client of RPC; opens its connection with the first call.
pub(crate) struct Client {
    pub(crate) route: Route,
    pub(crate) credential: Credential,
    link: Option<Link>,
    talk: Talk,
}

impl Client {
    pub(crate) fn new(route: Route, credential: Credential, talk: &Talk) -> Self {
        Self { route, credential, link: None, talk: talk.clone() }
    }

    /// Encodes a call of a procedure.
    pub(crate) fn message(&self, xid: Xid, procedure: Procedure, args: &impl Encode) -> Vec<u8> {
        let (flavor, body) = self.credential.encoded();
        let call = rpc::Call {
            xid,
            program: procedure.program,
            version: procedure.version,
            procedure: procedure.number,
            credential: OpaqueAuth { flavor, body: &body },
            verifier: OpaqueAuth::NONE,
        };
        [encoded(&call), encoded(args)].concat()
    }

    /// Drops the connection; the next call opens another one.
    pub(crate) fn disconnect(&mut self) {
        if let Some(Link::Stream(stream)) = self.link.take() {
            stream.abort();
        }
    }

    fn link(&mut self) -> Result<&mut Link, Stop> {
        if self.link.is_none() {
            let link = Link::open(&self.route, &self.talk).map_err(|error| {
                Stop::fail(format!("{} accepts no connection: {error}", self.route.address))
            })?;
            self.link = Some(link);
        }
        Ok(self.link.as_mut().expect("the link was just opened"))
    }

    pub(crate) fn send(&mut self, message: &[u8]) -> Result<(), Stop> {
        let sent = self.link()?.send(message);
        sent.map_err(|error| Stop::fail(format!("the call cannot be sent: {error}")))
    }

    /// Waits for the next message of any kind.
    pub(crate) fn receive(&mut self, patience: Duration) -> Result<Got, Stop> {
        Ok(self.link()?.receive(patience))
    }

    /// Sends a message and waits for the message with its xid.
    pub(crate) fn exchange(&mut self, xid: Xid, message: &[u8]) -> Result<Got, Stop> {
        self.send(message)?;
        self.await_reply(xid, message)
    }

    /// Waits for the reply to a sent call; a datagram is retransmitted.
    pub(crate) fn await_reply(&mut self, xid: Xid, message: &[u8]) -> Result<Got, Stop> {
        let end = Instant::now() + self.route.patience;
        let resend = self.route.carrier == Carrier::Udp;
        let mut pause = RESEND_TIME;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let wait = if resend { left.min(pause) } else { left };
            let got = self.receive(wait)?;
            // An earlier call may have been answered twice.
            let is_other = matches!(&got, Got::Message(reply) if !carries(reply, xid));
            if got == Got::Silence && resend && !left.is_zero() {
                self.send(message)?;
                pause *= 2;
            } else if !is_other {
                return Ok(got);
            }
        }
    }

    /// Makes a call and returns its results; any other reply fails the case.
    pub(crate) fn call(&mut self, procedure: Procedure, args: &impl Encode) -> Result<Bytes, Stop> {
        let xid = fresh_xid();
        let message = self.message(xid, procedure, args);
        let start = Instant::now();
        let got = self.exchange(xid, &message)?;
        self.talk.took(procedure, start.elapsed());
        results(procedure, got)
    }

    /// Makes a call and returns the status in the reply's header.
    pub(crate) fn received(
        &mut self,
        procedure: Procedure,
        args: &impl Encode,
    ) -> Result<ReplyStatus, Stop> {
        let xid = fresh_xid();
        let message = self.message(xid, procedure, args);
        let got = self.exchange(xid, &message)?;
        head(procedure, got).map(|(status, _)| status)
    }

    /// Makes many calls of one procedure, several at a time, and returns their results in order.
    pub(crate) fn call_many<A: Encode>(
        &mut self,
        procedure: Procedure,
        args: &[A],
    ) -> Result<Vec<Bytes>, Stop> {
        let mut done = vec![Bytes::new(); args.len()];
        let mut waiting = BTreeMap::new();
        let mut next = 0;
        while next < args.len() || !waiting.is_empty() {
            if next < args.len() && waiting.len() < CALLS_IN_FLIGHT {
                let xid = fresh_xid();
                let message = self.message(xid, procedure, &args[next]);
                self.send(&message)?;
                waiting.insert(xid.0, next);
                next += 1;
                continue;
            }
            let got = self.receive(self.route.patience)?;
            let index = match &got {
                Got::Message(reply) => first_word(reply).and_then(|xid| waiting.remove(&xid)),
                Got::Silence | Got::Closed | Got::Nonsense(_) => None,
            };
            match index {
                Some(index) => done[index] = results(procedure, got)?,
                None => {
                    results(procedure, got)?;
                    return Err(Stop::fail("a reply belongs to none of the calls"));
                }
            }
        }
        Ok(done)
    }
}

fn first_word(message: &[u8]) -> Option<u32> {
    message.first_chunk().map(|word| u32::from_be_bytes(*word))
}

fn carries(message: &[u8], xid: Xid) -> bool {
    first_word(message) == Some(xid.0)
}

/// Returns the status of a reply, and the bytes after its header.
pub(crate) fn head(procedure: Procedure, got: Got) -> Result<(ReplyStatus, Bytes), Stop> {
    let name = procedure_name(procedure);
    let message = match got {
        Got::Message(message) => message,
        Got::Silence => return Err(Stop::fail(format!("{name} got no reply"))),
        Got::Closed => {
            return Err(Stop::fail(format!(
                "the server closed the connection instead of a reply to {name}"
            )));
        }
        Got::Nonsense(what) => {
            return Err(Stop::fail(format!("{name} got an invalid reply: {what}")));
        }
    };
    let mut reader = Reader::new(&message);
    let reply = rpc::Reply::decode(&mut reader).map_err(|error| {
        Stop::fail(format!("the header of the reply to {name} is malformed: {error}"))
    })?;
    Ok((reply.status, reader.rest_shared()))
}

/// Returns the results of a call that reached its procedure.
fn results(procedure: Procedure, got: Got) -> Result<Bytes, Stop> {
    let (status, rest) = head(procedure, got)?;
    ensure!(
        status == ReplyStatus::Success,
        "{} did not reach the procedure: {status:?}",
        procedure_name(procedure)
    );
    Ok(rest)
}
