//! A simulated client host: the call table, and the programs that make calls.

use std::collections::BTreeMap;

use bytes::Bytes;
use leasehold_base::random::Random;
use leasehold_base::units::{Time, Xid};
use leasehold_base::xdr::{Decode as _, Reader};
use leasehold_core::calls::{CallId, Calls, Carrier, Effect, Event, Options, STREAM_PATIENCE};
use leasehold_wire::nfs3::Status;
use leasehold_wire::rpc::{Reply, ReplyStatus};

use crate::clock::Clock;
use crate::history::{History, OpId};
use crate::op::{Op, Outcome};
use crate::program::Program;

/// The number of programs of one client.
pub(crate) const PROGRAM_COUNT: u8 = 2;

/// A request of a client to the simulated network.
#[derive(Debug)]
pub(crate) enum Wish {
    Connect,
    Send(Bytes),
}

pub(crate) struct Client {
    pub(crate) clock: Clock,
    calls: Calls,
    begun: u64,
    messages: BTreeMap<CallId, Message>,
    programs: Vec<(Program, Doing)>,
}

/// A call in progress: the message that the client sends, and sends again.
struct Message {
    program: usize,
    /// The xid of the call; `None` before the first transmission.
    xid: Option<Xid>,
    bytes: Vec<u8>,
}

/// The state of a program; times are by the client's clock.
enum Doing {
    Thinking {
        until: Time,
    },
    Waiting {
        id: OpId,
        op: Op,
    },
    /// The server returned NFS3ERR_JUKEBOX. The program will repeat the operation as a new call.
    Again {
        id: OpId,
        op: Op,
        until: Time,
    },
    Nothing,
}

impl Client {
    /// Creates the host; the numbers of its programs begin with `first_program`.
    pub(crate) fn new(carrier: Carrier, first_program: u8, random: &mut Random) -> Self {
        let in_flight_max = 1 + usize::from(random.one_in(2));
        let options =
            Options { carrier, in_flight_max, calls_max: 8, soft: None, patience: STREAM_PATIENCE };
        let ids = first_program..first_program + PROGRAM_COUNT;
        let program = |id| (Program::new(id, random.fork()), Doing::Thinking { until: Time::ZERO });
        let programs = ids.map(program).collect();
        Self {
            clock: Clock::draw(random),
            calls: Calls::new(options, random.fork()),
            begun: 0,
            messages: BTreeMap::new(),
            programs,
        }
    }

    /// Lets all programs finish their operations, and read everything once more.
    pub(crate) fn end(&mut self) {
        self.programs.iter_mut().for_each(|(program, _)| program.end());
    }

    /// Returns true if all programs have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.programs.iter().all(|(_, doing)| matches!(doing, Doing::Nothing))
    }

    /// Returns the true time of the next timer of the host.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        let programs = self.programs.iter().filter_map(|(_, doing)| match doing {
            Doing::Thinking { until } | Doing::Again { until, .. } => Some(*until),
            Doing::Waiting { .. } | Doing::Nothing => None,
        });
        programs.chain(self.calls.next_wake()).min().map(|local| self.clock.moment(local))
    }

    /// Lets programs continue, and retransmits calls whose timers have expired.
    pub(crate) fn wake(&mut self, now: Time, history: &mut History) -> Vec<Wish> {
        let local = self.clock.local(now);
        let mut wishes = self.step(local, Event::Tick);
        for index in 0..self.programs.len() {
            let (program, doing) = &mut self.programs[index];
            let (id, op) = match doing {
                Doing::Again { id, op, until } if *until <= local => (*id, *op),
                Doing::Thinking { until } if *until <= local => match program.next() {
                    Some(op) => (history.begin(now, program.id, op), op),
                    None => {
                        *doing = Doing::Nothing;
                        continue;
                    }
                },
                Doing::Thinking { .. }
                | Doing::Again { .. }
                | Doing::Waiting { .. }
                | Doing::Nothing => continue,
            };
            *doing = Doing::Waiting { id, op };
            wishes.extend(self.begin(local, index, &op));
        }
        wishes
    }

    fn begin(&mut self, local: Time, index: usize, op: &Op) -> Vec<Wish> {
        let program = &mut self.programs[index].0;
        let verifier = program.verifier();
        let bytes = op.call(&program.handles, verifier);
        let call = CallId(self.begun);
        self.begun += 1;
        self.messages.insert(call, Message { program: index, xid: None, bytes });
        self.step(local, Event::Begin { call, weight: op.weight() })
    }

    /// Receives the result of the last connection attempt; `there` is true if the connection was
    /// made.
    pub(crate) fn connection(&mut self, now: Time, there: bool) -> Vec<Wish> {
        let event = if there { Event::Connected } else { Event::Disconnected };
        self.step(self.clock.local(now), event)
    }

    /// Receives a reply.
    pub(crate) fn receive(&mut self, now: Time, bytes: &Bytes, history: &mut History) -> Vec<Wish> {
        let local = self.clock.local(now);
        let mut reader = Reader::new(bytes);
        let Reply { xid, status } =
            Reply::decode(&mut reader).expect("the server's reply is well-formed");
        let mut effects = Vec::new();
        self.calls.step(local, Event::Reply { xid }, &mut effects);
        let done = effects.iter().find_map(|effect| match effect {
            Effect::Done(call) => self.messages.remove(call),
            Effect::Send { .. } | Effect::TimedOut(_) | Effect::Refused(_) | Effect::Connect => {
                None
            }
        });
        if let Some(message) = done {
            assert_eq!(status, ReplyStatus::Success, "the server serves every call");
            self.ended(now, message.program, &mut reader, history);
        }
        self.wishes(&effects)
    }

    fn ended(&mut self, now: Time, index: usize, reader: &mut Reader<'_>, history: &mut History) {
        let local = self.clock.local(now);
        let (program, doing) = &mut self.programs[index];
        let Doing::Waiting { id, op } = *doing else {
            panic!("a program waits for each call that ends")
        };
        let outcome = op.outcome(reader).expect("the results have the procedure's type");
        let until = local + program.thinking();
        if outcome == Outcome::Failed(Status::Jukebox) {
            *doing = Doing::Again { id, op, until };
            return;
        }
        program.learn(&op, &outcome);
        history.end(now, id, outcome);
        *doing = Doing::Thinking { until };
    }

    fn step(&mut self, local: Time, event: Event) -> Vec<Wish> {
        let mut effects = Vec::new();
        self.calls.step(local, event, &mut effects);
        self.wishes(&effects)
    }

    /// Returns the operation of the call in progress with an xid.
    pub(crate) fn op_of(&self, xid: Xid) -> Option<OpId> {
        let message = self.messages.values().find(|message| message.xid == Some(xid))?;
        match self.programs[message.program].1 {
            Doing::Waiting { id, .. } => Some(id),
            Doing::Thinking { .. } | Doing::Again { .. } | Doing::Nothing => None,
        }
    }

    fn wishes(&mut self, effects: &[Effect]) -> Vec<Wish> {
        let wish = |effect: &Effect| match effect {
            Effect::Connect => Some(Wish::Connect),
            Effect::Send { call, xid } => Some(Wish::Send(self.copy(*call, *xid))),
            Effect::Done(_) => None,
            Effect::TimedOut(_) | Effect::Refused(_) => panic!("hard calls, few at a time"),
        };
        effects.iter().filter_map(wish).collect()
    }

    /// Returns a copy of a call's message, with the given xid.
    fn copy(&mut self, call: CallId, xid: Xid) -> Bytes {
        let message = self.messages.get_mut(&call).expect("a call that is sent is in progress");
        message.xid = Some(xid);
        let mut bytes = message.bytes.clone();
        bytes[..4].copy_from_slice(&xid.0.to_be_bytes());
        bytes.into()
    }
}
