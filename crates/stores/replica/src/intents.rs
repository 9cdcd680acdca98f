//! Intents: records of changes of names that other homes are making in directories of this home,
//! between their BEGIN and their END.
//!
//! While an intent exists, this home grants no delegable lease on the directory to other
//! metaservers, because their clients would cache names that are about to change. An intent expires
//! after a staleness window. The other home stores its change in the first half of the window or
//! not at all, so after the window the change is complete or given up.

use std::collections::BTreeMap;

use leasehold_base::units::{FileId, Time};
use leasehold_core::leases::table::{Access, Event, Outcome};
use leasehold_core::leases::{Kind, Ticket};
use leasehold_core::replica::Peer;

use crate::lease_server::{Turn, covered, covering};
use crate::message::{Answer, Begins};
use crate::node::{Asker, For, Node};

/// The maximum number of intents.
const BEGUN_MAX: usize = 65_536;

/// The intents of other homes.
#[derive(Default)]
pub(crate) struct Begun(BTreeMap<(Peer, Begins), State>);

/// An intent of another home.
struct State {
    ticket: Ticket,
    /// The BEGIN that waits for the guard, or the time at which the granted intent expires.
    waits: Result<Asker, Time>,
}

impl Begun {
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.0.values().filter_map(|it| it.waits.err()).min()
    }
}

impl Node {
    /// Handles BEGIN: another home is about to change a name in a directory of this home, on behalf
    /// of the metaserver `by`.
    pub(crate) fn asked_to_begin(&mut self, asker: Asker, naming: Begins, by: Option<Peer>) {
        let (peer, directory) = (self.peer_of(asker), naming.directory);
        let by = by.filter(|by| by.0 < self.options.count);
        if !self.has_directory(directory) || !self.options.strict {
            self.answer(asker, Answer::Gone);
            return;
        }
        if let Some(before) = self.leasing.begun.0.get_mut(&(peer, naming)) {
            match &mut before.waits {
                Ok(waits) => {
                    let before = core::mem::replace(waits, asker);
                    self.answer(before, Answer::Later);
                }
                Err(_) => self.answer(asker, Answer::Done),
            }
            return;
        }
        // Refuse the intent if this metaserver's disk has failed, because at END it could not
        // update the times of the directory.
        let is_full = self.leasing.begun.0.len() >= BEGUN_MAX;
        if is_full
            || self.has_failed
            || self.is_held_off(by.unwrap_or(peer), directory, Kind::Write)
        {
            self.answer(asker, Answer::Later);
            return;
        }
        let ticket = Ticket(self.number());
        self.leasing.begun.0.insert((peer, naming), State { ticket, waits: Ok(asker) });
        let on = (covered(directory), by.map(covering), Access::Write);
        self.take_turn_as(ticket, on, None, Turn::Begins(peer, naming));
    }

    /// Grants an intent: no other metaserver than the requester holds a delegable lease on the
    /// directory now.
    pub(crate) fn begins(&mut self, peer: Peer, naming: Begins) {
        let until = self.now + self.options.bounds.window;
        let Some(state) = self.leasing.begun.0.get_mut(&(peer, naming)) else { return };
        if let Ok(asker) = core::mem::replace(&mut state.waits, Err(until)) {
            self.answer(asker, Answer::Done);
        }
    }

    /// Handles END: another home has stored its change (`done`), or has given the change up.
    pub(crate) fn asked_to_end(&mut self, asker: Asker, naming: Begins, done: bool) {
        let before = self.leasing.begun.0.remove(&(self.peer_of(asker), naming));
        let Some(State { ticket, waits }) = before else {
            // The intent has expired, or was lost in a restart of this metaserver. If the change
            // was stored, update the times of the directory now.
            let directory = naming.directory;
            if done && self.has_directory(directory) {
                self.changing(None, &[directory], move |node| node.end_by(directory, asker));
            } else {
                self.answer(asker, Answer::Done);
            }
            return;
        };
        match waits {
            Ok(waits) => {
                self.leasing.turns.remove(&ticket);
                self.leases(Event::GivenUp(covered(naming.directory), ticket));
                self.answer(waits, Answer::Later);
                self.answer(asker, Answer::Done);
            }
            Err(_) if done => {
                let directory = naming.directory;
                self.changing_under((directory, ticket), move |node| node.end_by(directory, asker));
            }
            Err(_) => {
                self.leases(Event::Done(covered(naming.directory), ticket, Outcome::default()));
                self.answer(asker, Answer::Done);
            }
        }
    }

    /// Ends the expired intents. Their changes may have been stored, so updates the times of the
    /// directories.
    pub(crate) fn wake_begun(&mut self) {
        let now = self.now;
        let is_over = |state: &State| state.waits.is_err_and(|until| until <= now);
        let over = self.leasing.begun.0.extract_if(.., |_, state| is_over(state));
        for ((_, naming), State { ticket, .. }) in over.collect::<Vec<_>>() {
            let directory = naming.directory;
            // Update the times under the guard, before other leases are granted. Then update them
            // once more without the exception for the requester of the change, so that its lease is
            // recalled and its clients see the new times.
            self.changing_under((directory, ticket), move |node| {
                node.touch(directory, For::Loss);
                node.changing(None, &[directory], move |node| {
                    node.touch(directory, For::Loss);
                });
            });
        }
    }

    /// Updates the times of a directory at END, and answers the END when the times are stored.
    fn end_by(&mut self, directory: FileId, asker: Asker) {
        if !self.touch(directory, For::End(asker)) {
            self.answer(asker, Answer::Done);
        }
    }
}
