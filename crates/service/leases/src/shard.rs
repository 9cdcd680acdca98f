//! A shard of the owner's state: the leases, the waiting calls and the records of some objects.
//!
//! The file system and the file id of an object determine its shard. Every step concerns one object
//! and acquires the mutex of one shard, so no step waits for the mutex of a second shard. An
//! operation on several objects acquires one operation guard after the other, in the order of the
//! objects.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use futures_channel::oneshot;
use leasehold_base::limits::durations::JUKEBOX_AFTER;
use leasehold_base::units::Time;
use leasehold_core::leases::modrevs::Modrevs;
use leasehold_core::leases::table::{self, Charge, Run, Table};
use leasehold_core::leases::{Client, Modrev, Object, Serial, Terms, Ticket};
use leasehold_fs::FsError;

use crate::common::Common;
use crate::effects::{Effects, Eviction, Inquiry, Settled};
use crate::layouts::LaidOut;
use crate::names::ObjectHandles;
use crate::programs::Program;
use crate::unacknowledged::Unacknowledged;
use crate::view::LeaseWaits;

/// The number of shards. The code and its tests permit any number, and several times the number of
/// event loops of a large machine is the aim. It is one until the cause of a fault is found: with 16
/// shards, a metaserver answers several requests for a lease on names of another metaserver before
/// it grants the lease. A wake-up visits all shards.
pub(crate) const SHARDS: usize = 1;

/// The maximum number of leases of a shard. At this limit the shard grants no further lease, and the
/// call of a client that requests one runs without a lease. All shards together grant 2^20 leases.
const LEASES_MAX: usize = (1 << 20) / SHARDS;

/// Returns the shard of an object.
pub(crate) fn shard_of(object: Object) -> usize {
    // File ids are often consecutive or multiples of a power of two. The multiplication (by the
    // golden ratio, Knuth 6.4) spreads them over the high bits of the product.
    let key = object.file.0 ^ object.file_system.0.rotate_left(32);
    let [high, ..] = key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    usize::from(high) * SHARDS / 256
}

/// The state of the objects of one shard.
pub(crate) struct Shard {
    number: usize,
    pub(crate) common: Arc<Common>,
    /// The latest time of a step.
    pub(crate) now: Time,
    pub(crate) table: Table,
    pub(crate) modrevs: Modrevs,
    next_ticket: u64,
    waiting: BTreeMap<Ticket, Waiting>,
    /// The number of waiting calls that `common` contains.
    counted: usize,
    pub(crate) waits: LeaseWaits,
    /// The deadlines of waiting calls.
    deadlines: BTreeSet<(Time, Ticket)>,
    pub(crate) names: ObjectHandles,
    /// The files that calls are writing, each with the queue of calls that wait to write the file.
    pub(crate) writing: BTreeMap<Object, VecDeque<oneshot::Sender<()>>>,
    /// The files that clients write directly at the iods, each with the modrev of the file at the
    /// start of the layout.
    pub(crate) layouts: BTreeMap<Object, (LaidOut, Modrev)>,
    pub(crate) unacknowledged: Unacknowledged,
}

/// A waiting call or local program.
pub(crate) enum Waiting {
    /// A call that waits for its operation guard on an object.
    Call(Object, oneshot::Sender<Option<Run>>),
    /// A local program that waits for access to an object.
    Program(Object, Program),
}

impl Shard {
    pub(crate) fn new(
        number: usize,
        common: Arc<Common>,
        (terms, epoch): (Terms, u64),
        now: Time,
    ) -> Self {
        let table = Table::new(terms, LEASES_MAX, epoch, common.is_recovering());
        Self {
            number,
            common,
            now,
            table,
            modrevs: Modrevs::default(),
            next_ticket: 1,
            waiting: BTreeMap::new(),
            counted: 0,
            waits: LeaseWaits::default(),
            deadlines: BTreeSet::new(),
            names: ObjectHandles::default(),
            writing: BTreeMap::new(),
            layouts: BTreeMap::new(),
            unacknowledged: Unacknowledged::default(),
        }
    }

    /// Begins a step: sets the time.
    pub(crate) fn begin(&mut self) {
        self.now = self.now.max(self.common.now());
    }

    /// Ends a step: counts the waiting calls, and returns the time of the next action.
    pub(crate) fn end(&mut self) -> Option<Time> {
        self.common.count_waiting(&mut self.counted, self.waiting.len());
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        self.table.next_wake().into_iter().chain(deadline).min()
    }

    /// Runs the actions that are due.
    pub(crate) fn wake(&mut self, effects: &mut Effects) {
        self.step(table::Event::Tick, effects);
        self.modrevs.forget(self.now);
        self.names.forget(&self.table, &self.common.handles);
        let due = |deadlines: &BTreeSet<(Time, Ticket)>, now| {
            deadlines.first().copied().filter(|(at, _)| *at <= now)
        };
        while let Some((_, ticket)) = due(&self.deadlines, self.now) {
            self.deadlines.pop_first();
            self.give_up(ticket, effects);
        }
    }

    /// Handles one event of the lease table.
    pub(crate) fn step(&mut self, event: table::Event, effects: &mut Effects) {
        let (mut actions, mut shared) = (Vec::new(), self.common.for_step());
        self.table.step_shared(self.now, event, &mut shared, &mut actions);
        let charges = core::mem::take(&mut shared.charges);
        drop(shared);
        effects.charges.extend(charges.into_iter().map(|charge| (self.number, charge)));
        for action in actions {
            match action {
                table::Effect::Run(run) => self.settle(run.ticket, Some(run), effects),
                table::Effect::Later(ticket) => self.settle(ticket, None, effects),
                table::Effect::Evict(client, object, serial) => {
                    let name = self.names.of(client, object);
                    let eviction = Eviction { object, serial, name };
                    effects.evictions.entry(client).or_default().push(eviction);
                }
                table::Effect::Inquire(client, object, serial, round) => {
                    let name = self.names.of(client, object);
                    effects.inquiries.push(Inquiry { client, object, serial, round, name });
                }
            }
        }
    }

    /// Records the charges of the other shards.
    pub(crate) fn charged(&mut self, charges: &[(usize, Charge)], effects: &mut Effects) {
        let own = self.number;
        for (_, charge) in charges.iter().filter(|(number, _)| *number != own) {
            self.step(table::Event::Charged(*charge), effects);
        }
    }

    /// Records a call that waits for its operation guard on an object. Fails if too many calls
    /// wait.
    pub(crate) fn park(
        &mut self,
        object: Object,
    ) -> Result<(Ticket, oneshot::Receiver<Option<Run>>), FsError> {
        if !self.common.may_wait() {
            return Err(FsError::Delay);
        }
        let (sender, receiver) = oneshot::channel();
        Ok((self.keep_waiting(Waiting::Call(object, sender)), receiver))
    }

    /// Assigns a ticket to a waiting call or local program.
    pub(crate) fn keep_waiting(&mut self, waiting: Waiting) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.waiting.insert(ticket, waiting);
        ticket
    }

    /// Returns true if a call or a local program waits.
    pub(crate) fn waits(&self, ticket: Ticket) -> bool {
        self.waiting.contains_key(&ticket)
    }

    /// Returns true if a local program waits with this ticket.
    pub(crate) fn is_program(&self, ticket: Ticket) -> bool {
        matches!(self.waiting.get(&ticket), Some(Waiting::Program(..)))
    }

    /// Forgets a waiting call that its caller has cancelled. Returns true if the call waited.
    pub(crate) fn forget_waiting(&mut self, ticket: Ticket) -> bool {
        self.waiting.remove(&ticket).is_some()
    }

    /// Returns true if the shard has no lease, no waiting call and no layout.
    pub(crate) fn is_idle(&self) -> bool {
        self.table.is_empty() && self.waiting.is_empty() && self.layouts.is_empty()
    }

    /// Sets the deadline ([`JUKEBOX_AFTER`] from now) of a call that still waits.
    pub(crate) fn bound_wait(&mut self, ticket: Ticket) {
        if self.waits(ticket) {
            self.deadlines.insert((self.now + JUKEBOX_AFTER, ticket));
        }
    }

    /// Ends the wait of a call with a result.
    fn settle(&mut self, ticket: Ticket, run: Option<Run>, effects: &mut Effects) {
        match self.waiting.remove(&ticket) {
            Some(Waiting::Call(object, sender)) => {
                effects.settled.push(Settled { object, ticket, sender, run });
            }
            Some(Waiting::Program(object, program)) => {
                effects.freed.push((program, run.map(|_| (object, ticket))));
            }
            None => {}
        }
    }

    fn give_up(&mut self, ticket: Ticket, effects: &mut Effects) {
        if let Some(&(Waiting::Call(object, _) | Waiting::Program(object, _))) =
            self.waiting.get(&ticket)
        {
            self.settle(ticket, None, effects);
            self.step(table::Event::GivenUp(object, ticket), effects);
        }
    }

    /// Returns the lease of a client on an object.
    pub(crate) fn lease_of(&self, object: Object, client: Client) -> Option<&table::Lease> {
        self.table.leases(object).iter().find(|lease| lease.client == client)
    }

    /// Returns true if the lease with this sequence number still exists.
    pub(crate) fn stands(&self, object: Object, serial: Serial) -> bool {
        self.table.leases(object).iter().any(|lease| lease.serial == serial)
    }

    /// Drops all leases on a removed object, and its layout.
    pub(crate) fn gone(&mut self, object: Object, effects: &mut Effects) {
        self.step(table::Event::Gone(object), effects);
        self.layouts.remove(&object);
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use leasehold_base::units::{FileId, FileSystemId};

    use super::*;

    /// One shard with most of the objects would be the one mutex of all operations.
    #[test]
    fn objects_spread_over_the_shards() {
        const OBJECTS: u64 = 1600;
        for (step, file_system) in [(1, 1), (2, 7), (64, 1 << 40), (1 << 32, 3)] {
            let mut counts = [0_u64; SHARDS];
            for number in 0..OBJECTS {
                let file_system = FileSystemId(file_system);
                let object = Object { file_system, file: FileId(number * step) };
                counts[shard_of(object)] += 1;
            }
            let most = counts.into_iter().max().expect("there are shards");
            let even = OBJECTS / SHARDS as u64;
            assert!(most <= 2 * even, "{counts:?} of every {step}");
        }
    }

    #[test]
    fn deadline_of_a_call_that_runs_is_not_recorded() {
        let common = Arc::new(Common::new(Time::ZERO, false));
        let mut shard = Shard::new(0, common, (Terms::DEFAULT, 1), Time::ZERO);
        shard.bound_wait(Ticket(1));
        assert_eq!(shard.end(), None);
        let object = Object { file_system: FileSystemId(1), file: FileId(1) };
        let (ticket, _receiver) = shard.park(object).expect("no call waits");
        shard.bound_wait(ticket);
        assert_eq!(shard.end(), Some(Time::ZERO + Duration::from_secs(2)));
    }
}
