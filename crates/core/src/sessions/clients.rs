//! The client records, EXCHANGE_ID and DESTROY_CLIENTID.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::Time;

use super::backchannel::Callbacks;
use super::create::Creation;
use super::flags::Revoked;
use super::hosts::{Host, Hosts};
use super::stable::Waiter;
use super::types::Verifier;
use super::types::{ClientId, Error, ExchangeFlags, Owner, Principal, SequenceId, SessionId};
use super::{Effect, Sessions};

/// The arguments of EXCHANGE_ID.
#[doc(alias = "EXCHANGE_ID4args")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeId {
    /// The name of the client.
    pub owner: Owner,
    /// The incarnation of the client.
    pub verifier: Verifier,
    /// The principal of the request.
    pub principal: Principal,
    /// The flags of the request.
    pub flags: ExchangeFlags,
    /// The address from which the request arrived.
    pub address: IpAddr,
    /// The minor version of the COMPOUND.
    pub minor: u32,
}

/// The results of EXCHANGE_ID, apart from the identity of the server.
#[doc(alias = "EXCHANGE_ID4resok")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchanged {
    /// The client id.
    pub client: ClientId,
    /// The number of the next CREATE_SESSION.
    pub sequence: SequenceId,
    /// The flags of the reply.
    pub flags: ExchangeFlags,
}

/// The client records of a server.
#[derive(Clone, Debug)]
pub(super) struct Clients {
    by_id: BTreeMap<ClientId, Client>,
    by_owner: BTreeMap<Owner, Records>,
    /// For each client, the time at which its lease is examined.
    wakes: BTreeSet<(Time, ClientId)>,
    /// The unconfirmed records by age.
    unconfirmed: BTreeSet<(Time, ClientId)>,
    /// The clients with an expired lease, by the time of expiry.
    pub(super) courteous: BTreeSet<(Time, ClientId)>,
    pub(super) hosts: Hosts,
    next: u32,
}

/// The records of one owner.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Records {
    pub(super) confirmed: Option<ClientId>,
    pub(super) unconfirmed: Option<ClientId>,
}

/// A client record.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) owner: Owner,
    pub(super) verifier: Verifier,
    pub(super) principal: Principal,
    pub(super) flags: ExchangeFlags,
    /// The address and the minor version of its EXCHANGE_ID.
    pub(super) address: IpAddr,
    pub(super) minor: u32,
    pub(super) is_confirmed: bool,
    pub(super) creation: Creation,
    pub(super) sessions: BTreeSet<SessionId>,
    /// The time of the last renewal, or of the creation of an unconfirmed record.
    pub(super) renewed: Time,
    /// The time of the client's entry in the set `Clients::wakes`.
    wake: Time,
    pub(super) lease: Lease,
    /// True if the client has opens, locks, delegations or layouts.
    pub(super) has_state: bool,
    /// True if the client has sent RECLAIM_COMPLETE.
    pub(super) is_complete: bool,
    /// True if the client had state before the restart of the server and may reclaim it.
    pub(super) must_reclaim: bool,
    pub(super) revoked: Revoked,
    /// The memory that the replies of all sessions use.
    pub(super) reply_bytes: usize,
    /// The number of slots of all sessions.
    pub(super) slots: usize,
    pub(super) callbacks: Callbacks,
}

/// The lease of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lease {
    Active,
    /// The lease expired at this time, and the client keeps its state.
    Expired(Time),
}

impl Clients {
    pub(super) const fn new() -> Self {
        Self {
            by_id: BTreeMap::new(),
            by_owner: BTreeMap::new(),
            wakes: BTreeSet::new(),
            unconfirmed: BTreeSet::new(),
            courteous: BTreeSet::new(),
            hosts: Hosts::new(),
            next: 1,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn get(&self, id: ClientId) -> Option<&Client> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        self.by_id.get_mut(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ClientId, &Client)> {
        self.by_id.iter().map(|(id, client)| (*id, client))
    }

    pub(super) fn of_owner(&self, owner: &Owner) -> Records {
        self.by_owner.get(owner).copied().unwrap_or_default()
    }

    pub(super) fn first_wake(&self) -> Option<(Time, ClientId)> {
        self.wakes.first().copied()
    }

    /// Sets the time at which the lease of a client is examined.
    pub(super) fn wake_at(&mut self, id: ClientId, time: Time) {
        if let Some(client) = self.by_id.get_mut(&id) {
            self.wakes.remove(&(client.wake, id));
            client.wake = time;
            self.wakes.insert((time, id));
        }
    }

    /// Adds an unconfirmed record that leaves at a time.
    fn add(&mut self, epoch: u32, call: &ExchangeId, now: Time, wake: Time) -> ClientId {
        let id = ClientId(u64::from(epoch) << 32 | u64::from(self.next));
        self.next += 1;
        let client = Client {
            owner: call.owner.clone(),
            verifier: call.verifier,
            principal: call.principal.clone(),
            flags: call.flags,
            address: call.address,
            minor: call.minor,
            is_confirmed: false,
            creation: Creation::new(),
            sessions: BTreeSet::new(),
            renewed: now,
            wake,
            lease: Lease::Active,
            has_state: false,
            is_complete: false,
            must_reclaim: false,
            revoked: Revoked::default(),
            reply_bytes: 0,
            slots: 0,
            callbacks: Callbacks::new(),
        };
        self.by_id.insert(id, client);
        self.by_owner.entry(call.owner.clone()).or_default().unconfirmed = Some(id);
        self.wakes.insert((wake, id));
        self.unconfirmed.insert((now, id));
        self.hosts.add(Host::of(call.address), id);
        id
    }

    /// Rule 4: confirms a record. The owner must have no other confirmed record.
    pub(super) fn confirm(&mut self, now: Time, id: ClientId) {
        let client = self.by_id.get_mut(&id).expect("an unconfirmed client is known");
        self.unconfirmed.remove(&(client.renewed, id));
        self.hosts.confirm(Host::of(client.address), id);
        client.is_confirmed = true;
        client.renewed = now;
        let records = self.by_owner.get_mut(&client.owner).expect("a client has an owner");
        *records = Records { confirmed: Some(id), unconfirmed: None };
    }

    /// Removes a record without sessions.
    pub(super) fn remove(&mut self, id: ClientId) -> Option<Client> {
        let client = self.by_id.remove(&id)?;
        self.wakes.remove(&(client.wake, id));
        self.unconfirmed.remove(&(client.renewed, id));
        self.hosts.remove(Host::of(client.address), id);
        if let Lease::Expired(since) = client.lease {
            self.courteous.remove(&(since, id));
        }
        if let Some(records) = self.by_owner.get_mut(&client.owner) {
            records.confirmed = records.confirmed.filter(|other| *other != id);
            records.unconfirmed = records.unconfirmed.filter(|other| *other != id);
            if records.confirmed.is_none() && records.unconfirmed.is_none() {
                self.by_owner.remove(&client.owner);
            }
        }
        Some(client)
    }

    pub(super) fn check(&self) {
        assert_eq!(self.wakes.len(), self.by_id.len(), "each client has a wake");
        assert_eq!(self.hosts.len(), self.by_id.len(), "each client has a host");
        let mut expired = 0;
        for (id, client) in &self.by_id {
            assert!(self.wakes.contains(&(client.wake, *id)), "the wake is current");
            let records = self.of_owner(&client.owner);
            let of_kind = if client.is_confirmed { records.confirmed } else { records.unconfirmed };
            assert_eq!(of_kind, Some(*id), "an owner has one record of each kind");
            let is_young = self.unconfirmed.contains(&(client.renewed, *id));
            assert_eq!(is_young, !client.is_confirmed, "unconfirmed records have an age");
            let host = Host::of(client.address);
            assert!(self.hosts.has(host, *id, client.is_confirmed), "hosts list their records");
            assert!(client.is_confirmed || client.sessions.is_empty(), "sessions confirm");
            if let Lease::Expired(since) = client.lease {
                expired += 1;
                assert!(self.courteous.contains(&(since, *id)), "expired leases are listed");
            }
        }
        assert_eq!(expired, self.courteous.len(), "listed leases have expired");
        for records in self.by_owner.values() {
            let mut ids = records.confirmed.iter().chain(&records.unconfirmed);
            assert!(ids.all(|id| self.by_id.contains_key(id)), "records exist");
        }
    }
}

impl Sessions {
    /// Handles EXCHANGE_ID (RFC 8881 18.35).
    ///
    /// # Errors
    /// Returns an error of EXCHANGE_ID.
    pub fn exchange_id(
        &mut self,
        now: Time,
        call: &ExchangeId,
        effects: &mut Vec<Effect>,
    ) -> Result<Exchanged, Error> {
        self.pass(now, effects);
        let exchanged = self.exchange(now, call, effects);
        self.audit();
        exchanged
    }

    fn exchange(
        &mut self,
        now: Time,
        call: &ExchangeId,
        effects: &mut Vec<Effect>,
    ) -> Result<Exchanged, Error> {
        if !ExchangeFlags::REQUEST.has(call.flags) {
            return Err(Error::Invalid);
        }
        let Records { confirmed, unconfirmed } = self.clients.of_owner(&call.owner);
        // Rule 16: an owner that may reclaim keeps its principal.
        if self.is_reserved(&call.owner, &call.principal) {
            return Err(Error::ClientIdInUse);
        }
        let known = confirmed.and_then(|id| Some((id, self.clients.get(id)?)));
        if call.flags.has(ExchangeFlags::UPDATE) {
            return self.update(call, confirmed);
        }
        if let Some((id, client)) = known {
            let is_same = client.verifier == call.verifier;
            if client.principal == call.principal && is_same {
                // Rule 1, case 2. An unconfirmed record of another incarnation gives way.
                let exchanged = self.exchanged(id);
                unconfirmed.into_iter().for_each(|other| self.drop_record(other, effects));
                return Ok(exchanged);
            }
            if client.principal != call.principal {
                // Rule 1, case 3.
                if client.has_state && client.lease == Lease::Active {
                    return Err(Error::ClientIdInUse);
                }
                self.expel(id, effects);
            }
        }
        // Rule 1, case 4: a new record replaces an unconfirmed record. Cases 1 and 5 have none.
        unconfirmed.into_iter().for_each(|other| self.drop_record(other, effects));
        self.make_room_of_host(Host::of(call.address), effects)?;
        self.make_room(effects)?;
        let wake = now + self.limits.lease;
        let id = self.clients.add(self.epoch, call, now, wake);
        Ok(self.exchanged(id))
    }

    /// Rule 1, cases 6 to 9: updates a confirmed record.
    fn update(
        &mut self,
        call: &ExchangeId,
        confirmed: Option<ClientId>,
    ) -> Result<Exchanged, Error> {
        let id = confirmed.ok_or(Error::NoEntry)?;
        let client = self.clients.get_mut(id).ok_or(Error::NoEntry)?;
        if client.verifier != call.verifier {
            return Err(Error::NotSame);
        }
        if client.principal != call.principal {
            return Err(Error::Permission);
        }
        client.flags = call.flags;
        Ok(self.exchanged(id))
    }

    fn exchanged(&self, id: ClientId) -> Exchanged {
        let client = self.clients.get(id).expect("the record exists");
        let confirmed =
            if client.is_confirmed { ExchangeFlags::CONFIRMED } else { ExchangeFlags::default() };
        let flags = self.server.flags.with(confirmed);
        Exchanged { client: id, sequence: client.creation.next(), flags }
    }

    /// Rule 2: makes room for a record. The oldest unconfirmed record leaves first if there are too
    /// many, then the client whose lease expired first.
    fn make_room(&mut self, effects: &mut Vec<Effect>) -> Result<(), Error> {
        let oldest = self.clients.unconfirmed.first().copied();
        if let Some((_, id)) = oldest.filter(|_| {
            self.clients.unconfirmed.len() >= self.limits.unconfirmed
                || self.records() >= self.limits.clients && self.clients.courteous.is_empty()
        }) {
            self.drop_record(id, effects);
        }
        if self.records() >= self.limits.clients {
            self.expel_oldest(effects);
        }
        if self.records() >= self.limits.clients { Err(Error::Delay) } else { Ok(()) }
    }

    /// Returns the number of records, with the records that leave.
    fn records(&self) -> usize {
        self.clients.len() + self.stable.leaving()
    }

    /// Rule 13: drops the client whose lease expired first.
    pub(super) fn expel_oldest(&mut self, effects: &mut Vec<Effect>) {
        if let Some((_, id)) = self.clients.courteous.first().copied() {
            self.expel(id, effects);
        }
    }

    /// Handles DESTROY_CLIENTID; `of_request` is the client of a preceding SEQUENCE.
    ///
    /// # Errors
    /// Returns an error of DESTROY_CLIENTID.
    pub fn destroy_client_id(
        &mut self,
        now: Time,
        id: ClientId,
        of_request: Option<ClientId>,
        principal: &Principal,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        self.pass(now, effects);
        // Rule 11: only an idle client can be destroyed, and only by its own principal.
        let client = self.clients.get(id).ok_or(Error::StaleClientId)?;
        let is_active = client.lease == Lease::Active;
        let is_busy = !client.sessions.is_empty() || client.has_state;
        if of_request == Some(id) || is_active && is_busy {
            return Err(Error::ClientIdBusy);
        }
        if client.principal != *principal {
            return Err(Error::WrongCredential);
        }
        self.leave(id, effects);
        self.audit();
        Ok(())
    }

    /// Drops a client that keeps no state by its own account: it ends its client id, or it has
    /// restarted.
    pub(super) fn leave(&mut self, id: ClientId, effects: &mut Vec<Effect>) {
        let Some(client) = self.clients.get(id) else { return };
        let (owner, is_confirmed) = (client.owner.clone(), client.is_confirmed);
        self.drop_record(id, effects);
        // An unconfirmed record may belong to another client than the stable record.
        if is_confirmed {
            self.forget_record(&owner, effects);
        }
    }

    /// Rule 13: drops a client that may still rely on its state. The state stays until the stable
    /// record shows that the client has lost it.
    pub(super) fn expel(&mut self, id: ClientId, effects: &mut Vec<Effect>) {
        let Some(client) = self.clients.get(id) else { return };
        let (owner, has_state) = (client.owner.clone(), client.has_state);
        if !client.is_confirmed {
            self.drop_record(id, effects);
        } else if has_state && self.stable.is_listed(&owner) {
            self.dissolve(id, effects);
            let waiter = Waiter::Expelled(id);
            if self.stable.mark_expired(&owner, waiter, effects) {
                self.release(&owner, waiter, effects);
            }
        } else {
            self.leave(id, effects);
        }
    }

    /// Removes a record with its sessions, and voids its state.
    pub(super) fn drop_record(&mut self, id: ClientId, effects: &mut Vec<Effect>) {
        let is_confirmed = self.clients.get(id).is_some_and(|client| client.is_confirmed);
        self.dissolve(id, effects);
        if is_confirmed {
            effects.push(Effect::Void(id));
        }
    }

    /// Removes a record with its sessions and callbacks.
    fn dissolve(&mut self, id: ClientId, effects: &mut Vec<Effect>) {
        let sessions = self.clients.get(id).map(|client| client.sessions.clone());
        self.end_callbacks(id, effects);
        for session in sessions.unwrap_or_default() {
            self.remove_session(session);
        }
        self.clients.remove(id);
    }
}
