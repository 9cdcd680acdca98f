//! Sends the changes that clients made here to the object's home (the release).
//!
//! Rules:
//! 1. Changes by WRITEs are released one second after the last WRITE, and at the latest a window
//!    after the first WRITE that was not released.
//! 2. A COMMIT, and any other call that must be stable, waits until earlier changes are released;
//!    without earlier changes the call does not wait.
//! 3. One release of an object is pending at a time; changes during a release are sent with the
//!    next release.
//! 4. A failed release is retried a second later, or at once if callers already wait for the next
//!    release. The callers that waited for the failed release must retry later.
//! 5. The changes of an object that is gone are not released.
//! 6. If too many objects have changes to release, the changes of the object whose release is due
//!    first are released at once.

use std::collections::BTreeMap;

use leasehold_base::units::{FileId, Time};

use super::{Bounds, Call, Ticket};

/// An event for the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A WRITE changed the object.
    Wrote(FileId),
    /// The changes of the object must be released before the waiting call is answered.
    Commit(Ticket, FileId),
    /// The home has received the release.
    Released(Call),
    /// The release has no reply, or an unclear reply; the home may have received the release.
    Failed(Call),
    /// The object is gone.
    Gone(FileId),
    /// Time has passed.
    Tick,
}

/// An action that the owner of this state machine must perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send the object's changes until now to its home.
    Release(Call, FileId),
    /// The call may be answered.
    Done(Ticket),
    /// The call must be retried later.
    Later(Ticket),
}

#[derive(Clone, Debug)]
struct Changed {
    /// The times of the first and the last change that the pending release does not include.
    since: Option<(Time, Time)>,
    /// The time at which the next release is sent at the latest.
    due: Time,
    /// The pending release, and the calls that wait for it.
    on_its_way: Option<(Call, Vec<Ticket>)>,
    /// The calls that wait for the next release.
    waiting: Vec<Ticket>,
}

/// The changes to release.
#[derive(Clone, Debug)]
pub struct Changes {
    bounds: Bounds,
    changed: BTreeMap<FileId, Changed>,
    next_call: u64,
    #[cfg(feature = "mutants")]
    commits_early: bool,
}

impl Changes {
    /// Creates the state without changes.
    #[must_use]
    pub const fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            changed: BTreeMap::new(),
            next_call: 1,
            #[cfg(feature = "mutants")]
            commits_early: false,
        }
    }

    /// Injects a fault: COMMIT is answered before the release.
    #[cfg(feature = "mutants")]
    pub const fn commit_early(&mut self) {
        self.commits_early = true;
    }

    /// Handles one event, and appends the resulting actions in order.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Wrote(object) => self.wrote(now, object, effects),
            Event::Commit(ticket, object) => self.commit(ticket, object, effects),
            Event::Released(call) => self.ended(now, call, true, effects),
            Event::Failed(call) => self.ended(now, call, false, effects),
            Event::Gone(object) => {
                // Rule 5: the changes of an object that is gone are not released, so no caller
                // waits for them.
                if let Some(changed) = self.changed.remove(&object) {
                    let sent = changed.on_its_way.into_iter().flat_map(|(_, waiting)| waiting);
                    effects.extend(sent.chain(changed.waiting).map(Effect::Done));
                }
            }
            Event::Tick => {}
        }
        // Rule 3: while a release of an object is pending, its later changes wait for the next
        // release.
        let due = |changed: &Changed| changed.on_its_way.is_none() && changed.due <= now;
        let due = self.changed.iter().filter(|(_, changed)| due(changed));
        for object in due.map(|(object, _)| *object).collect::<Vec<_>>() {
            self.release(object, effects);
        }
        if cfg!(debug_assertions) {
            self.check();
        }
    }

    /// Returns the time of the next release.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let resting = self.changed.values().filter(|changed| changed.on_its_way.is_none());
        resting.map(|changed| changed.due).min()
    }

    /// Audits the whole state.
    ///
    /// # Panics
    /// Panics if the state is inconsistent.
    pub fn check(&self) {
        for changed in self.changed.values() {
            assert!(
                changed.since.is_some() || changed.on_its_way.is_some(),
                "each entry has changes or a pending release"
            );
            assert!(
                changed.waiting.is_empty() || changed.on_its_way.is_some(),
                "callers wait only for a pending release"
            );
        }
    }

    fn wrote(&mut self, now: Time, object: FileId, effects: &mut Vec<Effect>) {
        let changed = self.changed.entry(object).or_insert_with(|| Changed {
            since: None,
            due: now,
            on_its_way: None,
            waiting: Vec::new(),
        });
        let first = changed.since.map_or(now, |(first, _)| first);
        changed.since = Some((first, now));
        // Rule 1: the release is sent one second after the last WRITE, and at the latest a window
        // after the first WRITE that was not released.
        changed.due = (now + self.bounds.release).min(first + self.bounds.window);
        // Rule 6: the release that is due first is sent now.
        if self.changed.len() > self.bounds.most {
            let resting = self.changed.iter().filter(|(_, changed)| changed.on_its_way.is_none());
            let oldest = resting.min_by_key(|(_, changed)| changed.due).map(|(object, _)| *object);
            oldest.into_iter().for_each(|object| self.release(object, effects));
        }
    }

    fn commit(&mut self, ticket: Ticket, object: FileId, effects: &mut Vec<Effect>) {
        #[cfg(feature = "mutants")]
        if self.commits_early {
            effects.push(Effect::Done(ticket));
            return;
        }
        // Rule 2: the call waits until earlier changes are released, and does not wait without such
        // changes.
        match self.changed.get_mut(&object) {
            None => effects.push(Effect::Done(ticket)),
            Some(changed) => match &mut changed.on_its_way {
                None => {
                    changed.waiting.push(ticket);
                    self.release(object, effects);
                }
                Some((_, waiting)) if changed.since.is_none() => waiting.push(ticket),
                Some(_) => changed.waiting.push(ticket),
            },
        }
    }

    fn release(&mut self, object: FileId, effects: &mut Vec<Effect>) {
        let changed =
            self.changed.get_mut(&object).expect("an object that is released has changes");
        let call = Call(self.next_call);
        self.next_call += 1;
        changed.since = None;
        changed.on_its_way = Some((call, core::mem::take(&mut changed.waiting)));
        effects.push(Effect::Release(call, object));
    }

    fn ended(&mut self, now: Time, call: Call, is_released: bool, effects: &mut Vec<Effect>) {
        let of =
            |changed: &Changed| changed.on_its_way.as_ref().is_some_and(|(one, _)| *one == call);
        let Some((&object, changed)) = self.changed.iter_mut().find(|(_, changed)| of(changed))
        else {
            return;
        };
        let (_, waiting) = changed.on_its_way.take().expect("the search matched this release");
        effects.extend(
            waiting.into_iter().map(|ticket| {
                if is_released { Effect::Done(ticket) } else { Effect::Later(ticket) }
            }),
        );
        // Rule 4: the failed release is retried a second later.
        if !is_released {
            changed.since.get_or_insert((now, now));
            changed.due = now + self.bounds.release;
        }
        if !changed.waiting.is_empty() {
            self.release(object, effects);
        } else if changed.since.is_none() {
            self.changed.remove(&object);
        }
    }
}

#[cfg(test)]
mod tests;
