//! Customers: arrivals, thinking, caches and leases, timeouts and retransmission.

use super::{Customer, Engine, Event, Message, NONE, kind};
use crate::law::{exponential, unit};
use crate::program::{Source, position};

impl Engine {
    /// Adds the customers of a closed class, or the first arrival of an open one.
    pub(super) fn open_class(&mut self, class: usize) {
        self.classes[class].first_customer = position(self.customers.len());
        match &self.classes[class].rules.source {
            Source::Closed { population, .. } => {
                for _ in 0..*population {
                    let customer = self.new_customer(class);
                    self.think(customer);
                }
            }
            Source::Bursts { .. } => {
                self.plan_phase(class);
                self.plan_arrival(class);
            }
            Source::Poisson { .. } | Source::Regular { .. } | Source::Trace { .. } => {
                self.plan_arrival(class);
            }
        }
    }

    fn new_customer(&mut self, class: usize) -> u32 {
        if let Some(free) = self.free_customers.pop() {
            self.customers[free as usize].class = position(class);
            return free;
        }
        self.customers.push(Customer {
            class: position(class),
            serial: 0,
            waiting: false,
            sent: 0,
            started: 0.0,
            deadline: 0.0,
            alarm: 0.0,
            alarm_ticket: 0,
            block: NONE,
            first_leg: 0,
        });
        position(self.customers.len() - 1)
    }

    fn think(&mut self, customer: u32) {
        let class = self.customers[customer as usize].class as usize;
        let rules = &mut self.classes[class].rules;
        if let Source::Closed { think, .. } = rules.source {
            let moment = self.now + think.draw(&mut rules.chance);
            self.calendar.schedule(moment, Event::new(kind::THOUGHT, customer));
        }
    }

    /// Handles an arrival from outside, unless its ticket is outdated.
    pub(super) fn arrival(&mut self, class: u32, ticket: u32) {
        let class = class as usize;
        if self.classes[class].arrival_ticket != ticket {
            return;
        }
        self.plan_arrival(class);
        let customer = self.new_customer(class);
        self.start_request(customer);
    }

    fn plan_arrival(&mut self, class: usize) {
        let now = self.now;
        let state = &mut self.classes[class];
        let moment = match &state.rules.source {
            Source::Closed { .. } => return,
            Source::Poisson { mean_gap } => now + mean_gap * exponential(&mut state.rules.chance),
            Source::Regular { gap } => now + gap,
            Source::Bursts { phases } => {
                now + phases[state.phase].mean_gap * exponential(&mut state.rules.chance)
            }
            Source::Trace { seconds } => {
                if state.phase == seconds.len() {
                    state.phase = 0;
                    state.trace_offset += seconds[seconds.len() - 1];
                }
                state.phase += 1;
                state.trace_offset + seconds[state.phase - 1]
            }
        };
        // A silent phase has no next arrival; the next phase schedules one.
        state.arrival_ticket = if moment.is_finite() {
            self.calendar.schedule(moment, Event::new(kind::ARRIVAL, position(class)))
        } else {
            0
        };
    }

    fn plan_phase(&mut self, class: usize) {
        let state = &mut self.classes[class];
        if let Source::Bursts { phases } = &state.rules.source {
            let stay = phases[state.phase].mean_stay * exponential(&mut state.rules.chance);
            self.calendar.schedule(self.now + stay, Event::new(kind::PHASE, position(class)));
        }
    }

    /// Changes bursty arrivals to the next phase and draws a new interarrival time.
    pub(super) fn change_phase(&mut self, class: u32) {
        let class = class as usize;
        let state = &mut self.classes[class];
        if let Source::Bursts { phases } = &state.rules.source {
            state.phase = (state.phase + 1) % phases.len();
        }
        self.plan_phase(class);
        self.plan_arrival(class);
    }

    /// Starts a request of a customer.
    #[inline]
    pub(super) fn start_request(&mut self, customer: u32) {
        let class = self.customers[customer as usize].class as usize;
        self.tally.classes[class].offered += 1;
        let first_leg = if self.classes[class].rules.cache.is_some() {
            self.consult_cache(customer, class)
        } else {
            self.classes[class].rules.whole
        };
        let now = self.now;
        let state = &mut self.customers[customer as usize];
        state.serial = state.serial.wrapping_add(1);
        state.waiting = true;
        state.sent = 1;
        state.started = now;
        state.first_leg = first_leg;
        if let Some((after, _, _)) = self.classes[class].rules.timeout {
            self.set_alarm(customer, now + after);
        }
        self.send(customer);
    }

    fn send(&mut self, customer: u32) {
        let state = &self.customers[customer as usize];
        let message = Message {
            class: state.class,
            leg: state.first_leg,
            customer,
            serial: state.serial,
            next: NONE,
            ticket: 0,
            parent: NONE,
            parts: 0,
            broken: false,
            remaining: 0.0,
            end: 0.0,
        };
        let message = self.new_message(message);
        self.proceed(message);
    }

    /// Returns the first leg of the request: of a hit, of a lease renewal, or of the whole route.
    fn consult_cache(&mut self, customer: u32, class: usize) -> u32 {
        let now = self.now;
        let state = &mut self.classes[class];
        let Some(rules) = &state.rules.cache else { return state.rules.whole };
        let block = rules.popularity.draw(&mut state.rules.chance);
        let own = if rules.each_client && state.caches.len() > 1 {
            (customer - state.first_customer) as usize
        } else {
            0
        };
        self.customers[customer as usize].block = block;
        if rules.writes > 0.0 && unit(&mut state.rules.chance) < rules.writes {
            for (other, cache) in state.caches.iter_mut().enumerate() {
                if other != own {
                    cache.evict(block);
                }
            }
            return state.rules.whole;
        }
        match state.caches[own].use_block(block) {
            Some(lease_end) if now < lease_end => {
                self.customers[customer as usize].block = NONE;
                self.tally.classes[class].hits += 1;
                rules.hit
            }
            Some(_) => {
                self.tally.classes[class].renewals += 1;
                rules.renewal
            }
            None => state.rules.whole,
        }
    }

    /// Delivers a reply; a customer that still waits accepts it.
    #[inline]
    pub(super) fn answer(&mut self, message: u32) {
        let Message { customer, serial, class, .. } = self.messages[message as usize];
        self.free(message);
        let state = &self.customers[customer as usize];
        let tally = &mut self.tally.classes[class as usize];
        if state.serial != serial || !state.waiting {
            tally.wasted += 1;
            return;
        }
        let response = self.now - state.started;
        tally.answered += 1;
        tally.response_sum += response;
        tally.responses.add(response);
        if state.block != NONE {
            self.fill_cache(customer, class as usize);
        }
        self.end_request(customer);
    }

    fn fill_cache(&mut self, customer: u32, class: usize) {
        let now = self.now;
        let state = &mut self.classes[class];
        if let Some(rules) = &state.rules.cache {
            let own = (customer - state.first_customer) as usize;
            let own = if state.caches.len() > 1 { own } else { 0 };
            let block = core::mem::replace(&mut self.customers[customer as usize].block, NONE);
            state.caches[own].insert(block, now + rules.term);
        }
    }

    /// Ends the request of a customer, with or without a reply.
    #[inline]
    pub(super) fn end_request(&mut self, customer: u32) {
        let state = &mut self.customers[customer as usize];
        state.waiting = false;
        state.block = NONE;
        let class = state.class as usize;
        if matches!(self.classes[class].rules.source, Source::Closed { .. }) {
            self.think(customer);
        } else {
            self.free_customers.push(customer);
        }
    }

    /// Schedules a check of the customer at `deadline`. Each customer has one event; it is
    /// scheduled again if the deadline has moved.
    fn set_alarm(&mut self, customer: u32, deadline: f64) {
        let state = &mut self.customers[customer as usize];
        state.deadline = deadline;
        if state.alarm_ticket == 0 || deadline < state.alarm {
            state.alarm = deadline;
            state.alarm_ticket =
                self.calendar.schedule(deadline, Event::new(kind::TIMEOUT, customer));
        }
    }

    /// Handles a customer's timeout: it waits longer, retransmits, or gives up.
    pub(super) fn timeout(&mut self, customer: u32, ticket: u32) {
        let now = self.now;
        let state = &mut self.customers[customer as usize];
        if state.alarm_ticket != ticket {
            return;
        }
        state.alarm_ticket = 0;
        if !state.waiting {
            return;
        }
        let (deadline, class, sent) = (state.deadline, state.class as usize, state.sent);
        if now < deadline {
            self.set_alarm(customer, deadline);
            return;
        }
        let Some((after, backoff, retries)) = self.classes[class].rules.timeout else { return };
        if sent > retries {
            self.tally.classes[class].unanswered += 1;
            self.end_request(customer);
            return;
        }
        self.customers[customer as usize].sent += 1;
        self.tally.classes[class].retransmitted += 1;
        self.set_alarm(customer, now + after * libm::pow(backoff, f64::from(sent)));
        self.send(customer);
    }
}
