//! The table of states with its indexes.

use std::collections::{BTreeMap, BTreeSet};

use super::shares::{Counts, Opened, Share};
use super::stateids::{self, StateId, StateKind, StateNumber};
use super::{Effect, Limits, Object, Refusal};
use crate::owners::{Client, Name, OwnerNumber, Owners};

/// A state that a stateid designates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) object: Object,
    pub(super) client: Client,
    pub(super) sequence: u32,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Open {
        owner: OwnerNumber,
        opened: Opened,
    },
    /// The locks of a lock-owner under an open.
    Locks {
        owner: OwnerNumber,
        open: StateNumber,
    },
    /// The state was revoked, and its client has not acknowledged the loss.
    Revoked(Cause),
}

/// The cause for which a state was revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Administrator,
    Expired,
}

/// The numbers of states of one client in one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The opens and lock states. A client with live state is busy: NFS4ERR_CLIENTID_BUSY.
    pub live: usize,
    /// The states that the client has lost with its lease, and not acknowledged:
    /// SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED.
    pub expired: usize,
    /// The states that an administrator revoked, and that the client has not acknowledged:
    /// SEQ4_STATUS_ADMIN_STATE_REVOKED.
    pub revoked: usize,
}

impl Tally {
    const fn total(self) -> usize {
        self.live + self.expired + self.revoked
    }

    pub(super) const fn of(&mut self, kind: &Kind) -> &mut usize {
        match kind {
            Kind::Open { .. } | Kind::Locks { .. } => &mut self.live,
            Kind::Revoked(Cause::Administrator) => &mut self.revoked,
            Kind::Revoked(Cause::Expired) => &mut self.expired,
        }
    }
}

/// The states of one shard.
#[derive(Clone, Debug)]
pub(super) struct States {
    pub(super) limits: Limits,
    epoch: u32,
    shard: u8,
    next: u64,
    states: BTreeMap<StateNumber, State>,
    /// The states of each client, revoked ones included.
    of_client: BTreeSet<(Client, StateNumber)>,
    /// The open of each file and open-owner.
    opens: BTreeMap<(Object, OwnerNumber), StateNumber>,
    /// The state of the locks of each open and lock-owner.
    locks: BTreeMap<(StateNumber, OwnerNumber), StateNumber>,
    files: BTreeMap<Object, Counts>,
    open_owners: Owners<(Client, Name)>,
    lock_owners: Owners<(Client, Name)>,
    tallies: BTreeMap<Client, Tally>,
}

impl States {
    pub(super) const fn new(limits: Limits, epoch: u32, shard: u8) -> Self {
        Self {
            limits,
            epoch,
            shard,
            next: 1,
            states: BTreeMap::new(),
            of_client: BTreeSet::new(),
            opens: BTreeMap::new(),
            locks: BTreeMap::new(),
            files: BTreeMap::new(),
            open_owners: Owners::new(limits.owners),
            lock_owners: Owners::new(limits.owners),
            tallies: BTreeMap::new(),
        }
    }

    /// Returns the state of a stateid, revoked or not, and without a check of its sequence number.
    // Rule 8
    pub(super) fn find(
        &self,
        client: Client,
        id: StateId,
    ) -> Result<(StateNumber, State), Refusal> {
        if id.special().is_some() {
            return Err(Refusal::BadStateId);
        }
        if id.epoch() != self.epoch {
            return Err(Refusal::StaleStateId);
        }
        let number = id.number();
        let state = self.states.get(&number).filter(|state| state.client == client);
        state.map(|state| (number, *state)).ok_or(Refusal::BadStateId)
    }

    /// Returns the state of a stateid that is valid for a kind of state on a file.
    pub(super) fn valid(
        &self,
        client: Client,
        object: Object,
        id: StateId,
        fits: impl Fn(&Kind) -> bool,
    ) -> Result<(StateNumber, State), Refusal> {
        let (number, state) = self.find(client, id)?;
        if state.object != object {
            return Err(Refusal::BadStateId);
        }
        if let Kind::Revoked(cause) = state.kind {
            return Err(cause.into());
        }
        if !fits(&state.kind) {
            return Err(Refusal::BadStateId);
        }
        stateids::compare(id.sequence, state.sequence)?;
        Ok((number, state))
    }

    pub(super) fn exists(&self, number: StateNumber) -> bool {
        self.states.contains_key(&number)
    }

    /// Returns true if the number is an open that is not revoked.
    pub(super) fn has_open(&self, number: StateNumber) -> bool {
        self.states.get(&number).is_some_and(|state| state.kind.is_open())
    }

    pub(super) fn state(&self, number: StateNumber) -> State {
        self.states[&number]
    }

    /// Returns the stateid of a state.
    pub(super) fn id(&self, number: StateNumber) -> StateId {
        StateId::new(self.epoch, number, self.states[&number].sequence)
    }

    /// Increments the sequence number of a state.
    pub(super) fn bump(&mut self, number: StateNumber) -> StateId {
        let state = self.states.get_mut(&number).expect("the state was found");
        state.sequence = stateids::after(state.sequence);
        self.id(number)
    }

    /// Sets the sequence number of a state.
    #[cfg(test)]
    pub(super) fn set_sequence(&mut self, number: StateNumber, sequence: u32) {
        self.states.get_mut(&number).expect("the state exists").sequence = sequence;
    }

    /// Returns the open of an open-owner on a file.
    pub(super) fn open_of(&self, object: Object, owner: &(Client, Name)) -> Option<StateNumber> {
        let owner = self.open_owners.find(owner)?;
        self.opens.get(&(object, owner)).copied()
    }

    /// Returns the union of the share reservations of a file.
    pub(super) fn share(&self, object: Object) -> Share {
        self.files.get(&object).map_or_else(Share::default, Counts::share)
    }

    /// Lists the opens of a file with their clients and share reservations.
    pub(super) fn opens_on(&self, object: Object) -> impl Iterator<Item = (Client, Share)> + '_ {
        let opens = self.opens.range((object, OwnerNumber::FIRST)..=(object, OwnerNumber::LAST));
        opens.filter_map(|(_, number)| {
            let state = &self.states[number];
            match state.kind {
                Kind::Open { opened, .. } => Some((state.client, opened.share())),
                Kind::Locks { .. } | Kind::Revoked(_) => None,
            }
        })
    }

    /// Adds an open; `None` if a limit is reached.
    pub(super) fn add_open(
        &mut self,
        object: Object,
        owner: &(Client, Name),
        share: Share,
        effects: &mut Vec<Effect>,
    ) -> Option<StateNumber> {
        if !self.has_room(owner.0) {
            return None;
        }
        let number = self.open_owners.enter(owner)?;
        self.open_owners.add(number, 1);
        let kind = Kind::Open { owner: number, opened: Opened::new(share) };
        let open = self.insert(object, owner.0, StateKind::Open, kind);
        self.opens.insert((object, number), open);
        if !self.files.contains_key(&object) {
            // Rule 14
            effects.push(Effect::First(object));
        }
        self.files.entry(object).or_default().add(share);
        Some(open)
    }

    /// Replaces the OPENs that an open unites.
    pub(super) fn set_opened(&mut self, number: StateNumber, opened: Opened) {
        let state = self.states.get_mut(&number).expect("the open was found");
        if let Kind::Open { opened: present, .. } = &mut state.kind {
            let counts = self.files.get_mut(&state.object).expect("an open file has counts");
            counts.subtract(present.share());
            counts.add(opened.share());
            *present = opened;
        }
    }

    /// Returns the state of the locks of a lock-owner under an open.
    pub(super) fn locks_of(
        &self,
        open: StateNumber,
        owner: &(Client, Name),
    ) -> Option<StateNumber> {
        let owner = self.lock_owners.find(owner)?;
        self.locks.get(&(open, owner)).copied()
    }

    pub(super) fn lock_owner(&self, owner: OwnerNumber) -> &Name {
        &self.lock_owners.key(owner).1
    }

    /// Returns true if a lock-owner of a client can have one more state.
    pub(super) fn has_room_for_locks(&self, owner: &(Client, Name)) -> bool {
        self.has_room(owner.0) && self.lock_owners.has_room(owner)
    }

    /// Adds the state of the locks of a lock-owner under an open; `None` if a limit is reached.
    pub(super) fn add_locks(
        &mut self,
        open: StateNumber,
        owner: &(Client, Name),
    ) -> Option<StateNumber> {
        if !self.has_room(owner.0) {
            return None;
        }
        let number = self.lock_owners.enter(owner)?;
        self.lock_owners.add(number, 1);
        let object = self.states[&open].object;
        let kind = Kind::Locks { owner: number, open };
        let locks = self.insert(object, owner.0, StateKind::Locks, kind);
        self.locks.insert((open, number), locks);
        Some(locks)
    }

    /// Ends a state and all locks under it. The state is removed, or it stays as a revoked state if
    /// there is a cause.
    pub(super) fn end(
        &mut self,
        number: StateNumber,
        cause: Option<Cause>,
        effects: &mut Vec<Effect>,
    ) {
        let locks = self.locks.range((number, OwnerNumber::FIRST)..=(number, OwnerNumber::LAST));
        let locks: Vec<StateNumber> = locks.map(|(_, locks)| *locks).collect();
        for number in locks.into_iter().chain([number]) {
            let State { object, client, kind, .. } = self.states[&number];
            match kind {
                Kind::Open { owner, opened } => self.end_open(object, owner, opened, effects),
                Kind::Locks { owner, open } => {
                    let name = self.lock_owner(owner).clone();
                    effects.push(Effect::Unlock { object, client, owner: name, open });
                    self.locks.remove(&(open, owner));
                    self.lock_owners.subtract(owner, 1);
                    self.lock_owners.settle(owner);
                }
                Kind::Revoked(_) => {}
            }
            self.count(client, |tally| {
                *tally.of(&kind) -= 1;
                if let Some(cause) = cause {
                    *tally.of(&Kind::Revoked(cause)) += 1;
                }
            });
            if let Some(cause) = cause {
                let state = self.states.get_mut(&number).expect("the state exists");
                state.kind = Kind::Revoked(cause);
            } else {
                self.states.remove(&number);
                self.of_client.remove(&(client, number));
            }
        }
    }

    fn end_open(
        &mut self,
        object: Object,
        owner: OwnerNumber,
        opened: Opened,
        effects: &mut Vec<Effect>,
    ) {
        self.opens.remove(&(object, owner));
        self.open_owners.subtract(owner, 1);
        self.open_owners.settle(owner);
        let counts = self.files.get_mut(&object).expect("an open file has counts");
        counts.subtract(opened.share());
        if *counts == Counts::default() {
            self.files.remove(&object);
            // Rule 14
            effects.push(Effect::Last(object));
        }
    }

    /// Returns the numbers of states of a client.
    pub(super) fn tally(&self, client: Client) -> Tally {
        self.tallies.get(&client).copied().unwrap_or_default()
    }

    /// Lists the states of a client, revoked ones included.
    pub(super) fn of_client(&self, client: Client) -> impl Iterator<Item = StateNumber> + '_ {
        let range = (client, StateNumber(0))..=(client, StateNumber(u64::MAX));
        self.of_client.range(range).map(|(_, number)| *number)
    }

    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    pub(super) fn opens(&self) -> usize {
        self.opens.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (StateNumber, &State)> {
        self.states.iter().map(|(number, state)| (*number, state))
    }

    pub(super) fn open_owner(&self, owner: OwnerNumber) -> &Name {
        &self.open_owners.key(owner).1
    }

    // Rule 15
    fn has_room(&self, client: Client) -> bool {
        // Revoked states count, because they stay until their client acknowledges the loss.
        self.states.len() < self.limits.states && self.tally(client).total() < self.limits.of_client
    }

    fn insert(
        &mut self,
        object: Object,
        client: Client,
        kind_of_id: StateKind,
        kind: Kind,
    ) -> StateNumber {
        let number = StateNumber::new(self.next, kind_of_id, self.shard);
        self.next += 1;
        self.states.insert(number, State { object, client, sequence: 1, kind });
        self.of_client.insert((client, number));
        self.count(client, |tally| tally.live += 1);
        number
    }

    /// Changes the counts of a client.
    fn count(&mut self, client: Client, change: impl FnOnce(&mut Tally)) {
        let tally = self.tallies.entry(client).or_default();
        change(tally);
        if tally.total() == 0 {
            self.tallies.remove(&client);
        }
    }

    /// Audits the table.
    pub(super) fn check(&self) {
        assert!(self.states.len() <= self.limits.states, "states are bounded");
        self.open_owners.check();
        self.lock_owners.check();
        let mut files: BTreeMap<Object, Counts> = BTreeMap::new();
        let mut tallies: BTreeMap<Client, Tally> = BTreeMap::new();
        let (mut opens, mut locks) = (0, 0);
        for (number, state) in self.iter() {
            assert_ne!(state.sequence, 0, "no sequence number is zero");
            assert!(self.of_client.contains(&(state.client, number)), "clients have their states");
            *tallies.entry(state.client).or_default().of(&state.kind) += 1;
            match state.kind {
                Kind::Open { owner, opened } => {
                    opens += 1;
                    assert_eq!(self.opens.get(&(state.object, owner)), Some(&number));
                    assert_eq!(self.open_owners.key(owner).0, state.client);
                    assert!(!opened.share().access.is_empty(), "an open has access");
                    files.entry(state.object).or_default().add(opened.share());
                }
                Kind::Locks { owner, open } => {
                    locks += 1;
                    assert_eq!(self.locks.get(&(open, owner)), Some(&number));
                    assert_eq!(self.lock_owners.key(owner).0, state.client);
                    let open = self.states[&open];
                    assert_eq!((open.object, open.client), (state.object, state.client));
                    assert!(matches!(open.kind, Kind::Open { .. }), "locks are under an open");
                }
                Kind::Revoked(_) => {}
            }
        }
        assert_eq!((opens, locks), (self.opens.len(), self.locks.len()), "indexes are exact");
        assert_eq!(self.of_client.len(), self.states.len(), "clients have no other states");
        assert_eq!(files, self.files, "share reservations are counted");
        assert_eq!(tallies, self.tallies, "states of clients are counted");
        for object in self.files.keys() {
            let shares: Vec<Share> = self.opens_on(*object).map(|(_, share)| share).collect();
            for (at, one) in shares.iter().enumerate() {
                let others = &shares[at + 1..];
                assert!(others.iter().all(|other| !one.conflicts(*other)), "opens conflict");
            }
        }
    }
}
