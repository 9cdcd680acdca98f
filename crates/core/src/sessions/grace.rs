//! The grace period after a restart: RECLAIM_COMPLETE, and the clients that may reclaim or lock.

use std::collections::BTreeMap;

use leasehold_base::units::Time;

use super::stable::{Record, Stable, Ticket, Waiter};
use super::types::{ClientId, Error, Owner, Principal};
use super::{Effect, Sessions};

/// The grace period.
#[derive(Clone, Debug)]
pub(super) struct Grace {
    /// The clients that may reclaim and have not completed their reclaims.
    missing: BTreeMap<Owner, Principal>,
    end: Time,
    phase: Phase,
}

#[derive(Clone, Debug)]
enum Phase {
    /// Clients reclaim.
    Reclaiming,
    /// All clients have returned, or the time is over. Clients may still reclaim until the owner of
    /// the state machine ends the grace period.
    Returned,
    /// The grace period ends after these writes.
    Closing(BTreeMap<Owner, Ticket>),
}

impl Grace {
    pub(super) fn new(stable: &Stable, end: Time) -> Self {
        let missing = stable.reclaimers();
        let missing = missing.map(|(owner, principal)| (owner.clone(), principal.clone()));
        Self { missing: missing.collect(), end, phase: Phase::Reclaiming }
    }

    pub(super) const fn next_wake(&self) -> Option<Time> {
        if matches!(self.phase, Phase::Reclaiming) { Some(self.end) } else { None }
    }

    /// Returns true if a client may reclaim.
    fn admits(&self, owner: &Owner, principal: &Principal) -> bool {
        let is_open = !matches!(self.phase, Phase::Closing(_));
        is_open && self.missing.get(owner) == Some(principal)
    }
}

impl Sessions {
    /// Handles RECLAIM_COMPLETE; `one_file_system` is its argument.
    ///
    /// # Errors
    /// Returns an error of RECLAIM_COMPLETE.
    pub fn reclaim_complete(
        &mut self,
        now: Time,
        id: ClientId,
        one_file_system: bool,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        self.pass(now, effects);
        let client = self.clients.get_mut(id).ok_or(Error::StaleClientId)?;
        // Rule 16: no file system migrates, so the request for one file system has no effect.
        let is_global = !one_file_system;
        #[cfg(any(test, feature = "mutants"))]
        let is_global = is_global || self.mutant == Some(super::Mutant::CompletesOneFileSystem);
        if !is_global {
            return Ok(());
        }
        if client.is_complete {
            return Err(Error::CompleteAlready);
        }
        client.is_complete = true;
        let (owner, principal) = (client.owner.clone(), client.principal.clone());
        let is_expired = !client.revoked.is_empty() || self.stable.is_revoking(&owner, id);
        let record = Record { principal, is_expired, is_incomplete: false };
        // Rule 15: the record is written before the client obtains state.
        self.stable.remember(&owner, record, effects);
        self.expect_no_more(&owner);
        self.end_phase(now, effects);
        self.audit();
        Ok(())
    }

    /// Returns true if the server is in its grace period.
    #[must_use]
    pub const fn in_grace(&self) -> bool {
        self.grace.is_some()
    }

    /// Returns true if no client has more to reclaim.
    #[must_use]
    pub fn all_returned(&self) -> bool {
        self.grace.as_ref().is_none_or(|grace| grace.missing.is_empty())
    }

    /// Lists the clients that may reclaim and have not completed their reclaims.
    pub fn missing(&self) -> impl Iterator<Item = &Owner> {
        self.grace.iter().flat_map(|grace| grace.missing.keys())
    }

    /// Permits a client to obtain state that it does not reclaim.
    ///
    /// # Errors
    /// Returns [`Error::Grace`] in the grace period and before the client's RECLAIM_COMPLETE, and
    /// [`Error::Delay`] until the client's record is stable; [`Effect::Remembered`] follows.
    pub fn may_grant(&self, id: ClientId) -> Result<(), Error> {
        let client = self.clients.get(id).ok_or(Error::StaleClientId)?;
        // Rule 16.
        if self.in_grace() || !client.is_complete {
            return Err(Error::Grace);
        }
        #[cfg(any(test, feature = "mutants"))]
        if self.mutant == Some(super::Mutant::GrantsUnremembered) {
            return Ok(());
        }
        // Rule 15: state is granted after the record is stable.
        if self.stable.is_stable(&client.owner) { Ok(()) } else { Err(Error::Delay) }
    }

    /// Permits a client to reclaim state.
    ///
    /// # Errors
    /// Returns [`Error::NoGrace`] if the client may not reclaim.
    pub fn may_reclaim(&self, id: ClientId) -> Result<(), Error> {
        let client = self.clients.get(id).ok_or(Error::StaleClientId)?;
        // Rule 16.
        let admits = |grace: &Grace| grace.admits(&client.owner, &client.principal);
        let may = !client.is_complete && client.must_reclaim;
        if may && self.grace.as_ref().is_some_and(admits) { Ok(()) } else { Err(Error::NoGrace) }
    }

    /// Returns true if only another principal may use the owner, because it may reclaim.
    pub(super) fn is_reserved(&self, owner: &Owner, principal: &Principal) -> bool {
        let expected = self.grace.as_ref().and_then(|grace| grace.missing.get(owner));
        expected.is_some_and(|expected| expected != principal)
    }

    /// Returns true if the client may reclaim after it is confirmed.
    pub(super) fn must_reclaim(&self, owner: &Owner, principal: &Principal) -> bool {
        self.grace.as_ref().is_some_and(|grace| grace.admits(owner, principal))
    }

    /// Stops the grace period from waiting for an owner, whose reclaims have ended.
    pub(super) fn expect_no_more(&mut self, owner: &Owner) {
        if let Some(grace) = &mut self.grace {
            grace.missing.remove(owner);
        }
    }

    /// Rule 17: reports that all clients have returned or that the time is over.
    pub(super) fn end_phase(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if let Some(grace) = &mut self.grace
            && matches!(grace.phase, Phase::Reclaiming)
            && (grace.missing.is_empty() || now >= grace.end)
        {
            grace.phase = Phase::Returned;
            effects.push(Effect::Returned);
        }
    }

    /// Rule 17: ends the grace period once the records show which clients did not complete.
    pub(super) fn end_grace(&mut self, effects: &mut Vec<Effect>) {
        let Some(grace) = &mut self.grace else { return };
        if matches!(grace.phase, Phase::Closing(_)) {
            return;
        }
        // A record that already had a flag at the start is useless unless its client has returned.
        for owner in self.stable.flagged() {
            if self.clients.of_owner(&owner).confirmed.is_none() {
                self.stable.forget(&owner, effects);
            }
        }
        let mut closing = BTreeMap::new();
        for owner in core::mem::take(&mut grace.missing).into_keys() {
            #[cfg(any(test, feature = "mutants"))]
            if self.mutant == Some(super::Mutant::ForgetsIncomplete) {
                continue;
            }
            let ticket = self.stable.mark_incomplete(&owner, effects);
            closing.extend(ticket.map(|ticket| (owner, ticket)));
        }
        grace.phase = Phase::Closing(closing);
        self.open(effects);
    }

    /// Rule 17: opens the server after the last write.
    fn open(&mut self, effects: &mut Vec<Effect>) {
        if let Some(Grace { phase: Phase::Closing(closing), .. }) = &self.grace
            && closing.is_empty()
        {
            self.grace = None;
            effects.push(Effect::Opened);
        }
    }

    /// A record is stable.
    pub(super) fn persisted(&mut self, ticket: Ticket, effects: &mut Vec<Effect>) {
        let Some((owner, waiters)) = self.stable.persisted(ticket) else { return };
        for waiter in waiters {
            self.release(&owner, waiter, effects);
        }
        let records = self.clients.of_owner(&owner);
        let is_complete = |id: &ClientId| self.clients.get(*id).is_some_and(|c| c.is_complete);
        let client = records.confirmed.filter(is_complete);
        let client = client.filter(|_| self.stable.is_stable(&owner));
        effects.extend(client.map(Effect::Remembered));
        if let Some(Grace { phase: Phase::Closing(closing), .. }) = &mut self.grace
            && closing.get(&owner).is_some_and(|since| *since <= ticket)
        {
            closing.remove(&owner);
        }
        self.open(effects);
    }

    /// Rule 13: makes a change that waited for the flag in a stable record.
    pub(super) fn release(&mut self, owner: &Owner, waiter: Waiter, effects: &mut Vec<Effect>) {
        match waiter {
            Waiter::Expelled(id) => effects.push(Effect::Void(id)),
            Waiter::Revoked(id) if self.clients.get(id).is_some() => {
                effects.push(Effect::Revoke(id));
            }
            Waiter::Revoked(_) => {}
        }
        if self.clients.of_owner(owner).confirmed.is_none() {
            self.forget_record(owner, effects);
        }
    }

    /// Removes the stable record of an owner without state. The grace period waits no longer for
    /// the owner.
    pub(super) fn forget_record(&mut self, owner: &Owner, effects: &mut Vec<Effect>) {
        self.stable.forget(owner, effects);
        self.expect_no_more(owner);
        if let Some(Grace { phase: Phase::Closing(closing), .. }) = &mut self.grace
            && !self.stable.is_listed(owner)
        {
            closing.remove(owner);
        }
        self.open(effects);
    }
}
