//! The changes of locks and queues, and the audit.

use super::*;

impl Locks {
    /// Returns the lock or reservation that prevents a request.
    pub(super) fn blocker(&self, object: Object, wanted: &Held) -> Option<Held> {
        let mut held = self.hard_conflicts(object, Some(wanted.owner), wanted.range, wanted.kind);
        let reserved = || {
            let waiters = self.queues.of(object).iter().filter(|waiter| waiter.is_reserved());
            let mut reserved = waiters.map(|waiter| &waiter.wanted);
            reserved.find(|held| held.conflicts(Some(wanted.owner), wanted.range, wanted.kind))
        };
        held.next().or_else(reserved).copied()
    }

    /// Lists the conflicting locks of clients that are not silent, the lowest first.
    pub(super) fn hard_conflicts(
        &self,
        object: Object,
        owner: Option<OwnerNumber>,
        range: Range,
        kind: Kind,
    ) -> impl Iterator<Item = &Held> {
        let ranges = self.files.get(&object).into_iter();
        let held = ranges.flat_map(move |ranges| ranges.conflicts(owner, range, kind));
        held.filter(|held| self.silent_client(held).is_none())
    }

    pub(super) fn denied(&self, held: &Held) -> Denied {
        let owner = self.owners.key(held.owner).clone();
        Denied { owner, range: held.range, kind: held.kind }
    }

    /// Makes a request, which no lock prevents, a lock.
    pub(super) fn take(
        &mut self,
        object: Object,
        wanted: Held,
        touched: &mut BTreeSet<Object>,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        self.expire_silent(object, &wanted, touched, effects);
        let Held { range, under, owner, kind } = wanted;
        self.set(object, owner, range, Some((kind, under)))?;
        let gone = self.queues.remove(object, |waiter| waiter.is_for(owner, range, kind));
        self.owners.subtract(owner, gone.len());
        // The lock may be a downgrade, and the request may have had a reservation.
        touched.insert(object);
        Ok(())
    }

    /// Refuses a request that a lock prevents, or puts it into the queue.
    pub(super) fn put_off(
        &mut self,
        now: Time,
        request: &Request,
        wanted: Held,
        blocker: &Held,
        touched: &mut BTreeSet<Object>,
    ) -> Result<Answer, Refusal> {
        let object = request.object;
        if request.reclaim {
            return Err(Refusal::ReclaimConflict);
        }
        let denied = Refusal::Denied(Box::new(self.denied(blocker)));
        match request.wait {
            Wait::No => {
                // Rule 5: a request that does not wait is the last one for its lock.
                let Held { owner, range, kind, .. } = wanted;
                let gone = self.queues.remove(object, |waiter| waiter.is_for(owner, range, kind));
                self.owners.subtract(owner, gone.len());
                touched.insert(object);
                Err(denied)
            }
            Wait::Poll => {
                let until = now + self.limits.poll_max;
                self.enqueue(object, Waiter { wanted, stage: Stage::Polls { until } });
                Err(denied)
            }
            Wait::Block(_) if self.would_deadlock(object, &wanted) => Err(Refusal::Deadlock),
            Wait::Block(ticket) => {
                let waits = self.enqueue(object, Waiter { wanted, stage: Stage::Blocks(ticket) });
                if waits { Ok(Answer::Blocked) } else { Err(Refusal::Full) }
            }
        }
    }

    /// Adds a request to the queue of its file, or refreshes the equal request in the queue (rule
    /// 5). Returns false if the queue has no room (rule 12).
    fn enqueue(&mut self, object: Object, waiter: Waiter) -> bool {
        let Held { owner, range, kind, .. } = waiter.wanted;
        let queue = self.queues.of(object);
        let place = queue.iter().position(|other| other.is_for(owner, range, kind));
        if let Some(place) = place {
            self.queues.change(object, |queue| {
                if !queue[place].is_reserved() {
                    queue[place] = waiter;
                }
            });
            return true;
        }
        let has_room = queue.len() < self.limits.waiters_of_file
            && self.queues.len() < self.limits.waiters
            && self.owners.states(owner) < self.limits.of_owner;
        if has_room {
            self.queues.change(object, |queue| queue.push(waiter));
            self.owners.add(owner, 1);
        }
        has_room
    }

    /// Replaces the owner's locks in a range, if the limits permit it.
    // Rule 12
    pub(super) fn set(
        &mut self,
        object: Object,
        owner: OwnerNumber,
        range: Range,
        new: Option<(Kind, Under)>,
    ) -> Result<(), Refusal> {
        let empty = Ranges::default();
        let ranges = self.files.get(&object).unwrap_or(&empty);
        let (before, after) = (ranges.len(), ranges.len_after(owner, range, new));
        let (more, less) = (after.saturating_sub(before), before.saturating_sub(after));
        let fits = after <= self.limits.of_file
            && self.locks + more <= self.limits.locks
            && self.owners.states(owner) + more <= self.limits.of_owner;
        if more > 0 && !fits {
            return Err(Refusal::Full);
        }
        if before + after > 0 {
            self.files.entry(object).or_default().set(owner, range, new);
        }
        if after == 0 {
            self.files.remove(&object);
        }
        self.locks = self.locks + more - less;
        self.owners.add(owner, more);
        self.owners.subtract(owner, less);
        Ok(())
    }

    /// Serves the queues of files on which locks or requests have ended, and audits the machine.
    pub(super) fn serve(
        &mut self,
        now: Time,
        mut touched: BTreeSet<Object>,
        effects: &mut Vec<Effect>,
    ) {
        while let Some(object) = touched.pop_first() {
            for gone in self.queues.remove_due(now, object) {
                self.owners.subtract(gone.wanted.owner, 1);
                self.settle_owner(gone.wanted.owner, object);
            }
            let mut place = 0;
            while let Some(waiter) = self.queues.of(object).get(place).copied() {
                // Rule 6: a request that is still prevented lets the next request pass.
                if waiter.is_reserved() || self.blocker(object, &waiter.wanted).is_some() {
                    place += 1;
                } else if let Stage::Blocks(ticket) = waiter.stage {
                    self.grant(object, place, (waiter.wanted, ticket), &mut touched, effects);
                } else {
                    self.expire_silent(object, &waiter.wanted, &mut touched, effects);
                    let until = now + self.limits.reservation;
                    self.queues.change(object, |queue| {
                        queue[place].stage = Stage::Reserved { until };
                    });
                    let owner = self.owners.key(waiter.wanted.owner).clone();
                    effects.push(Effect::Notify(object, owner));
                    place += 1;
                }
            }
        }
        if cfg!(debug_assertions) && self.locks <= AUDITED_MAX {
            self.check();
        }
    }

    /// Rule 7: grants the blocking request at this place of the queue.
    fn grant(
        &mut self,
        object: Object,
        place: usize,
        (wanted, ticket): (Held, Ticket),
        touched: &mut BTreeSet<Object>,
        effects: &mut Vec<Effect>,
    ) {
        self.queues.change(object, |queue| queue.remove(place));
        self.owners.subtract(wanted.owner, 1);
        let taken = self.take(object, wanted, touched, effects);
        effects.push(match taken {
            Ok(()) => Effect::Granted(ticket),
            Err(_) => Effect::Refused(ticket),
        });
        self.settle_owner(wanted.owner, object);
    }

    /// Rule 10: ends all locks of the silent clients whose locks conflict with a request.
    fn expire_silent(
        &mut self,
        object: Object,
        wanted: &Held,
        touched: &mut BTreeSet<Object>,
        effects: &mut Vec<Effect>,
    ) {
        if self.silent.is_empty() {
            return;
        }
        let ranges = self.files.get(&object).into_iter();
        let conflicts = ranges
            .flat_map(|ranges| ranges.conflicts(Some(wanted.owner), wanted.range, wanted.kind));
        let clients: BTreeSet<Client> =
            conflicts.filter_map(|held| self.silent_client(held)).collect();
        for client in clients {
            effects.push(Effect::Expire(client));
            self.silent.remove(&client);
            touched.append(&mut self.remove_all(Locker::Client(client)));
        }
    }

    /// Returns the silent client to which a lock belongs.
    fn silent_client(&self, held: &Held) -> Option<Client> {
        if self.silent.is_empty() {
            return None;
        }
        match self.owners.key(held.owner).locker {
            Locker::Client(client) => Some(client).filter(|client| self.silent.contains(client)),
            Locker::Host(_) | Locker::Local => None,
        }
    }

    /// Removes all locks and requests of a client, a host or the local programs, and returns the
    /// files on which they were.
    // Rule 11
    pub(super) fn remove_all(&mut self, locker: Locker) -> BTreeSet<Object> {
        let mut touched = BTreeSet::new();
        for number in self.numbers_of(locker) {
            for object in self.objects_of(number).collect::<Vec<_>>() {
                self.remove(object, number, None);
                self.place(number, object);
                touched.insert(object);
            }
            self.owners.settle(number);
        }
        touched
    }

    /// Removes the locks and requests of an owner on a file, or only those under one open.
    // Rule 4
    pub(super) fn remove(&mut self, object: Object, owner: OwnerNumber, under: Option<Under>) {
        let goes =
            |held: &Held| held.owner == owner && under.is_none_or(|under| held.under == under);
        let waiters = self.queues.remove(object, |waiter| goes(&waiter.wanted)).len();
        let mut locks = 0;
        if let Some(ranges) = self.files.get_mut(&object) {
            locks = ranges.remove(goes);
            if ranges.len() == 0 {
                self.files.remove(&object);
            }
        }
        self.locks -= locks;
        self.owners.subtract(owner, locks + waiters);
    }

    /// Returns the numbers of the owners that belong to a client, a host or the local programs.
    pub(super) fn numbers_of(&self, locker: Locker) -> Vec<OwnerNumber> {
        let first = Owner { locker, name: Name::default() };
        let owners = self.owners.from(&first).take_while(|(owner, _)| owner.locker == locker);
        owners.map(|(_, number)| number).collect()
    }

    /// Lists the files on which an owner has locks or requests.
    pub(super) fn objects_of(&self, owner: OwnerNumber) -> impl Iterator<Item = Object> + '_ {
        let object = |number| Object { file_system: FileSystemId(number), file: FileId(number) };
        let places = self.places.range((owner, object(0))..=(owner, object(u64::MAX)));
        places.map(|(_, object)| *object)
    }

    /// Records if the owner has locks or requests on a file.
    pub(super) fn place(&mut self, owner: OwnerNumber, object: Object) {
        let has_lock = |ranges: &Ranges| ranges.iter().any(|held| held.owner == owner);
        let is_used = self.files.get(&object).is_some_and(has_lock)
            || self.queues.of(object).iter().any(|waiter| waiter.wanted.owner == owner);
        if is_used {
            self.places.insert((owner, object));
        } else {
            self.places.remove(&(owner, object));
        }
    }

    /// Records the state of an owner after a change on a file.
    pub(super) fn settle_owner(&mut self, owner: OwnerNumber, object: Object) {
        self.place(owner, object);
        self.owners.settle(owner);
    }

    /// Audits the whole state.
    ///
    /// # Panics
    /// Panics if the state is inconsistent or exceeds its limits.
    pub fn check(&self) {
        self.owners.check();
        self.queues.check();
        let mut states: BTreeMap<OwnerNumber, usize> = BTreeMap::new();
        let mut places = BTreeSet::new();
        for (object, ranges) in &self.files {
            assert_ne!(ranges.len(), 0, "a file has locks");
            assert!(ranges.len() <= self.limits.of_file, "locks of a file are bounded");
            ranges.check();
            for held in ranges.iter() {
                *states.entry(held.owner).or_default() += 1;
                places.insert((held.owner, *object));
            }
        }
        assert_eq!(states.values().sum::<usize>(), self.locks, "locks are counted");
        assert!(self.locks <= self.limits.locks, "locks are bounded");
        for (object, queue) in self.queues.iter() {
            assert!(queue.len() <= self.limits.waiters_of_file, "a queue is bounded");
            for waiter in queue {
                *states.entry(waiter.wanted.owner).or_default() += 1;
                places.insert((waiter.wanted.owner, object));
                let is_blocked = self.blocker(object, &waiter.wanted).is_some();
                assert_ne!(
                    waiter.is_reserved(),
                    is_blocked,
                    "a request without conflict is served"
                );
            }
        }
        assert!(self.queues.len() <= self.limits.waiters, "requests are bounded");
        assert_eq!(places, self.places, "the places of owners are complete");
        for number in self.owners.iter() {
            let counted = states.get(&number).copied().unwrap_or_default();
            assert_eq!(self.owners.states(number), counted, "states are counted");
            assert!(counted <= self.limits.of_owner, "locks of an owner are bounded");
        }
    }
}
