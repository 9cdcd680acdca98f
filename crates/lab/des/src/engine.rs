//! One replication of a model: the event loop and the state it moves.
//!
//! A **customer** is who waits for an answer; a **message** is one request, retransmission or part
//! of a fork on its way through the centres. A message knows its customer and the serial number of
//! the request it belongs to; when the two no longer agree, nobody waits for it any more.

mod centre;
mod client;

use crate::calendar::Calendar;
use crate::filling::filled;
use crate::lru::Lru;
use crate::program::{ClassRules, Leg, Program, Source, position};
use crate::tally::Tally;
use crate::zipf::Zipf;
use centre::CentreState;
use core::fmt;
use leasehold_base::random::Random;
use leasehold_lab_network::model::{self, ClassKind, Model, Scope};

/// No message, customer or parent.
const NONE: u32 = u32::MAX;

/// What happens at a moment; packed into 32 bits, four for the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Event(u32);

const INDEX_BITS: u32 = 28;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

/// The kinds of event, with what their index counts.
mod kind {
    /// Message: its service at a centre of servers is done.
    pub(super) const SERVED: u32 = 0;
    /// Customer: has thought enough.
    pub(super) const THOUGHT: u32 = 1;
    /// Class: a customer arrives from outside.
    pub(super) const ARRIVAL: u32 = 2;
    /// Centre: the next message of a shared or paced server is done.
    pub(super) const SHARED: u32 = 3;
    /// Customer: has waited long enough for an answer.
    pub(super) const TIMEOUT: u32 = 4;
    /// Message: tries a full centre again.
    pub(super) const AGAIN: u32 = 5;
    /// Class: bursty arrivals change their phase.
    pub(super) const PHASE: u32 = 6;
    /// Centre: crashes.
    pub(super) const CRASH: u32 = 7;
    /// Centre: is back.
    pub(super) const RESTART: u32 = 8;
}

impl Event {
    #[inline]
    const fn new(kind: u32, index: u32) -> Self {
        Self(kind << INDEX_BITS | index)
    }
}

/// One request, retransmission or part of a fork on its way.
#[derive(Clone, Copy, Debug)]
struct Message {
    class: u32,
    leg: u32,
    customer: u32,
    /// The customer's request that this message belongs to.
    serial: u32,
    /// The next message in a queue or in the list of free ones.
    next: u32,
    /// The ticket of the event that ends its service.
    ticket: u32,
    /// The whole message whose part this is.
    parent: u32,
    /// Parts still on their way, and whether one of them was lost.
    parts: u32,
    broken: bool,
    /// Seconds of service still to do when interrupted.
    remaining: f64,
    /// When its service ends: moment, or virtual time of a shared server.
    end: f64,
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug)]
struct Customer {
    class: u32,
    serial: u32,
    waiting: bool,
    sent: u32,
    started: f64,
    /// When patience ends, and the ticket and moment of the event that looks.
    deadline: f64,
    alarm: f64,
    alarm_ticket: u32,
    /// The block asked for and whether the request writes; kept to fill the cache on answer.
    block: u32,
    /// The first leg of the request, for retransmissions.
    first_leg: u32,
}

/// What a class remembers.
#[derive(Clone, Debug)]
struct ClassState {
    rules: ClassRules,
    /// Caches: one for each client, or one for all.
    caches: Vec<Lru>,
    /// The phase of bursty arrivals, or the place in a trace.
    phase: usize,
    trace_offset: f64,
    arrival_ticket: u32,
    first_customer: u32,
}

/// Why a replication would never come to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Runaway {
    /// Things happen for ever without time going by.
    StandsStill {
        /// The moment, in seconds.
        at: f64,
    },
    /// Far more happens than there are requests and services.
    Overrun {
        /// How many events there were.
        events: u64,
        /// The moment that they led to, in seconds.
        at: f64,
    },
    /// More requests come than are served, and they fill the memory.
    Crowd {
        /// How many were on their way at once.
        requests: usize,
        /// The moment, in seconds.
        at: f64,
    },
}

impl fmt::Display for Runaway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StandsStill { at } => write!(
                f,
                "time stands still at {at:.6} s: requests that end at once (refused, lost, or \
                 answered by a cache that skips every centre) come again without a pause; give \
                 their class a think time, a timeout or try_again"
            ),
            Self::Overrun { events, at } => write!(
                f,
                "{events} events led no further than {at:.3e} s: a time or a rate of the model is \
                 so small or large beside the others that hardly a request is answered"
            ),
            Self::Crowd { requests, at } => write!(
                f,
                "{requests} requests are on their way at {at:.3} s: more come than are served"
            ),
        }
    }
}

/// Events without time going by that no sound model has, beside those of its own customers.
const PATIENCE: u64 = 1 << 20;

/// Events of one customer, or for one service, that a sound model may have.
const EVENTS_AT_ONCE: u64 = 64;

/// Requests on their way at once, beside one for each customer: some 150 MB.
const MESSAGES_MAX: usize = 1 << 21;

/// One replication of a model.
#[derive(Clone, Debug)]
pub struct Engine {
    now: f64,
    calendar: Calendar<Event>,
    centres: Vec<CentreState>,
    classes: Vec<ClassState>,
    legs: Vec<Leg>,
    messages: Vec<Message>,
    free_message: u32,
    customers: Vec<Customer>,
    free_customers: Vec<u32>,
    tally: Tally,
    tally_start: f64,
    /// Events after which somebody looks whether time still moves on.
    patience: u64,
}

impl Engine {
    /// Bytes that a replication of a model keeps at least.
    pub(crate) fn bytes(model: &Model) -> u128 {
        let customer = size_of::<Customer>() + size_of::<Message>() + 2 * size_of::<Event>();
        let of_class = |class: &model::Class| {
            let clients = match &class.kind {
                ClassKind::Closed { population, .. } => population.count(),
                ClassKind::Open { .. } => 0,
            };
            let cache = class.cache.as_ref().map_or(0, |cache| {
                let caches = if cache.scope == Scope::Client { clients.max(1) } else { 1 };
                let objects = cache.objects.count();
                let one = Lru::bytes(objects, cache.blocks.count());
                caches as u128 * one as u128 + Zipf::bytes(objects) as u128
            });
            clients as u128 * customer as u128 + cache
        };
        model.classes.iter().map(of_class).sum()
    }

    /// A replication of a checked model; each seed has luck of its own.
    #[must_use]
    pub fn new(model: &Model, seed: u64) -> Self {
        let Program { centres, classes, legs } = Program::new(model, seed);
        let tally = Tally::new(centres.len(), classes.len());
        let class_count = classes.len();
        let mut engine = Self {
            now: 0.0,
            calendar: Calendar::new(),
            centres: centres
                .into_iter()
                .map(|rules| CentreState::new(rules, class_count))
                .collect(),
            classes: classes.into_iter().map(ClassState::new).collect(),
            legs,
            messages: Vec::new(),
            free_message: NONE,
            customers: Vec::new(),
            free_customers: Vec::new(),
            tally,
            tally_start: 0.0,
            patience: 0,
        };
        for class in 0..class_count {
            engine.open_class(class);
        }
        engine.patience = PATIENCE + EVENTS_AT_ONCE * engine.customers.len() as u64;
        for centre in 0..engine.centres.len() {
            engine.plan_crash(centre);
        }
        engine
    }

    /// The simulated time so far.
    #[must_use]
    pub const fn now(&self) -> f64 {
        self.now
    }

    /// Runs until a moment of simulated time, within so many events.
    ///
    /// # Errors
    /// A model whose time stands still, or that asks for too many events.
    pub fn run_until(&mut self, end: f64, events_max: u64) -> Result<(), Runaway> {
        let mut events = 0;
        while events < events_max {
            let before = self.now;
            for _ in 0..self.patience {
                let Some(entry) = self.calendar.next_before(end) else {
                    self.now = self.now.max(end);
                    return Ok(());
                };
                self.now = entry.time;
                self.handle(entry.event, entry.ticket);
            }
            if self.now <= before {
                return Err(self.stands_still());
            }
            if self.messages.len() > MESSAGES_MAX + self.customers.len() {
                return Err(Runaway::Crowd { requests: self.messages.len(), at: self.now });
            }
            events += self.patience;
        }
        Err(self.overrun(events))
    }

    /// Runs until a number of requests are answered or services done, or nothing happens any
    /// more.
    ///
    /// # Errors
    /// A model whose time stands still, or in which too much happens between two services.
    pub fn run_completions(&mut self, count: u64) -> Result<(), Runaway> {
        // Looking after a few hundred events costs nothing and ends soon enough.
        const BETWEEN_LOOKS: u64 = 256;
        let wanted = self.tally.completions() + count;
        let (start, mut events, mut still) = (self.now, 0, 0);
        while self.tally.completions() < wanted {
            let before = self.now;
            for _ in 0..BETWEEN_LOOKS {
                let Some(entry) = self.calendar.next_before(f64::INFINITY) else { return Ok(()) };
                self.now = entry.time;
                self.handle(entry.event, entry.ticket);
            }
            events += BETWEEN_LOOKS;
            still = if self.now > before { 0 } else { still + BETWEEN_LOOKS };
            if events > self.patience + EVENTS_AT_ONCE * count {
                // Whether it began to stand still long before.
                let stands = still > events / 2;
                let runaway = if stands { self.stands_still() } else { self.overrun(events) };
                return Err(runaway);
            }
        }
        if self.now > start { Ok(()) } else { Err(self.stands_still()) }
    }

    const fn stands_still(&self) -> Runaway {
        Runaway::StandsStill { at: self.now }
    }

    const fn overrun(&self, events: u64) -> Runaway {
        Runaway::Overrun { events, at: self.now }
    }

    /// Hands out what was counted since the last time and starts counting anew.
    pub fn take_tally(&mut self) -> Tally {
        for (centre, state) in self.centres.iter_mut().enumerate() {
            for class in 0..self.classes.len() {
                let cell = &mut self.tally.cells[centre * self.classes.len() + class];
                state.present[class].advance(self.now, cell);
            }
        }
        self.tally.span = self.now - self.tally_start;
        self.tally_start = self.now;
        let fresh = Tally::new(self.centres.len(), self.classes.len());
        core::mem::replace(&mut self.tally, fresh)
    }

    #[inline]
    fn handle(&mut self, event: Event, ticket: u32) {
        let index = event.0 & INDEX_MASK;
        match event.0 >> INDEX_BITS {
            kind::SERVED => self.served(index, ticket),
            kind::THOUGHT => self.start_request(index),
            kind::ARRIVAL => self.arrival(index, ticket),
            kind::SHARED => self.shared_served(index as usize, ticket),
            kind::TIMEOUT => self.timeout(index, ticket),
            kind::AGAIN => self.enter(index),
            kind::PHASE => self.change_phase(index),
            kind::CRASH => self.crash(index as usize),
            _ => self.restart(index as usize),
        }
    }

    fn new_message(&mut self, message: Message) -> u32 {
        let index = self.free_message;
        if index == NONE {
            self.messages.push(message);
            position(self.messages.len() - 1)
        } else {
            self.free_message = self.messages[index as usize].next;
            self.messages[index as usize] = message;
            index
        }
    }

    fn free(&mut self, message: u32) {
        self.messages[message as usize].next = self.free_message;
        self.free_message = message;
    }

    /// Sends a message along its next leg.
    #[inline]
    fn proceed(&mut self, message: u32) {
        let leg = self.messages[message as usize].leg;
        match &self.legs[leg as usize] {
            Leg::Visit { .. } => self.enter(message),
            Leg::Fork { parts } => {
                let parts = *parts;
                self.fork(message, parts);
            }
            Leg::End => self.answer(message),
        }
    }

    fn fork(&mut self, message: u32, parts: u32) {
        let whole = &mut self.messages[message as usize];
        whole.parts = parts;
        let first = whole.leg + 1;
        let part = Message { parent: message, broken: false, ..*whole };
        whole.leg += 1 + parts;
        for leg in first..first + parts {
            let part = self.new_message(Message { leg, ..part });
            self.enter(part);
        }
    }

    /// A message has done its visit: a part reports to the whole, a whole takes the next leg.
    #[inline]
    fn visited(&mut self, message: u32) {
        let parent = self.messages[message as usize].parent;
        if parent == NONE {
            self.messages[message as usize].leg += 1;
            self.proceed(message);
        } else {
            self.part_ended(message, parent, false);
        }
    }

    fn part_ended(&mut self, part: u32, parent: u32, lost: bool) {
        self.free(part);
        let whole = &mut self.messages[parent as usize];
        whole.broken |= lost;
        whole.parts -= 1;
        if whole.parts == 0 {
            if core::mem::take(&mut whole.broken) {
                self.lose(parent);
            } else {
                self.proceed(parent);
            }
        }
    }

    /// A message vanishes on its way. A customer with a timeout will send another one.
    fn lose(&mut self, message: u32) {
        let Message { parent, customer, serial, .. } = self.messages[message as usize];
        if parent != NONE {
            self.part_ended(message, parent, true);
            return;
        }
        self.free(message);
        let waits = self.customers[customer as usize].serial == serial
            && self.customers[customer as usize].waiting;
        let class = self.customers[customer as usize].class as usize;
        if waits && self.classes[class].rules.timeout.is_none() {
            self.tally.classes[class].unanswered += 1;
            self.end_request(customer);
        }
    }
}

impl ClassState {
    fn new(mut rules: ClassRules) -> Self {
        let clients = match (&rules.source, &rules.cache) {
            (Source::Closed { population, .. }, Some(cache)) if cache.each_client => *population,
            _ => 1,
        };
        let caches =
            rules.cache.as_mut().map_or_else(Vec::new, |cache| filled(cache, clients as usize));
        Self { rules, caches, phase: 0, trace_offset: 0.0, arrival_ticket: 0, first_customer: 0 }
    }

    fn chance(&mut self) -> &mut Random {
        &mut self.rules.chance
    }
}
