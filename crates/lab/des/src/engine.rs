//! One replication of a model: the event loop and the state that it changes.
//!
//! A **customer** waits for a reply; a **message** is one request, retransmission or part of a fork
//! on its route through the centres. A message has the number of its customer and the serial number
//! of its request; if the serial numbers differ, the customer no longer waits for the message.

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

/// An event, packed into 32 bits, four of them for the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Event(u32);

const INDEX_BITS: u32 = 28;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

/// The kinds of event, with the meaning of their index.
mod kind {
    /// Message: its service at a centre with servers ends.
    pub(super) const SERVED: u32 = 0;
    /// Customer: its think time ends.
    pub(super) const THOUGHT: u32 = 1;
    /// Class: a customer arrives from outside.
    pub(super) const ARRIVAL: u32 = 2;
    /// Centre: the next message of a shared or load-dependent server is complete.
    pub(super) const SHARED: u32 = 3;
    /// Customer: its timeout expires.
    pub(super) const TIMEOUT: u32 = 4;
    /// Message: retries a full centre.
    pub(super) const RETRY: u32 = 5;
    /// Class: bursty arrivals change to the next phase.
    pub(super) const PHASE: u32 = 6;
    /// Centre: crashes.
    pub(super) const CRASH: u32 = 7;
    /// Centre: restarts.
    pub(super) const RESTART: u32 = 8;
}

impl Event {
    #[inline]
    const fn new(kind: u32, index: u32) -> Self {
        Self(kind << INDEX_BITS | index)
    }
}

/// One request, retransmission or part of a fork on its route.
#[derive(Clone, Copy, Debug)]
struct Message {
    class: u32,
    leg: u32,
    customer: u32,
    /// The request of the customer that this message belongs to.
    serial: u32,
    /// The next message in a queue or in the list of free ones.
    next: u32,
    /// The ticket of the event that ends its service.
    ticket: u32,
    /// The message of which this is a part.
    parent: u32,
    /// Parts still in progress, and a flag for a lost part.
    parts: u32,
    broken: bool,
    /// Remaining seconds of service after an interruption.
    remaining: f64,
    /// The end of its service: a time, or the virtual time of a shared server.
    end: f64,
}

/// A customer.
#[derive(Clone, Copy, Debug)]
struct Customer {
    class: u32,
    serial: u32,
    waiting: bool,
    sent: u32,
    started: f64,
    /// The deadline, and the ticket and time of the event that checks it.
    deadline: f64,
    alarm: f64,
    alarm_ticket: u32,
    /// The requested block and a flag for writes; the reply adds the block to the cache.
    block: u32,
    /// The first leg of the request, for retransmissions.
    first_leg: u32,
}

/// The state of a class.
#[derive(Clone, Debug)]
struct ClassState {
    rules: ClassRules,
    /// Caches: one for each client, or one for all.
    caches: Vec<Lru>,
    /// The phase of bursty arrivals, or the position in a trace.
    phase: usize,
    trace_offset: f64,
    arrival_ticket: u32,
    first_customer: u32,
}

/// The reasons for which a replication would never end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Runaway {
    /// Events occur without end while simulated time does not advance.
    StandsStill {
        /// The simulated time, in seconds.
        at: f64,
    },
    /// The number of events far exceeds the number of requests and services.
    Overrun {
        /// The number of events.
        events: u64,
        /// The simulated time that they reached, in seconds.
        at: f64,
    },
    /// Requests arrive faster than they are served, and fill the memory.
    Crowd {
        /// The number of concurrent requests.
        requests: usize,
        /// The simulated time, in seconds.
        at: f64,
    },
}

impl fmt::Display for Runaway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StandsStill { at } => write!(
                f,
                "time stands still at {at:.6} s: requests that end immediately (rejected, lost, or \
                 answered by a cache that skips every centre) are repeated without a pause; give \
                 their class a think time, a timeout or try_again"
            ),
            Self::Overrun { events, at } => write!(
                f,
                "{events} events led no further than {at:.3e} s: a time or a rate of the model is \
                 so small or large compared with the others that almost no request is answered"
            ),
            Self::Crowd { requests, at } => write!(
                f,
                "{requests} requests are in progress at {at:.3} s: the arrival rate exceeds the capacity"
            ),
        }
    }
}

/// The largest number of events without progress of time in a valid model, in addition to the
/// events of its own customers.
const EVENTS_AT_ONE_TIME_MAX: u64 = 1 << 20;

/// The largest number of events of one customer, or for one service, in a valid model.
const EVENTS_AT_ONCE: u64 = 64;

/// The largest number of concurrent requests in addition to one for each customer: about 150 MB.
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
    /// Remaining events until the next check that time advances.
    patience: u64,
}

impl Engine {
    /// Returns the minimum number of bytes for a replication of a model.
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

    /// Returns a replication of a checked model; each seed has its own random streams.
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
        engine.patience = EVENTS_AT_ONE_TIME_MAX + EVENTS_AT_ONCE * engine.customers.len() as u64;
        for centre in 0..engine.centres.len() {
            engine.plan_crash(centre);
        }
        engine
    }

    /// Returns the simulated time.
    #[must_use]
    pub const fn now(&self) -> f64 {
        self.now
    }

    /// Runs until `end` in simulated time, within `events_max` events.
    ///
    /// # Errors
    /// The time of the model does not advance, or the model exceeds the number of events.
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

    /// Runs until `count` requests are complete or services done, or until no event is pending.
    ///
    /// # Errors
    /// The time of the model does not advance, or too many events occur between two services.
    pub fn run_completions(&mut self, count: u64) -> Result<(), Runaway> {
        // A check after a few hundred events costs little and stops soon enough.
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
                // True if time stood still for most of these events.
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

    /// Returns the counts since the last call and resets them.
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
            kind::RETRY => self.enter(index),
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

    /// Completes the visit of a message: a part reports to the whole, a whole takes the next leg.
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

    /// Loses a message in transit. A customer with a timeout retransmits it.
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
