//! The lease table: the leases on the objects of one shard, and the calls that wait for them.
//!
//! Rules:
//! 1. Any number of clients may hold read leases on an object. A cachable write lease is the only
//!    cachable lease on its object. Leases that are not cachable permit no cached content, so any
//!    number of them may exist, of both kinds and also of several clients (rule 8).
//! 2. A term of zero means the default term; a term above the longest is reduced to the longest.
//! 3. A renewal keeps the serial and never shortens or weakens the lease. If the only holder of a
//!    read lease requests a write lease, its lease becomes a write lease.
//! 4. A lease that conflicts with a call is recalled. The call waits, in order of arrival, until
//!    all conflicting leases are returned or have expired. A reading call conflicts with the write
//!    leases of other clients; a writing call conflicts with all leases of other clients.
//! 5. The holder of a write lease may still make the calls that the lease covers while the lease is
//!    recalled, so that it can write back its changes. The holder is granted no further lease on
//!    the object until it has returned the recalled lease.
//! 6. A recall is sent again until the lease is returned: less often once the client has
//!    acknowledged it, and at once when the client reconnects.
//! 7. A lease expires when (a) its term and the allowance for drift have passed. A write lease also
//!    requires that (b) no unread calls wait in the server's queues, and (c) the write slack has
//!    passed since the last WRITE; (b) and (c) extend the lease by at most `slack_max`.
//! 8. If all conflicting leases were returned and no client that shares the object has it open for
//!    writing, a new lease is cachable at once. Otherwise the new lease is not cachable: a read
//!    lease while another client has a write lease that is not cachable, and a write lease while
//!    another client has any lease that is not cachable. A lease that is already cachable stays so
//!    until it is recalled.
//! 9. An opportunistic request recalls no lease; it is not granted if any lease conflicts.
//! 10. A call that reads only attributes makes the holder of a write lease report them; the holder
//!     keeps its lease. A report serves the calls that arrived before the report was requested. The
//!     lease of a holder that cannot report is recalled instead.
//! 11. Each running call acts as an implicit lease of its caller. A lease is granted only when no
//!     writing call of another client runs on the object. A lease does not expire while a writing
//!     call of its holder runs, and no writing call of another client runs at the same time as that
//!     call. A call without a client belongs to no holder.
//! 12. A full table grants only leases that are not cachable and that it does not record.
//! 13. A write lease reserves space on its object's file system. One lease may reserve at most an
//!     eighth of the free bytes, the leases of one origin together a quarter, and all leases
//!     together half. (a) A renewal reduces no reservation, and only the free bytes bound a
//!     reclaimed lease, because the holder relies on its bytes. (b) Written bytes are subtracted
//!     from the reservation, and the rest is freed when the lease ends.
//! 14. During recovery, leases of the previous epoch are reclaimed first, if they do not conflict
//!     with each other, and only calls of their holders run. After all leases are reclaimed, late
//!     data is accepted: writing calls that name the lease under which the change was made also
//!     run, if no lease conflicts, and are granted no lease. Every other call must be retried
//!     later.
//! 15. A forgotten client holds no lease, and an object that no longer exists has no lease.
//! 16. A lease that was granted with a call that failed, for example a WRITE, is taken back, unless
//!     another call of the same client has received the same grant since.
//! 17. A recall of every lease on an object does not modify the object and precedes all queued
//!     calls, because a queued call may depend on the recall.
//! 18. While a plain call (a call without a client) waits, no lease is granted that would conflict
//!     with the call. After a call is given up, its queue position still prevents such leases for a
//!     while, because its caller retries the call. An opportunistic request is granted no lease
//!     that would conflict with any waiting call.
//! 19. A client that delays other callers for too long is granted no lease. No client of an origin
//!     is granted a lease if the clients of that origin together delay other callers for too long.
//!     `delays` contains the rules of these bounds.
//! 20. The lease of a holder whose report is overdue is recalled.
//! 21. A client's change of an object counts as its own only if the client has held one lease on
//!     the object since the call began to run. Otherwise other callers, at this server or at
//!     another server, may have changed the object during the call.
//!
//! 22. The shards of a table bound reserved bytes (rule 13) together, and each shard knows the charges
//!     of all shards (rule 19).
//!
//! Rules 18 and 19 apply only if holders are not trusted. Together the rules bound the wait of a
//! call that is retried soon enough: by the longest term for read leases, and by `slack_max` more
//! for write leases.
//!
//! Limits: the table does not know modrevs. For a call with `Standing::Free` that names the modrev
//! from which its change was made, the owner compares modrevs before the call has any effect.

mod context;
mod delays;
mod few;
mod precedence;
mod record;
mod shares;

use core::ops::AddAssign;
use core::time::Duration;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::{FileSystemId, Time};

use super::{Client, Kind, Object, Open, Serial, Terms, Ticket};
pub use context::Shared;
use context::{Step, Turn};
pub use delays::Charge;
use delays::Delays;
pub use record::Lease;
use record::Record;
pub use shares::{Share, Shares};

/// The access of a call to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// The call only requests a lease.
    Nothing,
    /// The call reads attributes.
    Look,
    /// The call reads data or names.
    Read,
    /// The call changes data, names or attributes.
    Write,
}

/// A lease request that is part of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The kind of lease.
    pub kind: Kind,
    /// The requested term; zero for the default.
    pub term: Duration,
    /// True if the request is opportunistic: it recalls no lease (rule 9).
    pub opportune: bool,
    /// The number of bytes to reserve.
    pub space: u64,
    /// True if the client still holds the lease, by its own clock, from before a restart.
    pub reclaim: bool,
    /// True if the client can report size and times.
    pub reports: bool,
}

/// A call that is about to run on one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Identifies the call.
    pub ticket: Ticket,
    /// The object. A request that accesses several objects makes one call for each object, in the
    /// order of the objects.
    pub object: Object,
    /// The client of the call, if that client may hold leases.
    pub client: Option<Client>,
    /// The access of the call.
    pub access: Access,
    /// The lease under which the client made the change that the call writes back.
    pub under: Option<Serial>,
    /// The lease request of the call.
    pub ask: Option<Ask>,
}

/// A client host, identified by an origin number that the owner of the table assigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(pub u64);

/// An event for the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call arrived.
    Call(Call),
    /// Every holder of the object must return its lease. When no lease is left, the ticket runs as
    /// a writing call without a client. During a recovery the owner retries later.
    Vacate(Object, Ticket),
    /// A running call has ended.
    Done(Object, Ticket, Outcome),
    /// A waiting call is given up and must not run. The event has no effect on a call that already
    /// runs.
    GivenUp(Object, Ticket),
    /// A client acknowledged a recall.
    Received(Client, Object, Serial),
    /// A client returned a lease, with or without a recall, and has the object open in this mode.
    Returned(Client, Object, Serial, Open),
    /// A client answered an inquiry of this round; `None` means that it does not hold the lease.
    Reported(Client, Object, Serial, u64, Option<Told>),
    /// A client called from this origin.
    Met(Client, Origin),
    /// A client has reconnected.
    Reconnected(Client),
    /// All leases of a client are void.
    Forgotten(Client),
    /// An object was removed.
    Gone(Object),
    /// Reports whether calls wait in the server's queues unread.
    Backlog(bool),
    /// The number of free bytes of a file system, including reserved bytes.
    Space(FileSystemId, u64),
    /// A client delayed callers at another shard of the table (rule 22).
    Charged(Charge),
    /// All leases of the previous epoch are reclaimed or have expired.
    Reclaimed,
    /// The recovery has ended.
    Opened,
    /// Time has passed.
    Tick,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The number of bytes that the call wrote to where there was no data.
    pub used: u64,
    /// True if the lease that the call was granted is void.
    pub void: bool,
}

/// Attributes that the holder of a write lease reports, because its cached values are newer than
/// the values of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Size in bytes.
    pub size: u64,
    /// The last modification of the data, in nanoseconds since 1970.
    pub modified: i128,
    /// The mode and the time of the last access, if the holder has set them.
    pub set: Option<(u32, i128)>,
}

/// The relation of a change to the lease under which the client made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The client still holds that write lease, so the call needs no modrev comparison.
    Held,
    /// The client does not hold that lease, even if it holds a later one: late data is compared by
    /// modrev.
    Free,
}

/// A waiting call and its client; `None` for a plain call.
pub type Waiter = (Ticket, Option<Client>);

/// A lease as granted to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The kind of lease.
    pub kind: Kind,
    /// True if the holder may cache the object.
    pub cachable: bool,
    /// The term.
    pub term: Duration,
    /// The lease's sequence number.
    pub serial: Serial,
    /// The number of reserved bytes.
    pub space: u64,
}

/// An action that the owner of the table must perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Run the call; [`Event::Done`] must follow when the call has ended.
    Run(Run),
    /// The call does not run; its caller must retry it later.
    Later(Ticket),
    /// Recall the client's lease.
    Evict(Client, Object, Serial),
    /// Request a report from the client. The number identifies the round of inquiries, which the
    /// report repeats.
    Inquire(Client, Object, Serial, u64),
}

/// The conditions under which a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The call.
    pub ticket: Ticket,
    /// The relation of the call to its lease.
    pub standing: Standing,
    /// The lease that was granted with the call.
    pub grant: Option<Grant>,
    /// Size and times that the holder of a write lease reported.
    pub told: Option<Told>,
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The number of new cachable leases that were granted.
    pub granted: u64,
    /// The number of renewals.
    pub renewed: u64,
    /// The number of leases that were granted and are not cachable.
    pub shared: u64,
    /// The number of leases that were not recorded because the table was full.
    pub full: u64,
    /// The number of recalls that were started.
    pub evicted: u64,
    /// The number of recalled leases that expired before they were returned.
    pub waited_out: u64,
    /// The number of requests that were granted no lease because the lease would conflict with a
    /// waiting call.
    pub yielded: u64,
    /// The number of requests that were granted no lease because their clients delayed other
    /// callers for too long.
    pub barred: u64,
}

impl AddAssign for Counts {
    /// Adds the counters of another shard.
    fn add_assign(&mut self, other: Self) {
        let Self { granted, renewed, shared, full, evicted, waited_out, yielded, barred } = other;
        self.granted += granted;
        self.renewed += renewed;
        self.shared += shared;
        self.full += full;
        self.evicted += evicted;
        self.waited_out += waited_out;
        self.yielded += yielded;
        self.barred += barred;
    }
}

/// The leases on some objects.
#[derive(Clone, Debug)]
pub struct Table {
    common: Common,
    /// The reserved bytes, for a table with one shard.
    shares: Shares,
    /// Each record is boxed: the nodes of a B-tree are about half empty, and an unused entry of a
    /// pointer wastes less memory than an unused entry of a record.
    records: BTreeMap<Object, Box<Record>>,
    /// The time of the next examination of each record, with one entry for each record.
    due: BTreeSet<(Time, Object)>,
    /// The objects whose records have pending calls, recalls or inquiries.
    busy: BTreeSet<Object>,
}

/// The state that all records share.
#[derive(Clone, Debug)]
struct Common {
    terms: Terms,
    leases_max: usize,
    leases: usize,
    next_serial: u64,
    backlog: bool,
    recovery: Option<Phase>,
    /// The forgotten clients, each with the time at which its last lease would have expired. Until
    /// then the leases of the client are void but may still be recorded.
    forgotten: BTreeMap<Client, Time>,
    delays: Delays,
    counts: Counts,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

/// The phase of a recovery after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Clients reclaim leases of the previous epoch.
    Reclaims,
    /// Clients write back changes that they made under expired leases.
    LateData,
}

/// A deliberate fault, to be found by simulation.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The upgrade of a sole reader's lease to a write lease is counted as a read lease.
    KeepsReaders,
    /// A writing call recalls no lease.
    ChecksNoWrites,
    /// A reading call recalls no lease.
    ChecksNoReads,
    /// A restarted server grants every request without a recovery.
    SkipsRecovery,
    /// A lease expires with its term on the server's clock, without the allowance for drift.
    AllowsNoDrift,
    /// Lease requests do not wait for running calls.
    ForgetsRunning,
    /// A lease never expires, even after its term.
    NeverEnds,
    /// A call that was given up keeps no queue position.
    KeepsNoPlace,
    /// The table grants leases that conflict with waiting plain calls.
    YieldsToNobody,
    /// The table grants a client leases however long the client delays other callers.
    BarsNobody,
    /// A holder that does not report keeps its lease.
    AwaitsReports,
    /// The table counts every change of a call as the client's own, even without a lease.
    OwnsAllChanges,
}

/// The number of low bits of a serial that count within one epoch. An epoch never issues all 2^40
/// (about 10^12) serials, so each serial of the next epoch is greater.
const SERIAL_BITS: u32 = 40;

/// The maximum number of records that one step examines, which bounds the time of a step.
const DUE_AT_ONCE_MAX: usize = 256;

/// The maximum number of records with which a debug build audits the table after each step.
const AUDITED_MAX: usize = 64;

impl Table {
    /// Creates a table without leases for an epoch, in recovery or not.
    #[must_use]
    pub fn new(terms: Terms, leases_max: usize, epoch: u64, recovering: bool) -> Self {
        let common = Common {
            terms,
            leases_max,
            leases: 0,
            next_serial: (epoch << SERIAL_BITS) + 1,
            backlog: false,
            recovery: if recovering { Some(Phase::Reclaims) } else { None },
            forgotten: BTreeMap::new(),
            delays: Delays::default(),
            counts: Counts::default(),
            #[cfg(feature = "mutants")]
            mutant: None,
        };
        let (records, due, busy) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { common, shares: Shares::default(), records, due, busy }
    }

    /// Injects a fault.
    #[cfg(feature = "mutants")]
    pub const fn plant(&mut self, mutant: Mutant) {
        self.common.mutant = Some(mutant);
        if matches!(mutant, Mutant::SkipsRecovery) {
            self.common.recovery = None;
        }
    }

    /// Handles one event of a table with one shard, and appends the resulting actions in order.
    ///
    /// # Panics
    /// Panics if a call ends that does not run.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        let mut shares = core::mem::take(&mut self.shares);
        self.step_shard(event, &mut Step { now, shared: &mut shares, effects });
        self.shares = shares;
        if cfg!(debug_assertions) && self.records.len() <= AUDITED_MAX {
            self.check();
        }
    }

    /// Handles one event of a shard, and appends the resulting actions in order.
    ///
    /// # Panics
    /// Panics if a call ends that does not run.
    pub fn step_shared(
        &mut self,
        now: Time,
        event: Event,
        shared: &mut dyn Shared,
        effects: &mut Vec<Effect>,
    ) {
        self.step_shard(event, &mut Step { now, shared, effects });
        if cfg!(debug_assertions) && self.records.len() <= AUDITED_MAX {
            self.check_records();
        }
    }

    fn step_shard(&mut self, event: Event, step: &mut Step<'_>) {
        let now = step.now;
        match event {
            Event::Call(call) => {
                if self.common.leases >= self.common.leases_max {
                    self.look_at_due(step);
                }
                self.make_room_for(now, call.object);
                self.at(call.object, step, |record, turn| record.call(call, turn));
            }
            Event::Vacate(object, ticket) => {
                self.make_room_for(now, object);
                self.at(object, step, |record, turn| record.vacate(object, ticket, turn));
            }
            Event::Done(object, ticket, outcome) => {
                self.at(object, step, |record, turn| record.done(ticket, outcome, turn));
            }
            Event::GivenUp(object, ticket) => {
                self.at(object, step, |record, turn| record.give_up(ticket, turn));
            }
            Event::Received(client, object, serial) => {
                self.at(object, step, |record, turn| {
                    record.received(client, serial, turn);
                });
            }
            Event::Returned(client, object, serial, open) => {
                self.at(object, step, |record, turn| {
                    record.returned(client, serial, open, turn);
                });
            }
            Event::Reported(client, object, serial, round, told) => {
                self.at(object, step, |record, turn| match told {
                    Some(told) => record.reported(client, round, told),
                    None => record.returned(client, serial, Open::No, turn),
                });
            }
            Event::Met(client, origin) => {
                self.common.delays.met(client, origin);
                step.shared.shares().met(client, origin);
            }
            Event::Reconnected(client) => self.reconnected(client, step),
            Event::Forgotten(client) => self.forgotten(client, step),
            Event::Gone(object) => self.at(object, step, Record::forget_all),
            Event::Backlog(backlog) => self.common.backlog = backlog,
            Event::Space(file_system, bytes) => {
                step.shared.shares().has_free(file_system, bytes);
            }
            // Rule 22: the charge bars the client at this shard as well.
            Event::Charged(charge) => self.common.delays.charge_known(charge),
            Event::Reclaimed => {
                self.common.recovery = self.common.recovery.map(|_| Phase::LateData);
            }
            Event::Opened => self.common.recovery = None,
            Event::Tick => {}
        }
        self.look_at_due(step);
    }

    fn make_room_for(&mut self, now: Time, object: Object) {
        if let Entry::Vacant(place) = self.records.entry(object) {
            place.insert(Box::new(Record::new(now)));
            self.due.insert((now, object));
        }
    }

    /// Returns the next time at which a lease may expire or a message must be sent again.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        self.due.first().map(|(time, _)| *time)
    }

    /// Returns the counters.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.common.counts
    }

    /// Returns the number of leases, including expired leases that no call has examined.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.common.leases
    }

    /// Returns true if there is no lease.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.common.leases == 0
    }

    /// Returns the number of bytes of a file system that the leases of a table with one shard have
    /// reserved.
    #[must_use]
    pub fn reserved_bytes(&self, file_system: FileSystemId) -> u64 {
        self.shares.reserved(file_system)
    }

    /// Lists the reserved bytes of the shard's leases.
    pub fn reservations(&self) -> impl Iterator<Item = (FileSystemId, Client, u64)> + '_ {
        self.records.iter().flat_map(|(object, record)| {
            let leases = record.leases().iter();
            leases.map(|lease| (object.file_system, lease.client, lease.space))
        })
    }

    /// Returns true if the two clients are equal or have the same origin: rule 13 counts the
    /// reserved bytes of both together.
    #[must_use]
    pub fn share_room(&self, one: Client, other: Client) -> bool {
        let origin = |client| self.common.delays.origin(client);
        one == other || origin(one).is_some_and(|known| origin(other) == Some(known))
    }

    /// Returns the leases on an object.
    #[must_use]
    pub fn leases(&self, object: Object) -> &[Lease] {
        self.records.get(&object).map_or(&[], |record| record.leases())
    }

    /// Returns the serial of the lease under which a client caches an object, if it holds one.
    #[must_use]
    pub fn cached_under(&self, object: Object, client: Client) -> Option<Serial> {
        let own = self.leases(object).iter().find(|lease| lease.client == client);
        own.filter(|lease| lease.cachable).map(|lease| lease.serial)
    }

    /// Rule 21: returns true if no other caller has changed an object since a client began to cache
    /// it under this lease.
    #[must_use]
    pub fn is_own_change(&self, object: Object, client: Client, since: Option<Serial>) -> bool {
        #[cfg(feature = "mutants")]
        if self.common.has(Mutant::OwnsAllChanges) {
            return true;
        }
        since.is_some() && self.cached_under(object, client) == since
    }

    /// Returns the number of objects with leases or calls.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.records.len()
    }

    /// Returns true if an object has a lease, or a waiting or running call.
    #[must_use]
    pub fn is_used(&self, object: Object) -> bool {
        self.records.contains_key(&object)
    }

    /// Returns true if a client has a lease or a call on an object.
    #[must_use]
    pub fn is_used_by(&self, object: Object, client: Client) -> bool {
        let record = self.records.get(&object);
        record.is_some_and(|record| record.clients().any(|one| one == client))
    }

    /// Lists the objects with leases, each with its leases and its waiting calls. A caller that is
    /// not a lease client appears as `None`.
    pub fn iter(
        &self,
    ) -> impl Iterator<Item = (Object, &[Lease], impl Iterator<Item = Waiter> + '_)> {
        self.records
            .iter()
            .map(|(object, record)| (*object, record.leases(), record.waiting()))
            .filter(|(_, leases, _)| !leases.is_empty())
    }

    /// Audits the whole state of a table with one shard.
    ///
    /// # Panics
    /// Panics if the state is inconsistent or exceeds its limits.
    pub fn check(&self) {
        self.check_records();
        self.shares.check(self.reservations());
    }

    /// Audits the state of a shard.
    ///
    /// # Panics
    /// Panics if the state is inconsistent or exceeds its limits.
    pub fn check_records(&self) {
        assert!(self.common.leases <= self.common.leases_max, "leases are bounded");
        assert_eq!(self.due.len(), self.records.len(), "each record has a due time");
        let mut leases = 0;
        for (object, record) in &self.records {
            record.check();
            assert!(self.due.contains(&(record.due, *object)), "due times agree");
            assert_eq!(record.is_busy(), self.busy.contains(object), "the busy set is complete");
            leases += record.leases().len();
        }
        assert_eq!(leases, self.common.leases, "leases are counted");
    }

    /// Applies a change to a record, if the record exists, and then its consequences.
    fn at(
        &mut self,
        object: Object,
        step: &mut Step<'_>,
        change: impl FnOnce(&mut Record, &mut Turn<'_>),
    ) {
        let Some(record) = self.records.get_mut(&object) else { return };
        let Step { now, ref mut shared, ref mut effects } = *step;
        let common = &mut self.common;
        let mut turn = Turn { now, object, common, shared: &mut **shared, effects };
        record.end(&mut turn);
        change(record, &mut turn);
        record.settle(&mut turn);
        if record.is_busy() {
            self.busy.insert(object);
        } else {
            self.busy.remove(&object);
        }
        let (was, next) = (record.due, record.next_due(&self.common, now));
        match next {
            Some(next) => {
                // After a renewal the record keeps its earlier entry in `due`. An update of `due`
                // at each renewal would cost more than the one early examination.
                if next < was || was <= now || record.is_busy() {
                    record.due = next;
                    self.due.remove(&(was, object));
                    self.due.insert((next, object));
                }
            }
            None => {
                self.due.remove(&(was, object));
                self.records.remove(&object);
            }
        }
    }

    fn look_at_due(&mut self, step: &mut Step<'_>) {
        let now = step.now;
        for _ in 0..DUE_AT_ONCE_MAX {
            match self.due.first() {
                Some((time, object)) if *time <= now => {
                    let object = *object;
                    self.at(object, step, |_, _| ());
                }
                _ => break,
            }
        }
        let Common { forgotten, delays, .. } = &mut self.common;
        forgotten.retain(|client, until| {
            let is_waited_for = *until > now;
            if !is_waited_for {
                step.shared.shares().forget(*client);
                delays.forget(*client);
            }
            is_waited_for
        });
    }

    fn reconnected(&mut self, client: Client, step: &mut Step<'_>) {
        for object in self.busy.clone() {
            self.at(object, step, |record, turn| record.send_again(client, turn));
        }
    }

    /// Rule 15: the leases of the client are void at once. The table removes each lease when it
    /// examines the lease's record.
    fn forgotten(&mut self, client: Client, step: &mut Step<'_>) {
        let terms = self.common.terms;
        let last = step.now + terms.waited(terms.longest_term) + terms.slack_max;
        self.common.forgotten.insert(client, last);
        for object in self.busy.clone() {
            self.at(object, step, |_, _| ());
        }
    }
}

/// The inputs that decide whether a lease has expired.
#[derive(Clone, Copy, Debug)]
struct Moment {
    now: Time,
    terms: Terms,
    backlog: bool,
}

impl Common {
    const fn moment(&self, now: Time) -> Moment {
        Moment { now, terms: self.terms, backlog: self.backlog }
    }

    /// Returns the sequence number for a new lease.
    const fn serial(&mut self) -> Serial {
        let serial = Serial(self.next_serial);
        self.next_serial += 1;
        serial
    }

    /// Returns how long the server waits until a term has surely expired.
    fn waited(&self, term: Duration) -> Duration {
        #[cfg(feature = "mutants")]
        if self.has(Mutant::AllowsNoDrift) {
            return term;
        }
        self.terms.waited(term)
    }

    /// Returns the kind of a lease after its holder requested `asked`.
    fn upgraded(&self, held: Kind, asked: Kind) -> Kind {
        #[cfg(feature = "mutants")]
        if self.has(Mutant::KeepsReaders) {
            return held;
        }
        held.max(asked)
    }

    /// Returns true if the fault is injected.
    #[cfg(feature = "mutants")]
    fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}

#[cfg(test)]
mod tests;
