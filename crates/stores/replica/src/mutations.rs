//! Changes of objects of this home. Each change waits until conflicting leases have ended.
//!
//! A change of names also needs the directories of other homes, because clients may cache the names
//! in these directories. This home first sends BEGIN to the directories' homes, which recall the
//! leases; then it stores the change; then it sends END; and then the requester receives the
//! answer. See [`crate::intents`] for the side of the directory's home, and rules 28 and 29 of
//! `spec/replica.x`.

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

/// The action that executes the change when all guards are acquired.
type Then = Box<dyn FnOnce(&mut Node) + Send>;

/// A change of some objects that waits for its guards.
pub(crate) struct Change {
    by: Option<Peer>,
    /// True if clients can see the change, so that their leases on the objects must be recalled.
    shows: bool,
    /// The objects whose guards the change does not have yet; the next one is the last entry.
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
    /// The directories that contain the names.
    within: Vec<FileId>,
    /// The epoch of the requesting metaserver (`by`) at the time of the request.
    epoch_of_by: u64,
    /// The metaserver on whose behalf the next guard was requested.
    asked_by: Option<Peer>,
    /// The guard on a directory that the change waits for, and the deadline of the wait.
    waits: Option<((FileId, Ticket), Time)>,
    /// The directories of other homes that have not received BEGIN; the next one is the last entry.
    to_begin: Vec<FileId>,
    begun: Vec<BegunAt>,
}

/// A directory of another home to which BEGIN was sent.
#[derive(Clone, Copy)]
struct BegunAt {
    directory: FileId,
    /// The time of the BEGIN call.
    asked: Time,
    /// The epoch of the directory's home at that time.
    epoch: u64,
}

/// Changes of names that are being stored, or whose END is not acknowledged by all homes.
#[derive(Default)]
pub(crate) struct Naming {
    storing: BTreeMap<Waiting, Within>,
    /// The stored changes that wait for answers to END: the version number, and the number of
    /// missing answers.
    ending: BTreeMap<Waiting, (Stamp, usize)>,
    /// The ENDs that a home has not acknowledged, and the time of the next retry.
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
    /// Returns the deadline of the wait for a guard on a directory, if the change waits for one.
    pub(crate) fn waits_until(&self) -> Option<Time> {
        Some(self.names.as_ref()?.waits?.1)
    }
}

impl Node {
    /// Runs `then`, which changes objects of this home, once no metaserver except `by` holds a
    /// lease on the objects.
    pub(crate) fn changing(
        &mut self,
        by: Option<Peer>,
        objects: &[FileId],
        then: impl FnOnce(&mut Self) + Send + 'static,
    ) {
        self.begin_change(by, (objects, None), (true, None), Box::new(then));
    }

    /// Runs `then`, which changes a reservation in a directory. Clients cannot see reservations, so
    /// only the leases on cached copies are recalled.
    pub(crate) fn noting(
        &mut self,
        directory: FileId,
        then: impl FnOnce(&mut Self) + Send + 'static,
    ) {
        self.begin_change(None, (&[directory], None), (false, None), Box::new(then));
    }

    /// Runs `then`, which changes a directory, under an existing guard on the delegable leases. The
    /// guard ends when the change is stored.
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

    /// Returns the metaserver that waits for the result of a change of names; `None` if no
    /// metaserver waits.
    pub(crate) fn is_for(&self, ticket: Waiting) -> Option<Peer> {
        Some(match self.waiting.get(&ticket)? {
            Waiter::Asker(asker) => self.peer_of(*asker),
            Waiter::Operation(_) => self.me(),
        })
    }

    /// Starts the final step of a change of names: acquires the guards, and then stores the change.
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
        // All changes acquire their guards in one order, which prevents deadlocks: the guards on
        // renamed and replaced objects before the guards on directories, and lower ids before
        // higher ids.
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
            // Give the change up if its requester has restarted, since no operation waits for the
            // result, or if an answer to BEGIN has expired, since other metaservers may hold leases
            // again.
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
        // End the guards that are left: `then` has not modified their objects, so no stored change
        // will end these guards.
        for (object, ticket) in core::mem::take(&mut self.leasing.under) {
            self.has_changed_leased(object, ticket);
        }
    }

    /// Requests the guard on the delegable leases (covers) of one object of a change.
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

    /// Returns the metaserver on whose behalf an object is changed. Under the guard this metaserver
    /// keeps its own delegable lease. Returns `None` for a directory if the request is older than a
    /// window: the requester may have given up, so its lease is recalled like all others
    /// (`spec/replica.x`, rule 29).
    fn change_is_for(&self, number: u64, object: FileId) -> Option<Peer> {
        let change = self.leasing.changes.get(&number)?;
        let within = change.names.as_ref().filter(|names| names.within.contains(&object));
        let is_old = |names: &Names| names.since + self.options.bounds.window <= self.now;
        change.by.filter(|_| !within.is_some_and(is_old))
    }

    /// Returns true if the result of `change_is_for` is still the one with which the guard was
    /// requested. Otherwise the guard must be requested again.
    pub(crate) fn is_for_whom_it_was(&self, number: u64, object: FileId) -> bool {
        let names = self.leasing.changes.get(&number).and_then(|change| change.names.as_ref());
        names.is_none_or(|names| names.asked_by == self.change_is_for(number, object))
    }

    /// Requests the guard on the cached copies of an object, after the guard on its delegable
    /// leases.
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

    /// Gives up the changes whose wait for a guard on a directory has reached its deadline, because
    /// clients of other metaservers do not return their leases.
    pub(crate) fn wake_changing(&mut self) {
        let now = self.now;
        let is_late = |change: &Change| change.waits_until().is_some_and(|until| until <= now);
        // Take one change at a time: the end of its guards may let the next change continue.
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

    /// Repeats END at the homes that have not acknowledged it.
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

    /// Returns true if the answer to BEGIN is still valid: the directory's home has not restarted,
    /// and the change can be stored before the intent expires there. Until then no other metaserver
    /// can hold a delegable lease on the directory.
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

    /// Ends the guards on one object of a change.
    pub(crate) fn has_changed_leased(&mut self, object: FileId, ticket: Ticket) {
        self.leases(Event::Done(copied(object), ticket, Outcome::default()));
        self.leases(Event::Done(covered(object), ticket, Outcome::default()));
    }

    /// Handles the completion of a stored change of names. Sends END to the homes of the
    /// directories; the requester receives its answer after their answers.
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

    /// Gives up a change of names before it is stored.
    pub(crate) fn not_stored(&mut self, ticket: Waiting) {
        for directory in self.end_within(ticket) {
            let naming = Begins { directory, number: ticket.0 };
            self.call_home(directory, Ask::End(naming, false), Why::Announce);
        }
        self.home(home::Event::Undone(ticket));
    }

    /// Ends the guards of a change on directories of this home. Returns the directories of other
    /// homes, which must receive END.
    pub(crate) fn end_within(&mut self, ticket: Waiting) -> Vec<FileId> {
        let Within { here, elsewhere } =
            self.leasing.naming.storing.remove(&ticket).unwrap_or_default();
        for (directory, ticket) in here {
            self.has_changed_leased(directory, ticket);
        }
        elsewhere
    }

    /// Handles the answer to END. If the directory's home has received no END, its intent expires
    /// after a window, and the home then updates the times of the directory itself. But if the home
    /// has restarted, it has lost the intent, and only an END makes it update the times. So this
    /// metaserver repeats END until the home acknowledges it. The change is complete after the
    /// first attempt, so its requester does not wait for the retries.
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

/// The maximum number of END calls that are repeated.
const UNHEARD_MAX: usize = 65_536;

/// The delay before END is repeated.
const TOLD_AGAIN: Duration = Duration::from_secs(1);

/// Returns the time after BEGIN within which a change may be stored.
fn lasts(window: Duration) -> Duration {
    window / 2
}
