//! Piggybacked lease requests of a call, and the grants in its reply.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_core::leases::table::{self, Ask};
use leasehold_core::leases::{Client, Kind, Modrev, Object, Serial};
use leasehold_fs::FsError;
use leasehold_wire::lease::{self, Base, Change, Granted, Terms, place};

use crate::Leases;
use crate::operation_guard::ChangeLease;

/// The lease requests of a call of a client with leases, and the grants in its reply.
pub struct Piggyback {
    pub(super) client: Client,
    pub(super) asks: LeaseRequests,
    made_from: ChangeBase,
    /// True if the server may have forgotten the lease of the call's change in a restart.
    may_be_lost: AtomicBool,
    told: Mutex<Outcome>,
}

/// The base of a change: the state of the object from which the client made it.
#[derive(Clone, Copy, Debug)]
pub enum ChangeBase {
    /// The base that the call contains, if any.
    Named(Option<Base>),
    /// The lease that the client holds; NQNFS cannot name a base.
    Held,
}

/// The leases that a call requests, for its first object, its second object, and the entries of its
/// listing.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeaseRequests {
    first: Option<Ask>,
    second: Option<Ask>,
    entries: Option<Ask>,
}

/// The lease information in the reply to a call.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The granted leases.
    pub granted: Vec<Granted>,
    /// The changes of objects that the client may count as its own.
    pub changes: Vec<Change>,
    /// The first object of the call, if the call changed it.
    first: Option<Object>,
    /// The modrev of the object for which the call was late.
    pub late: Option<u64>,
    /// True if the data is appended to the file.
    appends: bool,
    /// The offset of the appended data.
    offset: u64,
}

impl LeaseRequests {
    /// Returns the requests of a call of the lease program.
    #[must_use]
    pub fn new(asks: &[lease::Ask]) -> Self {
        let at = |place| {
            let asked = asks.iter().find(|ask| ask.place == place);
            asked.map(|asked| ask(&asked.terms, false))
        };
        // A listing recalls no leases for its entries, so the request for the entries is always
        // opportunistic.
        let entries = at(place::ENTRIES).map(|ask| Ask { opportune: true, ..ask });
        Self { first: at(place::FIRST), second: at(place::SECOND), entries }
    }

    /// Returns a request for the first object of a call.
    #[must_use]
    pub fn first(terms: &Terms, reclaim: bool) -> Self {
        Self { first: Some(ask(terms, reclaim)), ..Self::default() }
    }

    /// Returns the request of an NQNFS call, which concerns the first object of the call.
    #[must_use]
    pub const fn mute(kind: Kind, term: Duration) -> Self {
        let (opportune, space, reclaim, reports) = (false, 0, false, false);
        let ask = Ask { kind, term, opportune, space, reclaim, reports };
        Self { first: Some(ask), second: None, entries: None }
    }

    /// Returns true if the call requests no lease.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
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

/// Converts a request to the form of the lease table.
fn ask(terms: &Terms, reclaim: bool) -> Ask {
    let kind = match terms.kind {
        lease::Kind::Read => Kind::Read,
        lease::Kind::Write => Kind::Write,
    };
    let term = Duration::from_millis(terms.term_ms.into());
    Ask { kind, term, opportune: terms.opportune, space: terms.space, reclaim, reports: true }
}

impl Piggyback {
    /// Returns the requests of a client in a call.
    #[must_use]
    pub fn new(client: Client, asks: LeaseRequests, made_from: ChangeBase) -> Self {
        let may_be_lost = AtomicBool::new(false);
        Self { client, asks, made_from, may_be_lost, told: Mutex::default() }
    }

    /// Returns the lease under which the client made the change.
    pub(super) fn under(&self) -> ChangeLease {
        match self.made_from {
            ChangeBase::Named(base) => ChangeLease::Named(base.map(|base| Serial(base.serial))),
            ChangeBase::Held if self.may_be_lost.load(Ordering::Relaxed) => ChangeLease::HeldOrLost,
            ChangeBase::Held => ChangeLease::Held,
        }
    }

    /// Records that the change may belong to a lease that the client held before the server
    /// restarted.
    pub fn may_be_lost(&self) {
        self.may_be_lost.store(true, Ordering::Relaxed);
    }

    /// Returns true for a call of NQNFS, whose client identifies an object by its own handle.
    pub(super) const fn is_nqnfs(&self) -> bool {
        matches!(self.made_from, ChangeBase::Held)
    }

    /// Returns the base of the change if the call contains a base that is older than the modrev
    /// `now`. A change by the call itself does not make the base older.
    pub(super) fn late_base(&self, now: Modrev) -> Option<Base> {
        let ChangeBase::Named(Some(base)) = self.made_from else { return None };
        let is_own = |change: &Change| (change.place, change.after) == (place::FIRST, now.0);
        let is_late = !Modrev(base.modrev).admits_late(now);
        (is_late && !self.lock().changes.iter().any(is_own)).then_some(base)
    }

    /// Records that the data of the call is late because the object now has the modrev `now`.
    /// Returns the error of the refusal.
    pub(super) fn is_late(&self, now: Modrev) -> FsError {
        self.lock().late = Some(now.0);
        FsError::Delay
    }

    /// Returns true if the call names the base of its change.
    pub(super) const fn names_base(&self) -> bool {
        matches!(self.made_from, ChangeBase::Named(Some(_)))
    }

    pub(super) fn granted(&self, place: u32, grant: &table::Grant, modrev: Modrev) {
        let mut told = self.lock();
        // A call may acquire the same object twice; the reply contains only the last grant.
        told.granted.retain(|other| other.place != place);
        told.granted.push(Granted { place, grant: grant_of(grant, modrev) });
    }

    /// Removes the grant for the object at `place` from the reply.
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

    /// Makes the call append its data to the file.
    pub fn append(&self) {
        self.lock().appends = true;
    }

    pub(super) fn appends(&self) -> bool {
        self.lock().appends
    }

    pub(super) fn appended(&self, offset: u64) {
        self.lock().offset = offset;
    }

    /// Returns the offset of the appended data.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.lock().offset
    }

    /// Takes the lease information for the reply.
    pub fn outcome(&self) -> Outcome {
        core::mem::take(&mut *self.lock())
    }

    /// Records the changes under the client's lease as unacknowledged, because the client must
    /// retry the call and its reply does not report them.
    pub fn unacknowledged(&self, leases: &Leases, told: &Outcome) {
        let ChangeBase::Named(Some(base)) = self.made_from else { return };
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

/// Converts a grant to its wire form.
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
