//! The root's home gives leave to directories that get another parent, so that none becomes its own
//! ancestor.
//!
//! Rules:
//! 1. One has leave at a time; who else asks comes again.
//! 2. Before leave is given the new parent and all that is above it are asked for from their homes,
//!    up to the root. If the directory is among them it gets no leave. If one is gone, or its home
//!    does not say, it is to come again.
//! 3. Leave is given when it is on stable storage. It ends when the home of the directory says that
//!    the move is done or given up; that home is asked each second, and when another asks for leave.
//! 4. After a restart the leave that is stored still holds.
//! 5. A way to the root that does not end is given up.

use core::time::Duration;

use leasehold_base::units::{FileId, Time};

use super::{Call, Peer, Ticket};

/// How long until who has leave is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// How long a home may take to say what is above a directory.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many directories may lie above one another: more than any path can name.
pub const DEPTH_MAX: usize = 1 << 11;

/// A directory that is to get another parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Its home.
    pub home: Peer,
    /// The number that its home gave the move.
    pub number: u64,
    /// The directory.
    pub directory: FileId,
    /// The new parent.
    pub parent: FileId,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A home asks for leave.
    Ask(Ticket, Move),
    /// What is above a directory, as its home says that was asked; none where it is gone or does not say.
    Above(Call, Option<FileId>),
    /// The leave is on stable storage.
    Noted,
    /// What the home says of the move that has leave, by its home and number.
    Ended(Peer, u64),
    /// Time went on.
    Tick,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The home of the directory is asked what is above it, not a copy.
    LookAbove(Call, FileId),
    /// Who has leave, if any, goes to stable storage; for one that has, [`Event::Noted`] follows.
    Note(Option<Move>),
    /// Its home is asked whether the move is under way.
    AskEnded(Move),
    /// The move has leave.
    Given(Ticket),
    /// The directory would be above itself.
    Loop(Ticket),
    /// It is to be asked again.
    Later(Ticket),
}

#[derive(Clone, Copy, Debug)]
enum State {
    Idle,
    /// It is looked for above the parent.
    Looking {
        ticket: Ticket,
        asked: Move,
        at: FileId,
        depth: usize,
        until: Time,
    },
    /// It goes to stable storage.
    Noting {
        ticket: Ticket,
        asked: Move,
    },
    /// It has leave, and its home is asked at that time.
    Given {
        given: Move,
        ask: Time,
    },
}

/// Who has leave.
#[derive(Clone, Debug)]
pub struct Moves {
    root: FileId,
    state: State,
    last_call: u64,
    #[cfg(feature = "mutants")]
    looks_nowhere: bool,
}

impl Moves {
    /// Starts with who has leave, as it is stored.
    #[must_use]
    pub fn new(now: Time, root: FileId, stored: Option<Move>) -> Self {
        Self {
            root,
            state: stored.map_or(State::Idle, |given| State::Given { given, ask: now }),
            last_call: 0,
            #[cfg(feature = "mutants")]
            looks_nowhere: false,
        }
    }

    /// Plants a fault: each gets leave that asks.
    #[cfg(feature = "mutants")]
    pub const fn look_nowhere(&mut self) {
        self.looks_nowhere = true;
    }

    /// Takes one event, and appends what is to be done in order.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Ask(ticket, asked) => self.ask(now, ticket, asked, effects),
            Event::Above(call, above) => self.above(now, call, above, effects),
            Event::Noted => {
                if let State::Noting { ticket, asked } = self.state {
                    self.state = State::Given { given: asked, ask: now + AGAIN };
                    effects.push(Effect::Given(ticket));
                }
            }
            Event::Ended(home, number) => {
                if let State::Given { given, .. } = self.state
                    && (given.home, given.number) == (home, number)
                {
                    self.state = State::Idle;
                    effects.push(Effect::Note(None));
                }
            }
            Event::Tick => self.tick(now, effects),
        }
    }

    /// When somebody is asked again, or not waited for any more.
    #[must_use]
    pub const fn next_wake(&self) -> Option<Time> {
        match self.state {
            State::Idle | State::Noting { .. } => None,
            State::Looking { until, .. } => Some(until),
            State::Given { ask, .. } => Some(ask),
        }
    }

    fn ask(&mut self, now: Time, ticket: Ticket, asked: Move, effects: &mut Vec<Effect>) {
        #[cfg(feature = "mutants")]
        if self.looks_nowhere {
            effects.push(Effect::Given(ticket));
            return;
        }
        match self.state {
            State::Idle => {
                let until = now + PATIENCE;
                self.state = State::Looking { ticket, asked, at: asked.parent, depth: 0, until };
                self.look(effects);
            }
            State::Given { given, .. } => {
                effects.extend([Effect::Later(ticket), Effect::AskEnded(given)]);
            }
            State::Looking { .. } | State::Noting { .. } => effects.push(Effect::Later(ticket)),
        }
    }

    fn above(&mut self, now: Time, call: Call, above: Option<FileId>, effects: &mut Vec<Effect>) {
        let State::Looking { ticket, asked, depth, .. } = self.state else { return };
        if call.0 != self.last_call {
            return;
        }
        let Some(above) = above.filter(|_| depth < DEPTH_MAX) else {
            self.state = State::Idle;
            effects.push(Effect::Later(ticket));
            return;
        };
        let until = now + PATIENCE;
        self.state = State::Looking { ticket, asked, at: above, depth: depth + 1, until };
        self.look(effects);
    }

    /// Goes on from where it has come to.
    fn look(&mut self, effects: &mut Vec<Effect>) {
        let State::Looking { ticket, asked, at, .. } = self.state else { return };
        if at == asked.directory {
            self.state = State::Idle;
            effects.push(Effect::Loop(ticket));
        } else if at == self.root {
            self.state = State::Noting { ticket, asked };
            effects.push(Effect::Note(Some(asked)));
        } else {
            self.last_call += 1;
            effects.push(Effect::LookAbove(Call(self.last_call), at));
        }
    }

    fn tick(&mut self, now: Time, effects: &mut Vec<Effect>) {
        match self.state {
            State::Looking { ticket, until, .. } if until <= now => {
                self.state = State::Idle;
                effects.push(Effect::Later(ticket));
            }
            State::Given { given, ask } if ask <= now => {
                self.state = State::Given { given, ask: now + AGAIN };
                effects.push(Effect::AskEnded(given));
            }
            State::Idle | State::Looking { .. } | State::Noting { .. } | State::Given { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests;
