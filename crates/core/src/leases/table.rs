//! Who holds which lease, for the objects of one shard.
//!
//! Rules:
//! 1. A read lease is shared by any number of clients; a write lease has one holder.
//! 2. A term of zero is the default; a longer one than the longest is that.
//! 3. A renewal keeps the serial and never takes anything from the lease. A write lease that is
//!    asked for by the holder of a read lease, when there is no other, is a write lease from then.
//! 4. Who is in the way of a call is evicted, and the call waits, in the order in which they came,
//!    until they have vacated or their leases are over. To read, holders of write leases are in the
//!    way; to write, all; a caller is never in its own way.
//! 5. The holder of a write lease may do what it was granted while it is evicted, so that it can
//!    bring back what it changed; it is granted nothing anew.
//! 6. An eviction is sent again until the lease is vacated, less often once it was received, and at
//!    once when the client comes back.
//! 7. A lease is over when (a) its term has passed, and the allowance for drift. A write lease also
//!    needs that (b) no calls wait unseen, and (c) the last WRITE was a write slack ago; (b) and (c)
//!    are not waited for longer than the longest slack.
//! 8. When all who were in the way have vacated and nobody who shares the object has it open for
//!    writing, a newcomer may cache at once. Otherwise nobody who shares it may, until the writers
//!    have given back or are over, or for a writer, all others. What may be cached already stays
//!    so until it is evicted.
//! 9. An opportune ask evicts nobody; it is not granted if somebody is in the way.
//! 10. Who only looks makes the holder of a write lease report, which keeps its lease. A report is
//!     good for who began to look before it was asked for. A holder that cannot report is in the way.
//! 11. Calls that run are implicit leases: a lease is granted when no other client's writing call
//!     runs on the object. A lease is not over while a writing call of its holder runs, which no
//!     other writing call joins. A call without client is of nobody who holds anything.
//! 12. A table that is full grants leases that may not be cached and are not kept.
//! 13. A write lease reserves space on its object's file system: of the bytes that are free there at
//!     most an eighth for one lease, a quarter for all leases of the clients of one origin, and half
//!     for all leases. (a) A renewal lowers no reservation, and a reclaimed lease is bounded by the
//!     free bytes alone: the holder counts on these bytes. (b) Written bytes are taken from the
//!     reservation, and the lease gives back the rest at its end.
//! 14. In recovery leases of before are reclaimed first, as far as they go together, and only their
//!     holders' calls run. When all are reclaimed, what was changed under others comes: writing calls
//!     that name the lease that they were made under run too, if nobody is in the way, and are
//!     granted nothing. All else is answered later.
//! 15. A client that is forgotten holds nothing, and of an object that is gone nobody does.
//! 16. A grant that came to nothing, such as one to a WRITE that was refused, is taken back, unless
//!     another call of its client's was granted the same meanwhile.
//! 17. Who has all give an object back changes nothing of it, and comes before all who wait: what those
//!     wait for may wait for that.
//! 18. While a plain call waits, no lease is granted that would conflict with the call. A call that
//!     is given up keeps its place for a while: its owner makes the call again. An opportune ask is
//!     granted no lease that would conflict with any call that waits.
//! 19. A client that holds other callers up for too long is granted nothing. No client of an origin
//!     is granted anything if the clients of the origin together hold other callers up for too
//!     long. `delays` has the rules of these bounds.
//! 20. A holder whose report is overdue is evicted.
//! 21. A change of an object by a call is the call's own, from the moment when the call began to
//!     run, only if the client of the call has held one lease on the object since that moment.
//!     Otherwise other callers may have changed the object meanwhile, at this server or at another
//!     server.
//!
//! Rules 18 and 19 hold only where holders are not trusted. Together the rules bound the wait of a
//! call that is made again soon enough: to the longest term for leases to read, and to a slack more
//! for leases to write.
//!
//! What it does not do: it does not know modrevs. Who runs a call whose standing is free, and that
//! names the modrev that it was made from, compares that before the call has any effect.

mod delays;
mod few;
mod precedence;
mod record;
mod shares;

use core::time::Duration;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::{FileSystemId, Time};

use super::{Client, Kind, Object, Open, Serial, Terms, Ticket};
use delays::Delays;
pub use record::Lease;
use record::Record;
pub use shares::Share;
use shares::Shares;

/// What a call does to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Nothing but to ask for a lease.
    Nothing,
    /// It shows attributes.
    Look,
    /// It shows data or names.
    Read,
    /// It changes data, names or attributes.
    Write,
}

/// A lease that is asked for with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Which kind.
    pub kind: Kind,
    /// For how long; zero for the default.
    pub term: Duration,
    /// Whether nobody is to be evicted for it.
    pub opportune: bool,
    /// How many bytes are to be reserved.
    pub space: u64,
    /// Whether the client holds it by its own clock, from before a restart.
    pub reclaim: bool,
    /// Whether its client can be asked for size and times.
    pub reports: bool,
}

/// A call that is about to run on one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Names it.
    pub ticket: Ticket,
    /// The object. A call on several is one on each, begun in their order.
    pub object: Object,
    /// Whose it is, if that may hold leases.
    pub client: Option<Client>,
    /// What it does.
    pub access: Access,
    /// The lease that what it changes was changed under.
    pub under: Option<Serial>,
    /// What is asked for with it.
    pub ask: Option<Ask>,
}

/// An origin of clients, such as a machine, by the number that the owner of the table gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(pub u64);

/// What happens to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call came in.
    Call(Call),
    /// All who hold the object are to give it back. It runs, as a writing call of nobody, when none
    /// holds it, and is not to be made in a recovery.
    Vacate(Object, Ticket),
    /// A call that ran has ended.
    Done(Object, Ticket, Outcome),
    /// A call that waits is not to run any more. It may have begun to run already.
    GivenUp(Object, Ticket),
    /// A client received an eviction.
    Received(Client, Object, Serial),
    /// A client gave a lease back, or has vacated it, and has the object open.
    Returned(Client, Object, Serial, Open),
    /// A client reported what it was asked for in this round, or that it holds no such lease.
    Reported(Client, Object, Serial, u64, Option<Told>),
    /// A client is there, and comes from this origin.
    Met(Client, Origin),
    /// A client is there again.
    Reconnected(Client),
    /// A client holds nothing any more.
    Forgotten(Client),
    /// An object is no more.
    Gone(Object),
    /// Whether calls wait that were not looked at yet.
    Backlog(bool),
    /// So many bytes are free on a file system, reserved ones included.
    Space(FileSystemId, u64),
    /// All leases of before are reclaimed or over.
    Reclaimed,
    /// The recovery is over.
    Opened,
    /// Time went on.
    Tick,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes that it wrote to where there was no data.
    pub used: u64,
    /// Whether what it was granted is void.
    pub void: bool,
}

/// What the holder of a write lease knows better than the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Size in bytes.
    pub size: u64,
    /// Last time the data was changed, in nanoseconds since 1970.
    pub modified: i128,
    /// Who may do what, and the last time the data was read, where it has set them.
    pub set: Option<(u32, i128)>,
}

/// Whether a call is covered by a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// By the write lease that its caller made the change under.
    Held,
    /// Not by that one: what is late is compared by modrev, also if there is another since.
    Free,
}

/// A call that waits, and whose it is.
pub type Waiter = (Ticket, Option<Client>);

/// A lease as it is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Which kind.
    pub kind: Kind,
    /// Whether its holder may cache.
    pub cachable: bool,
    /// For how long.
    pub term: Duration,
    /// Its number.
    pub serial: Serial,
    /// How many bytes are reserved.
    pub space: u64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The call runs; [`Event::Done`] must follow.
    Run(Run),
    /// The call does not run, and is to be made again later.
    Later(Ticket),
    /// The client is evicted.
    Evict(Client, Object, Serial),
    /// The client is asked to report; this is the round.
    Inquire(Client, Object, Serial, u64),
}

/// How a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The call.
    pub ticket: Ticket,
    /// Whether a lease covers it.
    pub standing: Standing,
    /// What it was granted.
    pub grant: Option<Grant>,
    /// What stands for size and times.
    pub told: Option<Told>,
}

/// How often what happened, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Leases that were granted anew.
    pub granted: u64,
    /// Leases that were renewed.
    pub renewed: u64,
    /// Leases that were granted and may not be cached.
    pub shared: u64,
    /// Leases that were not kept for want of room.
    pub full: u64,
    /// Evictions that were begun.
    pub evicted: u64,
    /// Leases of evicted clients that had to be waited out.
    pub waited_out: u64,
    /// Asks that were granted nothing, because the lease would conflict with a call that waits.
    pub yielded: u64,
    /// Asks that were granted nothing, because their clients held other callers up for too long.
    pub barred: u64,
}

/// The leases on some objects.
#[derive(Clone, Debug)]
pub struct Table {
    common: Common,
    /// Each is a piece of memory of its own: the nodes of a tree are half empty.
    records: BTreeMap<Object, Box<Record>>,
    /// When each record is to be looked at: an entry for each.
    due: BTreeSet<(Time, Object)>,
    /// Records that more happens to than that time passes.
    busy: BTreeSet<Object>,
}

/// What all records share.
#[derive(Clone, Debug)]
struct Common {
    terms: Terms,
    leases_max: usize,
    leases: usize,
    shares: Shares,
    next_serial: u64,
    backlog: bool,
    recovery: Option<Phase>,
    /// Clients whose leases are void, until the last of them would be over.
    forgotten: BTreeMap<Client, Time>,
    delays: Delays,
    counts: Counts,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

/// What is waited for after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Leases of before are reclaimed.
    Reclaims,
    /// What was changed under leases that are over comes in.
    LateData,
}

/// A deliberate fault, to be found by simulation.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A sole reader that asks to write is granted that, and counted as a reader.
    KeepsReaders,
    /// A writing call evicts nobody.
    ChecksNoWrites,
    /// A reading call evicts nobody.
    ChecksNoReads,
    /// A server that was started again grants whatever it is asked for.
    SkipsRecovery,
    /// A lease is over the moment that its term is, on the server's clock.
    AllowsNoDrift,
    /// Nobody waits for a call that runs.
    ForgetsRunning,
    /// Nothing that a client was evicted from is over before it has vacated.
    NeverEnds,
    /// A call that is given up keeps no place.
    KeepsNoPlace,
    /// The table grants leases that conflict with plain calls that wait.
    YieldsToNobody,
    /// The table grants a client leases however long the client holds other callers up.
    BarsNobody,
    /// A holder that does not report keeps its lease.
    AwaitsReports,
    /// The table takes a change for a call's own whatever lease the client of the call has held.
    OwnsAllChanges,
}

/// Serials of one epoch: a trillion, so that those of the next are greater.
const SERIAL_BITS: u32 = 40;

/// So many records are looked at in one step, so that none takes long.
const DUE_AT_ONCE_MAX: usize = 256;

/// States up to this size are audited after each step of a debug build.
const AUDITED_MAX: usize = 64;

impl Table {
    /// Starts with no lease in an epoch, in recovery or not.
    #[must_use]
    pub fn new(terms: Terms, leases_max: usize, epoch: u64, recovering: bool) -> Self {
        let common = Common {
            terms,
            leases_max,
            leases: 0,
            shares: Shares::default(),
            next_serial: (epoch << SERIAL_BITS) + 1,
            backlog: false,
            recovery: if recovering { Some(Phase::Reclaims) } else { None },
            forgotten: BTreeMap::new(),
            delays: Delays::default(),
            counts: Counts::default(),
            #[cfg(feature = "mutants")]
            mutant: None,
        };
        Self { common, records: BTreeMap::new(), due: BTreeSet::new(), busy: BTreeSet::new() }
    }

    /// Plants a fault.
    #[cfg(feature = "mutants")]
    pub const fn plant(&mut self, mutant: Mutant) {
        self.common.mutant = Some(mutant);
        if matches!(mutant, Mutant::SkipsRecovery) {
            self.common.recovery = None;
        }
    }

    /// Takes one event, and appends what is to be done in order.
    ///
    /// # Panics
    /// When a call ends that does not run.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Call(call) => {
                if self.common.leases >= self.common.leases_max {
                    self.look_at_due(now, effects);
                }
                self.make_room_for(now, call.object);
                self.at(now, call.object, effects, |record, turn| record.call(call, turn));
            }
            Event::Vacate(object, ticket) => {
                self.make_room_for(now, object);
                self.at(now, object, effects, |record, turn| record.vacate(object, ticket, turn));
            }
            Event::Done(object, ticket, outcome) => {
                self.at(now, object, effects, |record, turn| record.done(ticket, outcome, turn));
            }
            Event::GivenUp(object, ticket) => {
                self.at(now, object, effects, |record, turn| record.give_up(ticket, turn));
            }
            Event::Received(client, object, serial) => {
                self.at(now, object, effects, |record, turn| {
                    record.received(client, serial, turn);
                });
            }
            Event::Returned(client, object, serial, open) => {
                self.at(now, object, effects, |record, turn| {
                    record.returned(client, serial, open, turn);
                });
            }
            Event::Reported(client, object, serial, round, told) => {
                self.at(now, object, effects, |record, turn| match told {
                    Some(told) => record.reported(client, round, told),
                    None => record.returned(client, serial, Open::No, turn),
                });
            }
            Event::Met(client, origin) => self.common.met(client, origin),
            Event::Reconnected(client) => self.reconnected(now, client, effects),
            Event::Forgotten(client) => self.forgotten(now, client, effects),
            Event::Gone(object) => {
                self.at(now, object, effects, Record::forget_all);
            }
            Event::Backlog(backlog) => self.common.backlog = backlog,
            Event::Space(file_system, bytes) => {
                self.common.shares.has_free(file_system, bytes);
            }
            Event::Reclaimed => {
                self.common.recovery = self.common.recovery.map(|_| Phase::LateData);
            }
            Event::Opened => self.common.recovery = None,
            Event::Tick => {}
        }
        self.look_at_due(now, effects);
        if cfg!(debug_assertions) && self.records.len() <= AUDITED_MAX {
            self.check();
        }
    }

    fn make_room_for(&mut self, now: Time, object: Object) {
        if let Entry::Vacant(place) = self.records.entry(object) {
            place.insert(Box::new(Record::new(now)));
            self.due.insert((now, object));
        }
    }

    /// When a lease is over or an eviction is to be sent again.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        self.due.first().map(|(time, _)| *time)
    }

    /// How often what happened.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.common.counts
    }

    /// How many leases there are, over ones that nobody asked about included.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.common.leases
    }

    /// Whether there is no lease.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.common.leases == 0
    }

    /// Bytes of a file system that are reserved: what others write must leave so many free.
    #[must_use]
    pub fn reserved_bytes(&self, file_system: FileSystemId) -> u64 {
        self.common.shares.reserved(file_system)
    }

    /// The most bytes that a client's lease on an object may have reserved.
    #[must_use]
    pub fn share(&self, object: Object, client: Client) -> Share {
        let own = self.leases(object).iter().filter(|lease| lease.client == client);
        let has = own.map(|lease| lease.space).sum();
        self.common.share(object.file_system, client, has)
    }

    /// True if both are the same client, or of one origin: rule 13 counts their bytes together.
    #[must_use]
    pub fn share_room(&self, one: Client, other: Client) -> bool {
        let origin = |client| self.common.delays.origin(client);
        one == other || origin(one).is_some_and(|known| origin(other) == Some(known))
    }

    /// The leases on an object.
    #[must_use]
    pub fn leases(&self, object: Object) -> &[Lease] {
        self.records.get(&object).map_or(&[], |record| record.leases())
    }

    /// The lease that a client caches an object under, if the client holds one.
    #[must_use]
    pub fn cached_under(&self, object: Object, client: Client) -> Option<Serial> {
        let own = self.leases(object).iter().find(|lease| lease.client == client);
        own.filter(|lease| lease.cachable).map(|lease| lease.serial)
    }

    /// Rule 21: true if no other caller changed an object since a client cached the object under
    /// this lease.
    #[must_use]
    pub fn is_own_change(&self, object: Object, client: Client, since: Option<Serial>) -> bool {
        #[cfg(feature = "mutants")]
        if self.common.has(Mutant::OwnsAllChanges) {
            return true;
        }
        since.is_some() && self.cached_under(object, client) == since
    }

    /// How many objects there are leases on, or calls.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.records.len()
    }

    /// Whether there is a lease on an object, or a call, be it one that waits or one that runs.
    #[must_use]
    pub fn is_used(&self, object: Object) -> bool {
        self.records.contains_key(&object)
    }

    /// Whether a client holds a lease on an object or has a call there.
    #[must_use]
    pub fn is_used_by(&self, object: Object, client: Client) -> bool {
        let record = self.records.get(&object);
        record.is_some_and(|record| record.clients().any(|one| one == client))
    }

    /// The objects that there are leases on, each with those and with the calls that wait for them to
    /// end; who is no client at all waits as none.
    pub fn iter(
        &self,
    ) -> impl Iterator<Item = (Object, &[Lease], impl Iterator<Item = Waiter> + '_)> {
        self.records
            .iter()
            .map(|(object, record)| (*object, record.leases(), record.waiting()))
            .filter(|(_, leases, _)| !leases.is_empty())
    }

    /// Audits the whole state.
    ///
    /// # Panics
    /// When it contradicts itself or is above its limits.
    pub fn check(&self) {
        assert!(self.common.leases <= self.common.leases_max, "leases are bounded");
        assert_eq!(self.due.len(), self.records.len(), "each record is looked at some time");
        let mut leases = 0;
        for (object, record) in &self.records {
            record.check();
            assert!(self.due.contains(&(record.due, *object)), "at the time that it says");
            assert_eq!(record.is_busy(), self.busy.contains(object), "busy ones are known");
            leases += record.leases().len();
        }
        assert_eq!(leases, self.common.leases, "leases are counted");
        let reserved = self.records.iter().flat_map(|(object, record)| {
            let leases = record.leases().iter();
            leases.map(|lease| (object.file_system, lease.client, lease.space))
        });
        self.common.shares.check(reserved, |client| self.common.delays.origin(client));
    }

    /// Lets something happen to a record, if there is one, and then what follows from it.
    fn at(
        &mut self,
        now: Time,
        object: Object,
        effects: &mut Vec<Effect>,
        change: impl FnOnce(&mut Record, &mut Turn<'_>),
    ) {
        let Some(record) = self.records.get_mut(&object) else { return };
        let mut turn = Turn { now, object, common: &mut self.common, effects };
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
                // A renewal is found when the old time comes: to move each would cost more.
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

    fn look_at_due(&mut self, now: Time, effects: &mut Vec<Effect>) {
        for _ in 0..DUE_AT_ONCE_MAX {
            match self.due.first() {
                Some((time, object)) if *time <= now => {
                    let object = *object;
                    self.at(now, object, effects, |_, _| ());
                }
                _ => break,
            }
        }
        let Common { forgotten, delays, shares, .. } = &mut self.common;
        forgotten.retain(|client, until| {
            let is_waited_for = *until > now;
            if !is_waited_for {
                shares.moved(*client, delays.origin(*client), None);
                delays.forget(*client);
            }
            is_waited_for
        });
    }

    fn reconnected(&mut self, now: Time, client: Client, effects: &mut Vec<Effect>) {
        for object in self.busy.clone() {
            self.at(now, object, effects, |record, turn| record.send_again(client, turn));
        }
    }

    /// What the client holds is void from now, and goes when its record is next looked at.
    fn forgotten(&mut self, now: Time, client: Client, effects: &mut Vec<Effect>) {
        let terms = self.common.terms;
        let last = now + terms.waited(terms.longest_term) + terms.slack_max;
        self.common.forgotten.insert(client, last);
        for object in self.busy.clone() {
            self.at(now, object, effects, |_, _| ());
        }
    }
}

/// One change of a record.
struct Turn<'a> {
    now: Time,
    object: Object,
    common: &'a mut Common,
    effects: &'a mut Vec<Effect>,
}

impl Turn<'_> {
    /// Reserves bytes for a client.
    fn reserve(&mut self, client: Client, bytes: u64) {
        let Common { shares, delays, .. } = &mut *self.common;
        shares.reserve(self.object.file_system, (client, delays.origin(client)), bytes);
    }

    /// Frees bytes that were reserved for a client.
    fn give_back(&mut self, client: Client, bytes: u64) {
        let Common { shares, delays, .. } = &mut *self.common;
        shares.give_back(self.object.file_system, (client, delays.origin(client)), bytes);
    }

    /// Rule 13: the most bytes that a client's lease on the object may have reserved; the lease has
    /// `has` bytes. The holder of a lease from before the restart counts on all bytes of the lease.
    fn most_space(&self, client: Client, ask: &Ask, has: u64) -> u64 {
        let share = self.common.share(self.object.file_system, client, has);
        let reclaims = ask.reclaim && self.common.recovery == Some(Phase::Reclaims);
        if reclaims { share.unreserved } else { share.least() }
    }
}

/// What decides whether a lease is over.
#[derive(Clone, Copy, Debug)]
struct Moment {
    now: Time,
    terms: Terms,
    backlog: bool,
}

impl Common {
    fn share(&self, file_system: FileSystemId, client: Client, has: u64) -> Share {
        self.shares.share(file_system, (client, self.delays.origin(client)), has)
    }

    /// A client calls from an origin.
    fn met(&mut self, client: Client, origin: Origin) {
        self.shares.moved(client, self.delays.origin(client), Some(origin));
        self.delays.met(client, origin);
    }

    const fn moment(&self, now: Time) -> Moment {
        Moment { now, terms: self.terms, backlog: self.backlog }
    }

    /// The number of a new lease.
    const fn serial(&mut self) -> Serial {
        let serial = Serial(self.next_serial);
        self.next_serial += 1;
        serial
    }

    /// How long a term is waited out.
    fn waited(&self, term: Duration) -> Duration {
        #[cfg(feature = "mutants")]
        if self.has(Mutant::AllowsNoDrift) {
            return term;
        }
        self.terms.waited(term)
    }

    /// What a lease is when its holder asks for more.
    fn upgraded(&self, held: Kind, asked: Kind) -> Kind {
        #[cfg(feature = "mutants")]
        if self.has(Mutant::KeepsReaders) {
            return held;
        }
        held.max(asked)
    }

    /// Whether a fault was planted; never in a build that cannot have any.
    #[cfg(feature = "mutants")]
    fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}

#[cfg(test)]
mod tests;
