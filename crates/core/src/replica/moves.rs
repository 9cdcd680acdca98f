//! Permission from the root's home for directories that get another parent, so that no directory
//! becomes its own ancestor.
//!
//! Rules:
//! 1. One move (a rename of a directory to another parent) has permission at a time; other requests
//!    must be retried later.
//! 2. Before permission is granted, the chain of ancestors is followed from the new parent up to
//!    the root: the home of each directory of the chain is asked for the directory's parent. If the
//!    moved directory is in the chain, the move is refused. If a directory of the chain is gone, or
//!    its home does not reply, the request must be retried later.
//! 3. Permission is granted when it is on stable storage. The permission ends when the directory's
//!    home reports that the move is done or given up. The home is asked each second, and also when
//!    another move requests permission.
//! 4. After a restart the stored permission is still valid.
//! 5. A chain of parents that does not reach the root within a limit is given up.

use leasehold_base::limits::durations::{ANCESTRY_TIMEOUT, PEER_RETRY_DELAY};
use leasehold_base::units::{FileId, Time};

use super::{Call, Peer, Ticket};

/// The maximum depth of directories: more than any path can contain.
pub const DEPTH_MAX: usize = 1 << 11;

/// A directory that is to get another parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The directory's home.
    pub home: Peer,
    /// The number by which the directory's home identifies the move.
    pub number: u64,
    /// The directory.
    pub directory: FileId,
    /// The new parent.
    pub parent: FileId,
}

/// An event for the moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A home requests permission.
    Ask(Ticket, Move),
    /// The parent of a directory, as its home replied; `None` if the directory is gone or the home
    /// did not reply.
    Above(Call, Option<FileId>),
    /// The permission is on stable storage.
    Noted,
    /// The home reports that the move with this number, which had permission, has ended.
    Ended(Peer, u64),
    /// Time has passed.
    Tick,
}

/// An action that the owner of this state machine must perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask the directory's home for the directory's parent; a cached copy does not suffice.
    LookAbove(Call, FileId),
    /// Store the permitted move, or its end; for a move, [`Event::Noted`] follows.
    Note(Option<Move>),
    /// Ask the directory's home if the move is still pending.
    AskEnded(Move),
    /// The move has permission.
    Given(Ticket),
    /// The directory would be its own ancestor.
    Loop(Ticket),
    /// The request must be retried later.
    Later(Ticket),
}

#[derive(Clone, Copy, Debug)]
enum State {
    Idle,
    /// The ancestors of the new parent are being examined.
    Looking {
        ticket: Ticket,
        asked: Move,
        at: FileId,
        depth: usize,
        until: Time,
    },
    /// The permission is being stored.
    Noting {
        ticket: Ticket,
        asked: Move,
    },
    /// The move has permission; at the given time the directory's home is asked whether the move is
    /// still pending.
    Given {
        given: Move,
        ask: Time,
    },
}

/// The permission for moves of directories.
#[derive(Clone, Debug)]
pub struct Moves {
    root: FileId,
    state: State,
    last_call: u64,
    #[cfg(feature = "mutants")]
    looks_nowhere: bool,
}

impl Moves {
    /// Creates the state from the stored permission, if there is one.
    #[must_use]
    pub fn new(now: Time, root: FileId, stored: Option<Move>) -> Self {
        Self {
            root,
            // Rule 4: the stored permission is still valid after a restart.
            state: stored.map_or(State::Idle, |given| State::Given { given, ask: now }),
            last_call: 0,
            #[cfg(feature = "mutants")]
            looks_nowhere: false,
        }
    }

    /// Injects a fault: every request gets permission.
    #[cfg(feature = "mutants")]
    pub const fn look_nowhere(&mut self) {
        self.looks_nowhere = true;
    }

    /// Handles one event, and appends the resulting actions in order.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Ask(ticket, asked) => self.ask(now, ticket, asked, effects),
            Event::Above(call, above) => self.above(now, call, above, effects),
            Event::Noted => {
                // Rule 3: permission is granted when it is on stable storage.
                if let State::Noting { ticket, asked } = self.state {
                    self.state = State::Given { given: asked, ask: now + PEER_RETRY_DELAY };
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

    /// Returns the next time at which a home is asked again or times out.
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
        // Rule 1: one move has permission at a time, so a request during another move must be
        // retried later.
        match self.state {
            State::Idle => {
                let until = now + ANCESTRY_TIMEOUT;
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
        // Rules 2 and 5: if the directory is gone, its home did not reply, or the chain is too
        // long, the request must be retried later.
        let Some(above) = above.filter(|_| depth < DEPTH_MAX) else {
            self.state = State::Idle;
            effects.push(Effect::Later(ticket));
            return;
        };
        let until = now + ANCESTRY_TIMEOUT;
        self.state = State::Looking { ticket, asked, at: above, depth: depth + 1, until };
        self.look(effects);
    }

    /// Rule 2: checks the current ancestor: refuses the move, grants permission at the root, or
    /// asks for the ancestor's parent.
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
            // Rule 3: each second, ask the directory's home whether the move is still pending.
            State::Given { given, ask } if ask <= now => {
                self.state = State::Given { given, ask: now + PEER_RETRY_DELAY };
                effects.push(Effect::AskEnded(given));
            }
            State::Idle | State::Looking { .. } | State::Noting { .. } | State::Given { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests;
