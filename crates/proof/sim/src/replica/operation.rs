//! The operations of a metaserver's client. They run one after the other.

use leasehold_base::units::{FileId, Time};
use leasehold_core::replica::{Place, Ticket, changes, copies, home};

use super::ReplicaMutant;
use super::message::{Answer, Ask, Metafile};
use super::node::{Node, Out, Why};

/// The maximum number of searches for a name before the client has to retry.
const ROUNDS_MAX: usize = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Create {
        place: Place,
        is_directory: bool,
    },
    Look(Place),
    List(FileId),
    Use(FileId),
    Miss(FileId),
    Write(FileId, u64),
    Commit(FileId, u64),
    /// Sends the written data to the home, and then changes the object there, in two steps.
    Set(FileId, u64),
    Place {
        object: FileId,
        from: Place,
        to: Option<Place>,
        over: Option<FileId>,
        is_directory: bool,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) what: What,
    rounds: usize,
    /// The entries that a listing still has to check, the next entry last.
    to_list: Vec<(Place, FileId)>,
    /// The entries that the listing has checked.
    listed: Vec<Metafile>,
    /// The object whose copy the operation checks; `None` while the operation searches for the
    /// name.
    checked: Option<FileId>,
    /// True if the operation has already asked the home of the listed object which object has the
    /// name.
    is_asked: bool,
    /// True while the first of two steps runs.
    is_first: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Found(Metafile),
    Listed(Vec<Metafile>),
    Gone,
    Done,
    Later,
    Refused,
}

impl Node {
    pub(super) fn operate(&mut self, now: Time, what: What) {
        self.now = now;
        let ticket = Ticket(self.number());
        let operation = Operation {
            what: what.clone(),
            rounds: 0,
            to_list: Vec::new(),
            listed: Vec::new(),
            checked: None,
            is_asked: false,
            is_first: false,
        };
        self.live.operation = Some((ticket, operation));
        if !self.live.peers.is_open() {
            self.end(ticket, Outcome::Later);
            return;
        }
        match what {
            What::Create { place, is_directory } => {
                if let Some(stored) = self.live.ids.to_store() {
                    self.disk.ids = stored;
                    self.live.ids.stored(stored);
                }
                let object = self.live.ids.take().expect("the disk has enough ids");
                let (from, to, over) = (None, Some(place), None);
                let change = home::Change { object, is_directory, from, to, over };
                self.home(home::Event::Change(ticket, change));
            }
            What::Look(place) => self.look(ticket, place),
            What::List(directory) => {
                let home = self.home_of(directory);
                self.call(home, Ask::List(directory), Why::Operation(ticket));
            }
            What::Use(object) | What::Miss(object) if self.live.yields.hides(object).is_some() => {
                self.end(ticket, Outcome::Later);
            }
            What::Use(object) | What::Miss(object) if self.home_of(object) == self.me => {
                match self.disk.metafiles.get(&object).cloned() {
                    Some(metafile) => self.end(ticket, Outcome::Found(metafile)),
                    None => self.end(ticket, Outcome::Gone),
                }
            }
            What::Use(object) => self.copies(copies::Event::Use(ticket, object)),
            What::Miss(object) => self.copies(copies::Event::Miss(ticket, object)),
            What::Write(object, id) if self.home_of(object) == self.me => {
                self.call(self.me, Ask::Change(object, id), Why::Operation(ticket));
            }
            What::Write(object, id) => {
                self.live.dirty.insert(object, id);
                self.changes(changes::Event::Wrote(object));
                if self.strict {
                    self.changes(changes::Event::Commit(ticket, object));
                } else {
                    self.end(ticket, Outcome::Done);
                }
            }
            What::Commit(object, _) => self.changes(changes::Event::Commit(ticket, object)),
            What::Set(object, _) => {
                self.begins_with_another(ticket);
                self.changes(changes::Event::Commit(ticket, object));
            }
            What::Place { object, from, to, over, is_directory } => match over {
                Some(over) if !self.replaces_at_once(object, over, is_directory) => {
                    self.begins_with_another(ticket);
                    self.place(ticket, over, (to, None), None);
                }
                Some(_) | None => self.place(ticket, object, (Some(from), to), over),
            },
        }
    }

    fn replaces_at_once(&self, object: FileId, over: FileId, is_directory: bool) -> bool {
        let in_two_steps = self.mutant == Some(ReplicaMutant::ReplacesInTwoSteps);
        self.replaces_in_one_step(object, over, is_directory) && !in_two_steps
    }

    fn begins_with_another(&mut self, ticket: Ticket) {
        let operation = self.live.operation.as_mut().filter(|(one, _)| *one == ticket);
        operation.into_iter().for_each(|(_, operation)| operation.is_first = true);
    }

    fn place(
        &mut self,
        ticket: Ticket,
        object: FileId,
        (from, to): (Option<Place>, Option<Place>),
        over: Option<FileId>,
    ) {
        let ask = Ask::Place { object, from, to, over };
        self.call(self.home_of(object), ask, Why::Operation(ticket));
    }

    /// Starts the second of two steps after the first step has succeeded; returns true if it
    /// starts.
    fn steps_on(&mut self, ticket: Ticket, answer: &Answer) -> bool {
        let operation = self.live.operation.as_mut().filter(|(one, _)| *one == ticket);
        let Some((_, operation)) = operation.filter(|(_, one)| one.is_first) else { return false };
        operation.is_first = false;
        match (operation.what.clone(), answer) {
            // If the replaced object is gone, another client has removed it, and the rename can
            // continue.
            (What::Place { object, from, to, .. }, Answer::Version(_) | Answer::Gone) => {
                self.place(ticket, object, (Some(from), to), None);
            }
            (What::Set(object, id), Answer::Done) => {
                let home = self.home_of(object);
                self.call(home, Ask::Change(object, id), Why::Operation(ticket));
            }
            _ => return false,
        }
        true
    }

    fn look(&mut self, ticket: Ticket, place: Place) {
        if self.is_hidden(&place) && self.disk.standing_at(&place).is_some() {
            self.end(ticket, Outcome::Later);
            return;
        }
        if let Some(metafile) = self.disk.standing_at(&place).cloned() {
            self.end(ticket, Outcome::Found(metafile));
            return;
        }
        let mut copies = self.live.kept.values();
        let copy = copies.find(|copy| copy.place.as_ref() == Some(&place)).map(|copy| copy.object);
        let Some((_, operation)) = &mut self.live.operation else { return };
        operation.checked = copy;
        operation.rounds += 1;
        if operation.rounds > ROUNDS_MAX {
            self.end(ticket, Outcome::Later);
            return;
        }
        match copy {
            Some(object) => self.copies(copies::Event::Use(ticket, object)),
            None => self.copies(copies::Event::Search(ticket, place)),
        }
    }

    /// Handles the list of entries that the directory's home returned.
    pub(super) fn list(&mut self, ticket: Ticket, names: Vec<(Place, FileId)>) {
        if let Some((_, operation)) = self.live.operation.as_mut().filter(|(one, _)| *one == ticket)
        {
            operation.to_list = names;
            self.list_on(ticket);
        }
    }

    /// Continues a listing with its next entries. This metaserver knows the objects that have their
    /// home here; for other objects it needs valid copies.
    fn list_on(&mut self, ticket: Ticket) {
        while let Some((_, operation)) = &mut self.live.operation {
            operation.checked = None;
            operation.is_asked = false;
            let Some((place, object)) = operation.to_list.last().cloned() else {
                let listed = core::mem::take(&mut operation.listed);
                self.end(ticket, Outcome::Listed(listed));
                return;
            };
            if self.homes.of(object) != Some(self.me) {
                self.copies(copies::Event::Use(ticket, object));
                return;
            }
            if self.is_hidden(&place) {
                self.end(ticket, Outcome::Later);
                return;
            }
            let here = self.disk.standing_at(&place).cloned();
            self.outs.extend(here.clone().map(Out::Showed));
            let Some((_, operation)) = &mut self.live.operation else { return };
            operation.to_list.pop();
            operation.listed.extend(here);
        }
    }

    /// Continues a listing whose next entry has a valid copy, or whose state the home has shown.
    fn list_goes(&mut self, ticket: Ticket, shown: Option<Metafile>) {
        let Some((_, operation)) = &mut self.live.operation else { return };
        let Some((place, object)) = operation.to_list.last().cloned() else { return };
        let copy = shown.or_else(|| self.live.kept.get(&object).cloned());
        let stands = copy.filter(|copy| copy.place.as_ref() == Some(&place));
        if stands.is_none() && operation.checked.is_none() {
            // The copy does not have the name that the directory's home lists, so the copy may be
            // old: fetch it again.
            operation.checked = Some(object);
            self.copies(copies::Event::Miss(ticket, object));
            return;
        }
        if stands.is_none() {
            self.list_by_home(ticket);
            return;
        }
        operation.to_list.pop();
        self.outs.extend(stands.clone().map(Out::Showed));
        operation.listed.extend(stands);
        self.list_on(ticket);
    }

    /// The directory's record may be for another object with the same home. So the listing asks
    /// that home which object has the name.
    fn list_by_home(&mut self, ticket: Ticket) {
        let Some((_, operation)) = &mut self.live.operation else { return };
        let Some((place, object)) = operation.to_list.last().cloned() else { return };
        if operation.is_asked {
            // The listing has already asked, so the entry keeps changing: the client must retry.
            self.end(ticket, Outcome::Later);
            return;
        }
        operation.is_asked = true;
        let home = self.home_of(object);
        self.call(home, Ask::Search(place, Vec::new()), Why::Operation(ticket));
    }

    /// Handles the home's answer about the object that has a listed name.
    fn listed_by_home(&mut self, ticket: Ticket, answer: &Answer) {
        let Some((_, operation)) = &mut self.live.operation else { return };
        let Some((place, _)) = operation.to_list.pop() else { return };
        if let Answer::Metafile(found) = answer {
            operation.to_list.push((place, found.object));
            operation.checked = Some(found.object);
            self.copies(copies::Event::Miss(ticket, found.object));
        } else if matches!(answer, Answer::Nowhere | Answer::Gone) {
            self.list_on(ticket);
        } else {
            self.end(ticket, Outcome::Later);
        }
    }

    fn operation(&self, ticket: Ticket) -> Option<&Operation> {
        self.live.operation.as_ref().filter(|(one, _)| *one == ticket).map(|(_, one)| one)
    }

    /// Continues an operation whose object has its home here, or has a valid copy.
    pub(super) fn operation_goes(&mut self, ticket: Ticket) {
        let Some(operation) = self.operation(ticket) else { return };
        match operation.what.clone() {
            What::List(_) => self.list_goes(ticket, None),
            What::Look(place) => {
                let checked = operation.checked.and_then(|object| self.live.kept.get(&object));
                match checked.filter(|copy| copy.place.as_ref() == Some(&place)).cloned() {
                    Some(copy) => self.end(ticket, Outcome::Found(copy)),
                    None => self.look(ticket, place),
                }
            }
            What::Use(object) | What::Miss(object) => match self.live.kept.get(&object).cloned() {
                Some(copy) => self.end(ticket, Outcome::Found(copy)),
                None => self.end(ticket, Outcome::Later),
            },
            What::Create { .. }
            | What::Write(..)
            | What::Commit(..)
            | What::Set(..)
            | What::Place { .. } => {}
        }
    }

    /// Completes an operation with a state of the object that was current after the request. The
    /// metaserver does not keep the state in its cache.
    pub(super) fn operation_shows(&mut self, ticket: Ticket, metafile: Metafile) {
        let Some(operation) = self.operation(ticket) else { return };
        match operation.what.clone() {
            What::List(_) => self.list_goes(ticket, Some(metafile)),
            What::Look(place) if metafile.place.as_ref() != Some(&place) => {
                self.look(ticket, place);
            }
            What::Look(_) | What::Use(_) | What::Miss(_) => {
                self.end(ticket, Outcome::Found(metafile));
            }
            What::Create { .. }
            | What::Write(..)
            | What::Commit(..)
            | What::Set(..)
            | What::Place { .. } => {}
        }
    }

    /// Completes an operation whose object was removed or not found.
    pub(super) fn operation_found_nothing(&mut self, ticket: Ticket) {
        let Some(operation) = self.operation(ticket) else { return };
        if let What::List(_) = operation.what {
            self.list_by_home(ticket);
        } else if let What::Look(place) = &operation.what
            && operation.checked.is_some()
        {
            let place = place.clone();
            self.look(ticket, place);
        } else {
            self.end(ticket, Outcome::Gone);
        }
    }

    pub(super) fn operation_answered(&mut self, ticket: Ticket, answer: &Answer) {
        if self.operation(ticket).is_some_and(|one| one.is_asked) && *answer != Answer::Later {
            self.listed_by_home(ticket, answer);
            return;
        }
        if self.steps_on(ticket, answer) {
            return;
        }
        let what = self.operation(ticket).map(|operation| operation.what.clone());
        if let (Some(What::Set(object, _)), Answer::Version(version)) = (what, answer) {
            self.was_changed(object, *version);
        }
        let outcome = match answer.had() {
            _ if matches!(answer, Answer::Version(_)) => Outcome::Done,
            Ok(()) => Outcome::Done,
            Err(home::Refusal::Later) => Outcome::Later,
            Err(_) => Outcome::Refused,
        };
        self.end(ticket, outcome);
    }

    fn end(&mut self, ticket: Ticket, outcome: Outcome) {
        if let Some((_, operation)) = self.live.operation.take_if(|(one, _)| *one == ticket) {
            self.outs.push(Out::Ended(operation, outcome));
        }
    }
}
