//! The stateids of byte-range locks. A LOCK or LOCKU has three steps: this machine checks the
//! stateid and names the lock-owner, `locks` changes the ranges, and this machine counts the
//! change.

use super::shares::Modes;
use super::stateids::{StateId, StateNumber};
use super::states::Kind;
use super::{Object, Opens, Refusal};
use crate::owners::{Client, Name};

/// The lock-owner of a LOCK as the request names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockOwner {
    /// The stateid of the open, and the name of the lock-owner.
    New(StateId, Name),
    /// The stateid of locks of the lock-owner.
    Known(StateId),
}

/// The checked lock-owner of a LOCK or LOCKU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockBasis {
    /// The client.
    pub client: Client,
    /// The lock-owner.
    pub owner: Name,
    /// The open under which the lock is requested.
    pub open: StateNumber,
}

impl Opens {
    /// Checks the stateid of a LOCK; `access` is READ for a read lock and WRITE for a write lock.
    ///
    /// # Errors
    /// Returns a refusal if the lock must not be requested.
    pub fn check_lock(
        &mut self,
        client: Client,
        object: Object,
        owner: &LockOwner,
        access: Modes,
    ) -> Result<LockBasis, Refusal> {
        self.heard(client);
        let basis = match owner {
            LockOwner::New(id, name) => {
                let (open, _) = self.states.valid(client, object, *id, Kind::is_open)?;
                let key = (client, name.clone());
                let is_known = self.states.locks_of(open, &key).is_some();
                if !is_known && !self.states.has_room_for_locks(&key) {
                    return Err(Refusal::Full);
                }
                LockBasis { client, owner: key.1, open }
            }
            LockOwner::Known(id) => self.check_unlock(client, object, *id)?,
        };
        self.check_mode(basis.open, access)?;
        Ok(basis)
    }

    /// Checks the stateid of a LOCKU.
    ///
    /// # Errors
    /// Returns a refusal if the stateid is not the valid stateid of locks.
    pub fn check_unlock(
        &mut self,
        client: Client,
        object: Object,
        id: StateId,
    ) -> Result<LockBasis, Refusal> {
        self.heard(client);
        let (_, state) = self.states.valid(client, object, id, |kind| !kind.is_open())?;
        match state.kind {
            Kind::Locks { owner, open } => {
                let owner = self.states.lock_owner(owner).clone();
                Ok(LockBasis { client, owner, open })
            }
            Kind::Open { .. } | Kind::Revoked(_) => Err(Refusal::BadStateId),
        }
    }

    /// Counts a LOCK or LOCKU that `locks` has performed, and returns the stateid of the locks.
    ///
    /// # Errors
    /// Returns [`Refusal::BadStateId`] if the open has ended since the check, and
    /// [`Refusal::Full`] if a limit was reached since the check.
    // Rule 9
    pub fn locked(&mut self, basis: &LockBasis) -> Result<StateId, Refusal> {
        let key = (basis.client, basis.owner.clone());
        let id = match self.states.locks_of(basis.open, &key) {
            Some(number) => self.states.bump(number),
            None if !self.states.has_open(basis.open) => return Err(Refusal::BadStateId),
            None => {
                let number = self.states.add_locks(basis.open, &key).ok_or(Refusal::Full)?;
                self.states.id(number)
            }
        };
        self.audit();
        Ok(id)
    }

    /// Returns the lock-owner of a lock stateid, whichever its sequence number; `None` if the
    /// stateid is not a live stateid of locks.
    #[must_use]
    pub fn lock_owner(&self, client: Client, id: StateId) -> Option<(Object, LockBasis)> {
        let (_, state) = self.states.find(client, id).ok()?;
        let Kind::Locks { owner, open } = state.kind else { return None };
        let owner = self.states.lock_owner(owner).clone();
        Some((state.object, LockBasis { client, owner, open }))
    }
}
