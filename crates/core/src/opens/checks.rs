//! The checks of stateids in READ, WRITE, SETATTR, TEST_STATEID and FREE_STATEID.

use super::shares::{Modes, Share};
use super::stateids::{self, Special, StateId, StateNumber};
use super::states::Kind;
use super::{Effect, Object, Opens, Refusal};
use crate::owners::Client;

/// The permission on which a READ, WRITE or SETATTR relies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// No open denies the access.
    Anonymous,
    /// The READ ignores share reservations.
    Bypass,
    /// The client has opened the file with the access; the number is the open's.
    Open(StateNumber),
}

impl Kind {
    pub(super) const fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. })
    }
}

impl Opens {
    /// Checks the stateid of a READ, a WRITE or a SETATTR of the size; `access` is READ or WRITE.
    /// `is_grace` is true during the grace period.
    ///
    /// # Errors
    /// Returns a refusal if the operation must not be performed.
    pub fn check_io(
        &mut self,
        client: Client,
        object: Object,
        (id, access): (StateId, Modes),
        is_grace: bool,
        effects: &mut Vec<Effect>,
    ) -> Result<Basis, Refusal> {
        self.heard(client);
        // Rule 7
        match id.special() {
            Some(Special::Bypass) if !access.write && !is_grace => Ok(Basis::Bypass),
            Some(Special::Anonymous | Special::Bypass) if is_grace => Err(Refusal::Grace),
            Some(Special::Anonymous | Special::Bypass) => {
                let denies = |share: Share| share.deny.intersects(access);
                let is_free = !denies(self.states.share(object))
                    || self.expire_conflicts(object, denies, effects);
                self.audit();
                if is_free { Ok(Basis::Anonymous) } else { Err(Refusal::Locked) }
            }
            Some(Special::Current | Special::Invalid) => Err(Refusal::BadStateId),
            // Rule 6
            None => {
                let (number, state) = self.states.valid(client, object, id, |_| true)?;
                let open = match state.kind {
                    Kind::Locks { open, .. } => open,
                    Kind::Open { .. } | Kind::Revoked(_) => number,
                };
                self.check_mode(open, access).map(|()| Basis::Open(open))
            }
        }
    }

    /// Returns the validity of a stateid (TEST_STATEID).
    ///
    /// # Errors
    /// Returns the refusal of a request with this stateid.
    // Rule 10
    pub fn test(&self, client: Client, id: StateId) -> Result<(), Refusal> {
        let (_, state) = self.states.find(client, id)?;
        if let Kind::Revoked(cause) = state.kind {
            return Err(cause.into());
        }
        stateids::compare(id.sequence, state.sequence)
    }

    /// Frees a stateid (FREE_STATEID). `holds_locks` is true if the lock-owner of a lock stateid
    /// ([`Self::lock_owner`]) has locks under the open of the stateid.
    ///
    /// # Errors
    /// Returns a refusal if the stateid is not valid or has locks.
    // Rule 10
    pub fn free(
        &mut self,
        client: Client,
        id: StateId,
        holds_locks: bool,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        self.heard(client);
        let (number, state) = self.states.find(client, id)?;
        stateids::compare(id.sequence, state.sequence)?;
        match state.kind {
            Kind::Open { .. } => return Err(Refusal::LocksHeld),
            Kind::Locks { .. } if holds_locks => return Err(Refusal::LocksHeld),
            Kind::Locks { .. } | Kind::Revoked(_) => self.states.end(number, None, effects),
        }
        self.audit();
        Ok(())
    }

    /// Checks that an open has an access.
    pub(super) fn check_mode(&self, open: StateNumber, access: Modes) -> Result<(), Refusal> {
        let has_access = self.share_of(open).access.contains(access);
        if has_access { Ok(()) } else { Err(Refusal::OpenMode) }
    }

    /// Returns the share reservation of an open.
    pub(super) fn share_of(&self, open: StateNumber) -> Share {
        match self.states.state(open).kind {
            Kind::Open { opened, .. } => opened.share(),
            Kind::Locks { .. } | Kind::Revoked(_) => Share::default(),
        }
    }
}
