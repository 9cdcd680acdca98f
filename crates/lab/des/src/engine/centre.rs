//! Centres: the order of service, its duration, full centres and crashes.

use super::{Engine, Event, NONE, kind};
use crate::law::{exponential, unit};
use crate::program::{CentreRules, Leg, Serving, position};
use crate::tally::CellTally;

/// The number of present customers of a class, and the time of its last change.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Present {
    count: f64,
    since: f64,
}

impl Present {
    #[inline]
    pub(super) fn advance(&mut self, now: f64, cell: &mut CellTally) {
        cell.area += self.count * (now - self.since);
        self.since = now;
    }
}

/// Waiting messages in FIFO order, linked by `next`.
#[derive(Clone, Copy, Debug)]
struct Line {
    priority: u8,
    head: u32,
    tail: u32,
}

/// A centre's state.
#[derive(Clone, Debug)]
pub(super) struct CentreState {
    rules: CentreRules,
    pub(super) present: Vec<Present>,
    /// All messages at the centre, waiting or in service.
    total: usize,
    /// Waiting lines, highest priority first.
    lines: Vec<Line>,
    /// Messages in service: unordered at single servers, a heap by end at shared ones.
    serving: Vec<u32>,
    /// Service that each sharing message has received so far, and the time of the last update.
    virtual_time: f64,
    updated: f64,
    ticket: u32,
    down: bool,
}

impl CentreState {
    pub(super) fn new(rules: CentreRules, classes: usize) -> Self {
        Self {
            rules,
            present: vec![Present::default(); classes],
            total: 0,
            lines: Vec::new(),
            serving: Vec::new(),
            virtual_time: 0.0,
            updated: 0.0,
            ticket: 0,
            down: false,
        }
    }

    /// Returns the rate of service for each message.
    fn pace(&self) -> f64 {
        let rate = |rates: &[f64]| rates[self.total.clamp(1, rates.len()) - 1];
        match &self.rules.serving {
            Serving::Delay | Serving::Servers { .. } => 1.0,
            Serving::Shared { rates } => rate(rates) / self.total.max(1) as f64,
            Serving::Paced { rates } => rate(rates),
        }
    }

    fn line(&mut self, priority: u8) -> &mut Line {
        let at = self.lines.partition_point(|line| line.priority > priority);
        if self.lines.get(at).is_none_or(|line| line.priority != priority) {
            self.lines.insert(at, Line { priority, head: NONE, tail: NONE });
        }
        &mut self.lines[at]
    }
}

impl Engine {
    /// Handles the arrival of a message at the centre of its leg.
    #[inline]
    pub(super) fn enter(&mut self, message: u32) {
        let index = message as usize;
        let Leg::Visit { centre, service, chance } =
            &mut self.legs[self.messages[index].leg as usize]
        else {
            return;
        };
        let (centre, class) = (*centre as usize, self.messages[index].class as usize);
        let state = &mut self.centres[centre];
        if state.total >= state.rules.capacity && !state.down {
            self.refuse(message);
            return;
        }
        if state.down
            || (state.rules.loss > 0.0 && unit(&mut state.rules.chance) < state.rules.loss)
        {
            self.lose(message);
            return;
        }
        let need = service.draw(chance);
        let cell = &mut self.tally.cells[centre * self.classes.len() + class];
        cell.busy += need;
        let now = self.now;
        let present = &mut state.present[class];
        present.advance(now, cell);
        present.count += 1.0;
        match state.rules.serving {
            Serving::Delay => {
                state.total += 1;
                self.serve(message, need);
            }
            Serving::Servers { count, preemptive } => {
                state.total += 1;
                self.messages[index].remaining = need;
                if state.serving.len() < count {
                    state.serving.push(message);
                    self.serve(message, need);
                } else if !(preemptive && self.preempt(centre, message)) {
                    self.wait(centre, message);
                }
            }
            Serving::Shared { .. } => self.share(centre, message, need),
            Serving::Paced { .. } => self.queue_up(centre, message, need),
        }
    }

    /// Begins a service that runs to its end at full rate.
    #[inline]
    fn serve(&mut self, message: u32, need: f64) {
        let end = self.now + need;
        let ticket = self.calendar.schedule(end, Event::new(kind::SERVED, message));
        let state = &mut self.messages[message as usize];
        state.ticket = ticket;
        state.end = end;
    }

    fn wait(&mut self, centre: usize, message: u32) {
        let priority = self.priority(centre, message);
        self.messages[message as usize].next = NONE;
        let line = self.centres[centre].line(priority);
        let tail = core::mem::replace(&mut line.tail, message);
        if tail == NONE {
            line.head = message;
        } else {
            self.messages[tail as usize].next = message;
        }
    }

    /// Returns the line for a message; all messages are equal at centres without priorities.
    fn priority(&self, centre: usize, message: u32) -> u8 {
        if self.centres[centre].rules.by_priority {
            self.classes[self.messages[message as usize].class as usize].rules.priority
        } else {
            0
        }
    }

    /// Takes the server of a message with lower priority, if one exists.
    fn preempt(&mut self, centre: usize, message: u32) -> bool {
        let priority =
            |of: u32| self.classes[self.messages[of as usize].class as usize].rules.priority;
        let state = &self.centres[centre];
        let lowest = (0..state.serving.len()).min_by_key(|&at| priority(state.serving[at]));
        let Some(at) = lowest.filter(|&at| priority(state.serving[at]) < priority(message)) else {
            return false;
        };
        let loser = state.serving[at];
        let loser_priority = priority(loser);
        let now = self.now;
        let interrupted = &mut self.messages[loser as usize];
        interrupted.ticket = 0;
        interrupted.remaining = interrupted.end - now;
        let line = self.centres[centre].line(loser_priority);
        let head = core::mem::replace(&mut line.head, loser);
        if line.tail == NONE {
            line.tail = loser;
        }
        self.messages[loser as usize].next = head;
        self.centres[centre].serving[at] = message;
        let need = self.messages[message as usize].remaining;
        self.serve(message, need);
        true
    }

    /// Returns the next waiting message with the highest priority.
    fn next_waiting(&mut self, centre: usize) -> Option<u32> {
        let state = &mut self.centres[centre];
        let line = state.lines.iter_mut().find(|line| line.head != NONE)?;
        let message = line.head;
        line.head = self.messages[message as usize].next;
        if line.head == NONE {
            line.tail = NONE;
        }
        Some(message)
    }

    /// Completes a service at a delay or at a server.
    #[inline]
    pub(super) fn served(&mut self, message: u32, ticket: u32) {
        let state = &self.messages[message as usize];
        if state.ticket != ticket {
            return;
        }
        let Leg::Visit { centre, .. } = self.legs[state.leg as usize] else { return };
        let centre = centre as usize;
        self.leave(centre, message);
        let serving = &mut self.centres[centre].serving;
        if let Some(at) = serving.iter().position(|served| *served == message) {
            serving.swap_remove(at);
            if let Some(next) = self.next_waiting(centre) {
                self.centres[centre].serving.push(next);
                let need = self.messages[next as usize].remaining;
                self.serve(next, need);
            }
        }
        self.visited(message);
    }

    /// Removes a message from the counts of a centre.
    #[inline]
    fn leave(&mut self, centre: usize, message: u32) {
        self.depart(centre, message);
        let class = self.messages[message as usize].class as usize;
        self.tally.cells[centre * self.classes.len() + class].served += 1;
    }

    #[inline]
    fn depart(&mut self, centre: usize, message: u32) {
        let class = self.messages[message as usize].class as usize;
        self.messages[message as usize].ticket = 0;
        let state = &mut self.centres[centre];
        state.total -= 1;
        let present = &mut state.present[class];
        present.advance(self.now, &mut self.tally.cells[centre * self.classes.len() + class]);
        present.count -= 1.0;
    }

    /// Updates the service that a shared or load-dependent server has given.
    fn bring_up(&mut self, centre: usize) {
        let now = self.now;
        let state = &mut self.centres[centre];
        if !state.serving.is_empty() {
            state.virtual_time += (now - state.updated) * state.pace();
        }
        state.updated = now;
    }

    fn share(&mut self, centre: usize, message: u32, need: f64) {
        self.bring_up(centre);
        let state = &mut self.centres[centre];
        if state.serving.is_empty() {
            // A reset keeps virtual time small and precise.
            state.virtual_time = 0.0;
        }
        self.messages[message as usize].end = state.virtual_time + need;
        state.total += 1;
        state.serving.push(message);
        self.sift_up(centre);
        self.plan_shared(centre);
    }

    fn queue_up(&mut self, centre: usize, message: u32, need: f64) {
        self.bring_up(centre);
        self.messages[message as usize].remaining = need;
        let state = &mut self.centres[centre];
        state.total += 1;
        if state.serving.is_empty() {
            state.virtual_time = 0.0;
            self.messages[message as usize].end = need;
            state.serving.push(message);
        } else {
            self.wait(centre, message);
        }
        self.plan_shared(centre);
    }

    /// Schedules the next end of service at the present rate.
    fn plan_shared(&mut self, centre: usize) {
        let state = &mut self.centres[centre];
        state.ticket = 0;
        if let Some(&first) = state.serving.first() {
            let left = (self.messages[first as usize].end - state.virtual_time).max(0.0);
            let moment = self.now + left / state.pace();
            let event = Event::new(kind::SHARED, position(centre));
            state.ticket = self.calendar.schedule(moment, event);
        }
    }

    /// Completes the first message of a shared or load-dependent server.
    pub(super) fn shared_served(&mut self, centre: usize, ticket: u32) {
        if self.centres[centre].ticket != ticket {
            return;
        }
        self.bring_up(centre);
        let message = self.centres[centre].serving[0];
        self.centres[centre].virtual_time = self.messages[message as usize].end;
        self.centres[centre].serving.swap_remove(0);
        self.sift_down(centre);
        self.leave(centre, message);
        if matches!(self.centres[centre].rules.serving, Serving::Paced { .. })
            && let Some(next) = self.next_waiting(centre)
        {
            let need = self.messages[next as usize].remaining;
            let state = &mut self.centres[centre];
            state.virtual_time = 0.0;
            state.serving.push(next);
            self.messages[next as usize].end = need;
        }
        self.plan_shared(centre);
        self.visited(message);
    }

    /// Orders the binary heap of a shared server: soonest end first; equal ends by message.
    fn ends_sooner(&self, a: u32, b: u32) -> bool {
        let key = |of: u32| (self.messages[of as usize].end, of);
        key(a) < key(b)
    }

    fn sift_up(&mut self, centre: usize) {
        let mut here = self.centres[centre].serving.len() - 1;
        while here > 0 {
            let parent = (here - 1) / 2;
            let serving = &self.centres[centre].serving;
            if !self.ends_sooner(serving[here], serving[parent]) {
                break;
            }
            self.centres[centre].serving.swap(here, parent);
            here = parent;
        }
    }

    fn sift_down(&mut self, centre: usize) {
        let mut here = 0;
        loop {
            let serving = &self.centres[centre].serving;
            let children = (2 * here + 1..=2 * here + 2).filter(|child| *child < serving.len());
            let best = children
                .reduce(|a, b| if self.ends_sooner(serving[b], serving[a]) { b } else { a });
            let Some(best) = best.filter(|&b| self.ends_sooner(serving[b], serving[here])) else {
                return;
            };
            self.centres[centre].serving.swap(here, best);
            here = best;
        }
    }

    /// Rejects a message at a full centre: it retries later, or is lost.
    fn refuse(&mut self, message: u32) {
        let class = self.messages[message as usize].class as usize;
        match self.classes[class].rules.try_again {
            Some(pause) => {
                let moment = self.now + pause * exponential(self.classes[class].chance());
                self.calendar.schedule(moment, Event::new(kind::RETRY, message));
            }
            None => self.lose(message),
        }
    }

    /// Schedules the next crash of a centre that is up.
    pub(super) fn plan_crash(&mut self, centre: usize) {
        let rules = &mut self.centres[centre].rules;
        if let Some((up, _)) = rules.crashes {
            let moment = self.now + up * exponential(&mut rules.chance);
            self.calendar.schedule(moment, Event::new(kind::CRASH, position(centre)));
        }
    }

    /// Crashes a centre; every message in it is lost.
    pub(super) fn crash(&mut self, centre: usize) {
        let mut victims = core::mem::take(&mut self.centres[centre].serving);
        while let Some(message) = self.next_waiting(centre) {
            victims.push(message);
        }
        self.centres[centre].down = true;
        self.centres[centre].ticket = 0;
        for message in victims {
            self.depart(centre, message);
            self.lose(message);
        }
        if let Some((_, down)) = self.centres[centre].rules.crashes {
            let event = Event::new(kind::RESTART, position(centre));
            self.calendar.schedule(self.now + down, event);
        }
    }

    /// Restarts a centre, empty.
    pub(super) fn restart(&mut self, centre: usize) {
        self.centres[centre].down = false;
        self.plan_crash(centre);
    }
}
