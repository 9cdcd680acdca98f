//! What a call of a client with leases asks for beside what it does, and what it is told.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_core::leases::table::{self, Ask};
use leasehold_core::leases::{Client, Kind, Modrev, Object, Serial};
use leasehold_fs::FsError;
use leasehold_wire::lease::{self, Base, Change, Granted, Terms, place};

use crate::leases::Leases;
use crate::leases::turn::Under;

/// What a call of a client with leases asks for beside what it does, and what it is told.
pub(crate) struct Asked {
    pub(super) client: Client,
    pub(super) asks: Asks,
    made_from: MadeFrom,
    /// Whether what its change was made under may be lost by now.
    may_be_lost: AtomicBool,
    told: Mutex<Outcome>,
}

/// What a change was made from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MadeFrom {
    /// What the call names, if it does.
    Named(Option<Base>),
    /// Whatever its client holds: NQNFS has no word for it.
    Held,
}

/// The leases that a call asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asks {
    first: Option<Ask>,
    second: Option<Ask>,
    entries: Option<Ask>,
}

/// What a call is told of leases.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) granted: Vec<Granted>,
    pub(crate) changes: Vec<Change>,
    /// The first object of the call, if that was changed.
    first: Option<Object>,
    /// The modrev of the object that the call was too late for.
    pub(crate) late: Option<u64>,
    /// Whether its data goes to where the file ends.
    appends: bool,
    /// Where that was.
    offset: u64,
}

impl Asks {
    pub(crate) fn new(asks: &[lease::Ask]) -> Self {
        let at = |place| {
            let asked = asks.iter().find(|ask| ask.place == place);
            asked.map(|asked| ask(&asked.terms, false))
        };
        // Nobody is evicted for what was only listed.
        let entries = at(place::ENTRIES).map(|ask| Ask { opportune: true, ..ask });
        Self { first: at(place::FIRST), second: at(place::SECOND), entries }
    }

    /// One for the first object of a call.
    pub(crate) fn first(terms: &Terms, reclaim: bool) -> Self {
        Self { first: Some(ask(terms, reclaim)), ..Self::default() }
    }

    /// One of NQNFS, for the first object of a call.
    pub(crate) const fn mute(kind: Kind, term: Duration) -> Self {
        let (opportune, space, reclaim, reports) = (false, 0, false, false);
        let ask = Ask { kind, term, opportune, space, reclaim, reports };
        Self { first: Some(ask), second: None, entries: None }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.first.is_none() && self.second.is_none() && self.entries.is_none()
    }

    pub(super) const fn of(&self, place: u32) -> Option<Ask> {
        match place {
            place::FIRST => self.first,
            place::SECOND => self.second,
            _ => self.entries,
        }
    }
}

/// What is asked for, as the table has it.
fn ask(terms: &Terms, reclaim: bool) -> Ask {
    let kind = match terms.kind {
        lease::Kind::Read => Kind::Read,
        lease::Kind::Write => Kind::Write,
    };
    let term = Duration::from_millis(terms.term_ms.into());
    Ask { kind, term, opportune: terms.opportune, space: terms.space, reclaim, reports: true }
}

impl Asked {
    pub(crate) fn new(client: Client, asks: Asks, made_from: MadeFrom) -> Self {
        let may_be_lost = AtomicBool::new(false);
        Self { client, asks, made_from, may_be_lost, told: Mutex::default() }
    }

    /// The lease that its change was made under.
    pub(super) fn under(&self) -> Under {
        match self.made_from {
            MadeFrom::Named(base) => Under::Named(base.map(|base| Serial(base.serial))),
            MadeFrom::Held if self.may_be_lost.load(Ordering::Relaxed) => Under::HeldOrLost,
            MadeFrom::Held => Under::Held,
        }
    }

    /// What it changes may have been changed under a lease of before the server was started anew.
    pub(crate) fn may_be_lost(&self) {
        self.may_be_lost.store(true, Ordering::Relaxed);
    }

    /// Whether it is a call of NQNFS, whose client knows an object by the handle that it has.
    pub(super) const fn is_nqnfs(&self) -> bool {
        matches!(self.made_from, MadeFrom::Held)
    }

    /// What its change was made from, if it says so and that is an earlier state of the object than
    /// this. What the call has changed itself is no other state.
    pub(super) fn late_base(&self, now: Modrev) -> Option<Base> {
        let MadeFrom::Named(Some(base)) = self.made_from else { return None };
        let is_own = |change: &Change| (change.place, change.after) == (place::FIRST, now.0);
        let is_late = !Modrev(base.modrev).admits_late(now);
        (is_late && !self.lock().changes.iter().any(is_own)).then_some(base)
    }

    /// It is refused, as others have changed the object to this since.
    pub(super) fn is_late(&self, now: Modrev) -> FsError {
        self.lock().late = Some(now.0);
        FsError::Later
    }

    /// Whether it says what it was made from.
    pub(super) const fn names_base(&self) -> bool {
        matches!(self.made_from, MadeFrom::Named(Some(_)))
    }

    pub(super) fn granted(&self, place: u32, grant: &table::Grant, modrev: Modrev) {
        let mut told = self.lock();
        // A call that looks twice is granted the same anew.
        told.granted.retain(|other| other.place != place);
        told.granted.push(Granted { place, grant: grant_of(grant, modrev) });
    }

    /// What was granted for this place is void.
    pub(super) fn ungranted(&self, place: u32) {
        self.lock().granted.retain(|other| other.place != place);
    }

    pub(super) fn changed(&self, object: Object, change: Change) {
        let mut told = self.lock();
        if change.place == place::FIRST {
            told.first = Some(object);
        }
        match told.changes.iter_mut().find(|other| other.place == change.place) {
            Some(other) if other.after == change.before => other.after = change.after,
            _ => told.changes.push(change),
        }
    }

    /// Has its data go to where the file ends.
    pub(crate) fn append(&self) {
        self.lock().appends = true;
    }

    pub(super) fn appends(&self) -> bool {
        self.lock().appends
    }

    pub(super) fn appended(&self, offset: u64) {
        self.lock().offset = offset;
    }

    /// Where its data was appended.
    pub(crate) fn offset(&self) -> u64 {
        self.lock().offset
    }

    /// What it is told.
    pub(crate) fn outcome(&self) -> Outcome {
        core::mem::take(&mut *self.lock())
    }

    /// It is to be made again, and its client is told nothing of what it has changed under its lease
    /// already.
    pub(crate) fn untold(&self, leases: &Leases, told: &Outcome) {
        let MadeFrom::Named(Some(base)) = self.made_from else { return };
        let first = told.changes.iter().find(|change| change.place == place::FIRST);
        if let Some((object, change)) = told.first.zip(first) {
            let change = (Modrev(change.before), Modrev(change.after));
            leases.note_untold(object, (self.client, Serial(base.serial)), change);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Outcome> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A grant as it is told.
fn grant_of(grant: &table::Grant, modrev: Modrev) -> lease::Grant {
    lease::Grant {
        kind: match grant.kind {
            Kind::Read => lease::Kind::Read,
            Kind::Write => lease::Kind::Write,
        },
        cachable: grant.cachable,
        term_ms: u32::try_from(grant.term.as_millis()).unwrap_or(u32::MAX),
        serial: grant.serial.0,
        modrev: modrev.0,
        space: grant.space,
    }
}
