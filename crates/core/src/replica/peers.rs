//! Who there is, and whether this metaserver may serve.
//!
//! Rules:
//! 1. A peer that starts asks all others what they know of it, again each second until they say.
//! 2. If one knows a later epoch or stamp than the peer finds in its storage, its metadata is older
//!    than what others were told: it serves nobody, ever.
//! 3. It serves when all have said that they know no such thing; an administrator may say that one
//!    is not waited for.
//! 4. What a peer knows of another is the last epoch that this one began, the one before, and the
//!    greatest stamp that it heard of it. They are noted on stable storage as they grow. One that
//!    starts is told the epoch before that which it starts.
//! 5. A call is let in that is of the epoch of this peer and of the last of its caller.
//! 6. All peers keep things consistent in one way. One that is told that another has another way
//!    serves nobody, ever.
//! 7. One that serves and is told that it has begun a later epoch has been taken the place of, as by
//!    a home that was moved: it serves nobody any more.

use core::time::Duration;
use std::collections::BTreeMap;

use leasehold_base::units::Time;

use super::{Peer, Stamp};

/// How long until a peer that has not answered is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// A moment in a peer's history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The epoch that it was in.
    pub epoch: u64,
    /// The last stamp that it had given.
    pub stamp: Stamp,
}

impl Known {
    /// Whether any of it is later than what is stored.
    fn is_beyond(self, stored: Self) -> bool {
        self.epoch > stored.epoch || self.stamp > stored.stamp
    }
}

/// What a peer knows of another, and has on stable storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// The last epoch that it began.
    pub epoch: u64,
    /// The one before, which is what it finds in its storage while it starts.
    pub before: u64,
    /// The greatest stamp that was heard of it.
    pub stamp: Stamp,
}

impl Noted {
    /// Takes note of an epoch; true when it is a later one.
    const fn began(&mut self, epoch: u64) -> bool {
        let is_later = epoch > self.epoch;
        if is_later {
            self.before = self.epoch;
            self.epoch = epoch;
        }
        is_later
    }
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A peer has started this epoch, and asks what is known of it.
    Hello(Peer, u64),
    /// A peer in this epoch answers what it knows.
    Answered(Peer, u64, Known),
    /// A peer answered a call, or refused one, in this epoch and with this stamp.
    Heard(Peer, Known),
    /// A peer answers that it keeps things consistent in another way.
    Unlike(Peer),
    /// A peer is not waited for.
    Away(Peer),
    /// Time went on.
    Tick,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The peer is asked what it knows.
    Hello(Peer),
    /// The peer is answered this.
    Answer(Peer, Known),
    /// This is known of the peer, which goes to stable storage.
    Note(Peer, Noted),
    /// This metaserver serves.
    Open,
    /// The peer knows more than is stored here: this metaserver does not serve.
    Older(Peer, Known),
    /// The peer knows a later epoch of this metaserver than this one, which does not serve any more.
    Over(Peer, Known),
    /// The peer is not like this metaserver, which does not serve.
    Unlike(Peer),
}

/// Why a call is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is of another epoch than this, which is.
    Epoch(u64),
    /// Nobody is served.
    Later,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asking,
    Open,
    Refused,
}

#[derive(Clone, Copy, Debug)]
struct Other {
    noted: Noted,
    /// When it is asked again; none when it has answered or is not waited for.
    ask: Option<Time>,
}

/// This metaserver among its peers.
#[derive(Clone, Debug)]
pub struct Peers {
    epoch: u64,
    stored: Known,
    others: BTreeMap<Peer, Other>,
    state: State,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

/// A deliberate fault.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Calls are let in whatever epoch they are of.
    IgnoresEpochs,
    /// Older metadata is served.
    ServesOlder,
}

impl Peers {
    /// Starts an epoch, with what is stored of this metaserver and what was noted of the others.
    #[must_use]
    pub fn new(now: Time, epoch: u64, stored: Known, others: BTreeMap<Peer, Noted>) -> Self {
        let other = |noted| Other { noted, ask: Some(now) };
        Self {
            epoch,
            stored,
            others: others.into_iter().map(|(peer, noted)| (peer, other(noted))).collect(),
            state: State::Asking,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// Plants a fault.
    #[cfg(feature = "mutants")]
    pub const fn plant(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
    }

    /// Takes one event, and appends what is to be done in order.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Hello(peer, epoch) => {
                let Some(other) = self.others.get_mut(&peer) else { return };
                if other.noted.began(epoch) {
                    effects.push(Effect::Note(peer, other.noted));
                }
                let Noted { epoch: last, before, stamp } = other.noted;
                let epoch = if epoch == last { before } else { last };
                effects.push(Effect::Answer(peer, Known { epoch, stamp }));
            }
            Event::Answered(peer, epoch, known) => self.answered(peer, epoch, known, effects),
            Event::Heard(peer, known) => self.heard(peer, known, effects),
            Event::Unlike(peer) => {
                if self.state == State::Asking {
                    self.state = State::Refused;
                    effects.push(Effect::Unlike(peer));
                }
            }
            Event::Away(peer) => {
                self.others.get_mut(&peer).into_iter().for_each(|other| other.ask = None);
            }
            Event::Tick => {}
        }
        if self.state == State::Asking {
            for (peer, other) in &mut self.others {
                if other.ask.is_some_and(|time| time <= now) {
                    other.ask = Some(now + AGAIN);
                    effects.push(Effect::Hello(*peer));
                }
            }
            if self.others.values().all(|other| other.ask.is_none()) {
                self.state = State::Open;
                effects.push(Effect::Open);
            }
        }
    }

    /// Whether a call is let in that names its caller, the caller's epoch and this peer's.
    ///
    /// # Errors
    /// When the call must have no effect.
    pub fn admit(&self, caller: Peer, epoch: u64, callee_epoch: u64) -> Result<(), Refusal> {
        if self.state != State::Open {
            return Err(Refusal::Later);
        }
        #[cfg(feature = "mutants")]
        if self.mutant == Some(Mutant::IgnoresEpochs) {
            return Ok(());
        }
        let is_last = self.others.get(&caller).is_some_and(|other| other.noted.epoch == epoch);
        if callee_epoch == self.epoch && is_last { Ok(()) } else { Err(Refusal::Epoch(self.epoch)) }
    }

    /// Whether this metaserver serves.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// The epoch.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The last epoch of a peer that is known.
    #[must_use]
    pub fn epoch_of(&self, peer: Peer) -> u64 {
        self.others.get(&peer).map_or(0, |other| other.noted.epoch)
    }

    /// When somebody is asked again.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let asking = self.state == State::Asking;
        self.others.values().filter(|_| asking).filter_map(|other| other.ask).min()
    }

    fn answered(&mut self, peer: Peer, epoch: u64, known: Known, effects: &mut Vec<Effect>) {
        let Some(other) = self.others.get_mut(&peer) else { return };
        match self.state {
            State::Asking => {}
            State::Open if known.epoch > self.epoch => {
                self.state = State::Refused;
                effects.push(Effect::Over(peer, known));
                return;
            }
            State::Open | State::Refused => return,
        }
        other.ask = None;
        let is_older = known.is_beyond(self.stored);
        #[cfg(feature = "mutants")]
        let is_older = is_older && self.mutant != Some(Mutant::ServesOlder);
        if is_older {
            self.state = State::Refused;
            effects.push(Effect::Older(peer, known));
        }
        self.heard(peer, Known { epoch, stamp: Stamp::default() }, effects);
    }

    fn heard(&mut self, peer: Peer, heard: Known, effects: &mut Vec<Effect>) {
        let Some(other) = self.others.get_mut(&peer) else { return };
        let is_later = other.noted.began(heard.epoch);
        if is_later || heard.stamp > other.noted.stamp {
            other.noted.stamp = other.noted.stamp.max(heard.stamp);
            effects.push(Effect::Note(peer, other.noted));
        }
    }
}

#[cfg(test)]
mod tests;
