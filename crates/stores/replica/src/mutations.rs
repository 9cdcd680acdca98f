//! Changes of objects of this home. Each change waits until conflicting leases have ended.
//!
//! A change of names also waits for directories of other homes, because clients may cache names in
//! them. The change begins there, is stored here, and ends there before it is answered. See
//! [`crate::intents`] for the side of the directory's home, and rules 28 and 29 of `spec/replica.x`.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::BTreeMap;

use leasehold_base::units::{FileId, Time};
use leasehold_core::leases::table::{Access, Event, Outcome};
use leasehold_core::leases::{Kind, Ticket};
use leasehold_core::replica::{Peer, Stamp, Ticket as Waiting, home};

use crate::lease_server::{Turn, copied, covered, covering};
use crate::message::{Answer, Ask, Begins};
use crate::node::{Node, Waiter, Why};
use crate::prepare::Asked;

/// The action that runs once the change is permitted.
type Then = Box<dyn FnOnce(&mut Node) + Send>;

/// A change of some objects.
pub(crate) struct Change {
    by: Option<Peer>,
    /// True if clients that cache the objects must see the change.
    shows: bool,
    /// The objects without a guard so far, the next one last.
    to_have: Vec<FileId>,
    had: Vec<(FileId, Ticket)>,
    /// The additional state of a change of names.
    names: Option<Names>,
    then: Then,
}

/// The additional state of a change of names.
struct Names {
    ticket: Waiting,
    since: Time,
    /// The directories of the names that change.
    within: Vec<FileId>,
    /// The epoch of the requesting metaserver at the time of the request.
    epoch_of_by: u64,
    /// The metaserver for which the next guard was requested.
    asked_by: Option<Peer>,
    /// The pending guard on a directory, and its deadline.
    waits: Option<((FileId, Ticket), Time)>,
    /// The directories of other homes where the change has not begun, the next one last.
    to_begin: Vec<FileId>,
    begun: Vec<BegunAt>,
}

/// A directory of another home where the change has begun.
#[derive(Clone, Copy)]
struct BegunAt {
    directory: FileId,
    /// The time of the BEGIN call.
    asked: Time,
    /// The epoch of the directory's home at that time.
    epoch: u64,
}

/// Changes of names that are being stored, or that have not ended in all directories.
#[derive(Default)]
pub(crate) struct Naming {
    storing: BTreeMap<Waiting, Within>,
    /// The versions of stored changes, and the number of directories elsewhere where they have not
    /// ended.
    ending: BTreeMap<Waiting, (Stamp, usize)>,
    /// The changes without an acknowledged END, and the time of the next retry.
    unheard: BTreeMap<Begins, Time>,
}

impl Naming {
    /// Returns the time of the next retry of END.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.unheard.values().min().copied()
    }
}

/// The directories of a change of names that is being stored.
#[derive(Default)]
struct Within {
    /// The guards on directories of this home.
    here: Vec<(FileId, Ticket)>,
    elsewhere: Vec<FileId>,
}

impl Change {
    /// Returns the deadline of the guard on a directory, if the change waits for one.
    pub(crate) fn waits_until(&self) -> Option<Time> {
        Some(self.names.as_ref()?.waits?.1)
    }
}

impl Node {
    /// Changes objects of this home once no other metaserver than `by` holds a lease on them.
    pub(crate) fn changing(
        &mut self,
        by: Option<Peer>,
        objects: &[FileId],
        then: impl FnOnce(&mut Self) + Send + 'static,
    ) {
        self.begin_change(by, (objects, None), (true, None), Box::new(then));
    }

    /// Changes the reservations of a directory. Leases of clients do not cover reservations.
    pub(crate) fn noting(
        &mut self,
        directory: FileId,
        then: impl FnOnce(&mut Self) + Send + 'static,
    ) {
        self.begin_change(None, (&[directory], None), (false, None), Box::new(then));
    }

    /// Changes a directory under an existing guard on its delegable leases. The guard ends with the
    /// change.
    pub(crate) fn changing_under(
        &mut self,
        (directory, ticket): (FileId, Ticket),
        then: impl FnOnce(&mut Self) + Send + 'static,
    ) {
        let (number, then, names) = (self.number(), Box::new(then), None);
        let (by, shows, to_have, had) = (None, true, Vec::new(), Vec::new());
        self.leasing.changes.insert(number, Change { by, shows, to_have, had, names, then });
        self.take_copies(number, (directory, ticket));
    }

    /// Returns the metaserver for which a change of names is made, if it waits for the change.
    pub(crate) fn is_for(&self, ticket: Waiting) -> Option<Peer> {
        Some(match self.waiting.get(&ticket)? {
            Waiter::Asker(asker) => self.peer_of(*asker),
            Waiter::Operation(_) => self.me(),
        })
    }

    /// Changes the names of objects of this home.
    pub(crate) fn change_names(&mut self, ticket: Waiting, change: home::Change) {
        let by = self.is_for(ticket);
        let from = change.from.iter().map(|(from, _)| from.directory);
        let to = change.to.iter().map(|to| to.directory);
        let mut within: Vec<FileId> = from.chain(to).collect();
        within.sort_unstable_by_key(|directory| Reverse(*directory));
        within.dedup();
        let (mine, to_begin): (Vec<_>, Vec<_>) =
            within.iter().partition(|directory| self.is_mine(**directory));
        let is_held_off =
            |directory: &FileId| self.is_held_off(by.unwrap_or(self.me()), *directory, Kind::Write);
        if mine.iter().any(is_held_off) {
            self.home(home::Event::Undone(ticket));
            return;
        }
        let first = self.turn_had(ticket);
        let Asked { since, epoch_of_by } =
            first.as_ref().map_or_else(|| self.asked_now(ticket), |first| first.asked);
        let had = first.map(|first| (first.object, first.turn));
        let to_have = change.objects().filter(|object| had.is_none_or(|had| had.0 != *object));
        let objects: Vec<FileId> = mine.into_iter().chain(to_have).collect();
        let (asked_by, begun) = (by, Vec::new());
        let names =
            Names { ticket, since, within, epoch_of_by, asked_by, waits: None, to_begin, begun };
        let then = Box::new(move |node: &mut Self| node.store_names(ticket, change));
        self.begin_change(by, (&objects, had), (true, Some(names)), then);
    }

    fn begin_change(
        &mut self,
        by: Option<Peer>,
        (objects, had): (&[FileId], Option<(FileId, Ticket)>),
        (shows, names): (bool, Option<Names>),
        then: Then,
    ) {
        if !self.options.strict {
            then(self);
            return;
        }
        // Guards on objects come before guards on the directories that contain them, and lower
        // numbers come first. So the holder of a guard never waits for the holder of a later one.
        let is_within =
            |object: FileId| names.as_ref().is_some_and(|names| names.within.contains(&object));
        let mut to_have = objects.to_vec();
        to_have.sort_unstable_by_key(|object| Reverse((is_within(*object), *object)));
        to_have.dedup();
        let (number, had) = (self.number(), had.into_iter().collect());
        self.leasing.changes.insert(number, Change { by, shows, to_have, had, names, then });
        self.change_next(number);
    }

    fn change_next(&mut self, number: u64) {
        let Some(change) = self.leasing.changes.get_mut(&number) else { return };
        if let Some(object) = change.to_have.pop() {
            self.take_covers(number, object);
            return;
        }
        if let Some(names) = &mut change.names
            && let Some(directory) = names.to_begin.pop()
        {
            self.begin_at(number, directory);
            return;
        }
        let Some(Change { by, mut had, names, then, .. }) = self.leasing.changes.remove(&number)
        else {
            return;
        };
        if let Some(names) = names {
            // A requester that has restarted no longer waits for the change, so the change must not
            // block others.
            let is_for_it = by.is_none_or(|by| self.peers.epoch_of(by) == names.epoch_of_by);
            if !is_for_it || !names.begun.iter().all(|begun| self.still_stands(*begun)) {
                self.undo(had, &names);
                return;
            }
            let is_within = |had: &mut (FileId, Ticket)| names.within.contains(&had.0);
            let here = had.extract_if(.., is_within).collect();
            let elsewhere = names.begun.iter().map(|begun| begun.directory).collect();
            self.leasing.naming.storing.insert(names.ticket, Within { here, elsewhere });
        }
        self.leasing.under = had.into_iter().collect();
        then(self);
        // The guards of objects that the change did not modify.
        for (object, ticket) in core::mem::take(&mut self.leasing.under) {
            self.has_changed_leased(object, ticket);
        }
    }

    /// Requests the guard on the delegable leases of one object of a change.
    pub(crate) fn take_covers(&mut self, number: u64, object: FileId) {
        let by = self.change_is_for(number, object);
        let (ticket, until) = (Ticket(self.number()), self.now + self.options.bounds.window);
        let Some(change) = self.leasing.changes.get_mut(&number) else { return };
        if let Some(names) = &mut change.names {
            names.asked_by = by;
            let is_within = names.within.contains(&object);
            names.waits = is_within.then_some(((object, ticket), until));
        }
        let access = if change.shows { Access::Write } else { Access::Nothing };
        let on = (covered(object), by.map(covering), access);
        self.take_turn_as(ticket, on, None, Turn::Covers(number));
    }

    /// Returns the metaserver for which an object is changed, and `None` if that metaserver may
    /// have given up. In that case its clients no longer have access to the directory under this
    /// guard (`spec/replica.x`, rule 29).
    fn change_is_for(&self, number: u64, object: FileId) -> Option<Peer> {
        let change = self.leasing.changes.get(&number)?;
        let within = change.names.as_ref().filter(|names| names.within.contains(&object));
        let is_old = |names: &Names| names.since + self.options.bounds.window <= self.now;
        change.by.filter(|_| !within.is_some_and(is_old))
    }

    /// Returns true if the guard was requested for the metaserver for which the change is still
    /// made.
    pub(crate) fn is_for_whom_it_was(&self, number: u64, object: FileId) -> bool {
        let names = self.leasing.changes.get(&number).and_then(|change| change.names.as_ref());
        names.is_none_or(|names| names.asked_by == self.change_is_for(number, object))
    }

    /// Requests the guard on the cached copies of an object, after the one on the delegable leases.
    pub(crate) fn take_copies(&mut self, number: u64, (object, ticket): (FileId, Ticket)) {
        let names = self.leasing.changes.get_mut(&number).and_then(|change| change.names.as_mut());
        names.into_iter().for_each(|names| names.waits = None);
        let on = (copied(object), None, Access::Write);
        self.take_turn_as(ticket, on, None, Turn::Change(number));
    }

    /// Adds a granted guard to a change, and continues the change.
    pub(crate) fn may_change(&mut self, number: u64, had: (FileId, Ticket)) {
        self.leasing.changes.get_mut(&number).into_iter().for_each(|change| change.had.push(had));
        self.change_next(number);
    }

    /// Gives up changes after the deadline for a guard on a directory: clients of other metaservers
    /// hold leases and do not reply.
    pub(crate) fn wake_changing(&mut self) {
        let now = self.now;
        let is_late = |change: &Change| change.waits_until().is_some_and(|until| until <= now);
        // One at a time: the removal of one guard may grant the next.
        while let Some((_, Change { had, names: Some(names), .. })) =
            self.leasing.changes.extract_if(.., |_, change| is_late(change)).next()
        {
            if let Some(((directory, ticket), _)) = names.waits {
                self.leasing.turns.remove(&ticket);
                self.leases(Event::GivenUp(covered(directory), ticket));
            }
            self.undo(had, &names);
        }
    }

    /// Repeats END at the homes of directories that have not acknowledged it.
    pub(crate) fn wake_naming(&mut self) {
        let now = self.now;
        let due = self.leasing.naming.unheard.extract_if(.., |_, again| *again <= now);
        for (naming, _) in due.collect::<Vec<_>>() {
            let why = Why::End(Waiting(naming.number), naming);
            self.call_home(naming.directory, Ask::End(naming, true), why);
        }
    }

    fn begin_at(&mut self, number: u64, directory: FileId) {
        let by = self.change_is_for(number, directory);
        let names = self.leasing.changes.get(&number).and_then(|change| change.names.as_ref());
        let Some(Names { ticket, .. }) = names else { return };
        let naming = Begins { directory, number: ticket.0 };
        let epoch = self.homes.of(directory).map_or(0, |home| self.peers.epoch_of(home));
        let asked = BegunAt { directory, asked: self.now, epoch };
        let change = self.leasing.changes.get_mut(&number).and_then(|it| it.names.as_mut());
        change.into_iter().for_each(|names| names.begun.push(asked));
        self.call_home(directory, Ask::Begin(naming, by), Why::Begun(number));
    }

    /// Handles the answer to BEGIN.
    pub(crate) fn has_begun(&mut self, number: u64, answer: &Answer) {
        if *answer == Answer::Done {
            self.change_next(number);
        } else if let Some(Change { had, names, .. }) = self.leasing.changes.remove(&number)
            && let Some(names) = names
        {
            self.undo(had, &names);
        }
    }

    /// Returns true if no other metaserver can hold a delegable lease on the directory until the
    /// change is stored.
    fn still_stands(&self, begun: BegunAt) -> bool {
        let epoch = self.homes.of(begun.directory).map(|home| self.peers.epoch_of(home));
        Some(begun.epoch) == epoch && self.now < begun.asked + lasts(self.options.bounds.window)
    }

    fn undo(&mut self, had: Vec<(FileId, Ticket)>, names: &Names) {
        for (object, ticket) in had {
            self.has_changed_leased(object, ticket);
        }
        for BegunAt { directory, .. } in &names.begun {
            let naming = Begins { directory: *directory, number: names.ticket.0 };
            self.call_home(*directory, Ask::End(naming, false), Why::Announce);
        }
        self.home(home::Event::Undone(names.ticket));
    }

    /// Ends the guards of a change of an object, which is on stable storage.
    pub(crate) fn has_changed_leased(&mut self, object: FileId, ticket: Ticket) {
        self.leases(Event::Done(copied(object), ticket, Outcome::default()));
        self.leases(Event::Done(covered(object), ticket, Outcome::default()));
    }

    /// Handles a change of names that is on stable storage. The answer follows once the change has
    /// ended everywhere.
    pub(crate) fn has_stored_names(&mut self, ticket: Waiting, version: Stamp) {
        let elsewhere = self.end_within(ticket);
        if elsewhere.is_empty() {
            self.home(home::Event::Stored(ticket, version));
            return;
        }
        self.leasing.naming.ending.insert(ticket, (version, elsewhere.len()));
        for directory in elsewhere {
            let naming = Begins { directory, number: ticket.0 };
            self.call_home(directory, Ask::End(naming, true), Why::End(ticket, naming));
        }
    }

    /// Handles a change of names that failed before it was stored.
    pub(crate) fn not_stored(&mut self, ticket: Waiting) {
        for directory in self.end_within(ticket) {
            let naming = Begins { directory, number: ticket.0 };
            self.call_home(directory, Ask::End(naming, false), Why::Announce);
        }
        self.home(home::Event::Undone(ticket));
    }

    /// Ends the guards on directories of this home, and returns the directories of other homes.
    pub(crate) fn end_within(&mut self, ticket: Waiting) -> Vec<FileId> {
        let Within { here, elsewhere } =
            self.leasing.naming.storing.remove(&ticket).unwrap_or_default();
        for (directory, ticket) in here {
            self.has_changed_leased(directory, ticket);
        }
        elsewhere
    }

    /// Handles the answer to END. Without an acknowledgement the intent expires at that home. A
    /// home that has restarted has no intent, so END is repeated until the home replies.
    pub(crate) fn has_ended(&mut self, ticket: Waiting, naming: Begins, answer: &Answer) {
        let is_known = matches!(answer, Answer::Done | Answer::Gone);
        if is_known {
            self.leasing.naming.unheard.remove(&naming);
        } else if self.leasing.naming.unheard.len() < UNHEARD_MAX {
            self.leasing.naming.unheard.insert(naming, self.now + TOLD_AGAIN);
        }
        let Some((version, left)) = self.leasing.naming.ending.get_mut(&ticket) else { return };
        *left -= 1;
        if *left == 0 {
            let version = *version;
            self.leasing.naming.ending.remove(&ticket);
            self.home(home::Event::Stored(ticket, version));
        }
    }
}

/// The largest number of END calls that are repeated.
const UNHEARD_MAX: usize = 65_536;

/// The delay before END is repeated.
const TOLD_AGAIN: Duration = Duration::from_secs(1);

/// Returns the time after BEGIN within which a change may be stored under the reply to BEGIN.
fn lasts(window: Duration) -> Duration {
    window / 2
}
