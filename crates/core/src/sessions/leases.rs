//! The leases of clients: renewal, expiry, courtesy and revocation.

use leasehold_base::units::Time;

use super::clients::Lease;
use super::flags::{Cause, StatusFlags};
use super::stable::Waiter;
use super::types::{ClientId, Owner, SessionId};
use super::{Effect, Sessions};

impl Sessions {
    /// Rule 12: renews the lease of a client.
    pub(super) fn renew(&mut self, now: Time, id: ClientId, effects: &mut Vec<Effect>) {
        let Some(client) = self.clients.get_mut(id) else { return };
        client.renewed = now;
        if let Lease::Expired(since) = client.lease {
            client.lease = Lease::Active;
            self.clients.courteous.remove(&(since, id));
            self.clients.wake_at(id, now + self.limits.lease);
            effects.push(Effect::Renewed(id));
        }
    }

    /// Rules 2 and 12: examines the leases whose time has come.
    pub(super) fn lapse(&mut self, now: Time, effects: &mut Vec<Effect>) {
        while let Some((_, id)) = self.clients.first_wake().filter(|(time, _)| *time <= now) {
            let client = self.clients.get_mut(id).expect("each wake is a client");
            let (renewed, lease) = (client.renewed, client.lease);
            if !client.is_confirmed {
                self.drop_record(id, effects);
                continue;
            }
            let due = match lease {
                Lease::Active => renewed + self.limits.lease,
                Lease::Expired(since) => since + self.limits.courtesy,
            };
            match lease {
                _ if due > now => self.clients.wake_at(id, due),
                Lease::Active => {
                    client.lease = Lease::Expired(now);
                    self.clients.courteous.insert((now, id));
                    self.clients.wake_at(id, now + self.limits.courtesy);
                    effects.push(Effect::Expired(id));
                }
                Lease::Expired(_) => self.expel(id, effects),
            }
        }
    }

    /// Rule 13: another client needs state of a client with an expired lease.
    pub(super) fn conflict(&mut self, id: ClientId, effects: &mut Vec<Effect>) {
        let lease = self.clients.get(id).map(|client| client.lease);
        if lease.is_some_and(|lease| lease != Lease::Active) {
            self.revoke(id, effects);
        }
    }

    /// Rule 13: state of a client is about to be revoked.
    pub(super) fn revoke(&mut self, id: ClientId, effects: &mut Vec<Effect>) {
        let Some(client) = self.clients.get(id) else { return };
        let (owner, waiter) = (client.owner.clone(), Waiter::Revoked(id));
        if self.stable.mark_expired(&owner, waiter, effects) {
            self.release(&owner, waiter, effects);
        }
    }

    /// Rule 14: the owner has revoked stateids of a client.
    pub(super) fn revoked(
        &mut self,
        (id, cause, stateids): (ClientId, Cause, u32),
        effects: &mut Vec<Effect>,
    ) {
        if let Some(client) = self.clients.get_mut(id) {
            client.revoked.add(cause, stateids);
        }
        self.acknowledge(id, effects);
    }

    /// Rule 14: a client has freed revoked stateids.
    pub(super) fn freed(
        &mut self,
        (id, cause, stateids): (ClientId, Cause, u32),
        effects: &mut Vec<Effect>,
    ) {
        if let Some(client) = self.clients.get_mut(id) {
            client.revoked.free(cause, stateids);
        }
        self.acknowledge(id, effects);
    }

    /// Rule 13: if no revoked stateid is left, client and server agree about the state again.
    fn acknowledge(&mut self, id: ClientId, effects: &mut Vec<Effect>) {
        let Some(client) = self.clients.get(id) else { return };
        if client.revoked.is_empty() && client.is_complete {
            let owner = client.owner.clone();
            self.stable.acknowledge(&owner, id, effects);
        }
    }

    /// Rule 22: an administrator removes an owner.
    pub(super) fn forget(&mut self, owner: &Owner, effects: &mut Vec<Effect>) {
        let records = self.clients.of_owner(owner);
        records.unconfirmed.into_iter().for_each(|id| self.drop_record(id, effects));
        match records.confirmed {
            Some(id) => self.expel(id, effects),
            None => self.forget_record(owner, effects),
        }
        self.expect_no_more(owner);
    }

    /// Rule 14: returns the status flags of a reply to SEQUENCE.
    pub(super) fn flags(&self, id: ClientId, session: SessionId) -> StatusFlags {
        let mut flags = StatusFlags::default();
        let Some(client) = self.clients.get(id) else { return flags };
        client.revoked.report(&mut flags);
        let must_reclaim = client.must_reclaim && !client.is_complete;
        flags.set_if(must_reclaim, StatusFlags::RECLAIM_NEEDED);
        let (down, session_down, faulty) = self.paths(id, session);
        flags.set_if(down, StatusFlags::CALLBACK_PATH_DOWN);
        flags.set_if(session_down, StatusFlags::SESSION_PATH_DOWN);
        flags.set_if(faulty, StatusFlags::BACKCHANNEL_FAULT);
        flags
    }
}
