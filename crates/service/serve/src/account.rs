//! What is counted of calls: an account for each loop, folded when somebody asks.
//!
//! Criteria in order of weight:
//! - It is always on, so it costs next to nothing: what it needs is read from the bytes of the call
//!   and of the reply, at fixed places; an account belongs to one loop, so it shares nothing; and a
//!   call counts with its procedure alone, which knows whose calls it counts: with a client and an
//!   export they count once that changes, or once somebody asks.
//! - All is counted; one call in sixteen is timed, at random, because calls come in patterns.
//! - Its memory is bounded: the clients beyond a number are counted as one, `others`, and exports
//!   are those of which a handle was opened, so that nobody adds one by making up handles.
//!
//! It knows no clock: whoever owns it says how long a call took.

mod clients;
mod head;
mod histogram;
mod outcome;
mod streak;
mod tally;

use core::net::IpAddr;

use bytes::Bytes;
use leasehold_base::units::Time;
use leasehold_base::xdr::Message;

pub use clients::{Client, ClientId, Clients};
use head::{Layout, Place};
pub use histogram::{BUCKETS, Histogram};
pub use outcome::{OUTCOMES, Outcome};
use streak::{Streak, Whose};
pub use tally::{Tally, Timing};

/// Calls of which one is timed, in the mean.
pub const TIMED_ONE_IN: u32 = 16;

/// What is counted of one procedure.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Whether its results begin with a status.
    has_status: bool,
    /// Its calls.
    pub tally: Tally,
    /// How many of them ended so, by the places of [`OUTCOMES`]; those that succeeded are the rest.
    pub failed: [u64; OUTCOMES.len()],
    /// The last of its calls, which do not count with their client and export yet.
    streak: Streak,
}

/// A call that was begun, and where its end is to be counted.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    place: Place,
    client: ClientId,
    bytes_in: u32,
    /// Whether it is to be timed.
    pub timed: bool,
}

/// What one loop has counted, or several together.
#[derive(Clone)]
pub struct Account {
    layout: Layout,
    rows: Vec<Counted>,
    /// By their numbers, in order.
    exports: Vec<(u16, Tally)>,
    /// Its clients.
    clients: Clients,
    until_timed: u32,
    chance: u32,
}

impl Default for Account {
    fn default() -> Self {
        Self::new()
    }
}

impl Account {
    /// One in which nothing is counted yet.
    #[must_use]
    pub fn new() -> Self {
        let layout = Layout::new();
        let row = |has_status| {
            let failed = [0; OUTCOMES.len()];
            Counted { has_status, tally: Tally::default(), failed, streak: Streak::default() }
        };
        let rows = layout.rows().map(|named| row(named.has_status)).collect();
        let clients = Clients::default();
        Self { layout, rows, exports: Vec::new(), clients, until_timed: 1, chance: 1 }
    }

    /// Notes that a call came from a client.
    #[inline]
    pub fn begin(&mut self, call: &Bytes, client: ClientId) -> Begun {
        self.until_timed -= 1;
        let timed = self.until_timed == 0;
        if timed {
            self.until_timed = self.draw();
        }
        let bytes_in = u32::try_from(call.len()).unwrap_or(u32::MAX);
        Begun { place: self.layout.place(call), client, bytes_in, timed }
    }

    /// How many calls go by until the next is timed: from 1 to 31.
    fn draw(&mut self) -> u32 {
        // Marsaglia's xorshift of 32 bits.
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 17;
        self.chance ^= self.chance << 5;
        1 + self.chance % (2 * TIMED_ONE_IN - 1)
    }

    /// Counts a call that has come to its end: its reply, where it has one, and how long it took,
    /// where it was timed.
    #[inline]
    pub fn end(&mut self, begun: Begun, reply: Option<&Message>, timing: Option<&Timing>) {
        let row = &mut self.rows[begun.place.row()];
        let outcome = Outcome::of(reply, row.has_status);
        let whose = Whose { client: begun.client, place: begun.place };
        if row.streak.whose != whose {
            return self.end_of_another(begun, whose, outcome, reply, timing);
        }
        row.count(begun, outcome, reply);
        if let Some(timing) = timing {
            self.time(whose, timing);
        }
    }

    /// The same, of a call that is not of the same client and export as the last of its procedure.
    #[cold]
    fn end_of_another(
        &mut self,
        begun: Begun,
        mut whose: Whose,
        outcome: Outcome,
        reply: Option<&Message>,
        timing: Option<&Timing>,
    ) {
        self.settle_row(begun.place.row());
        if let Some(export) = whose.place.export()
            && let Err(at) = self.exports.binary_search_by_key(&export, |(number, _)| *number)
        {
            if outcome.handle_was_opened() {
                self.add_export(at, export);
            } else {
                whose.place = whose.place.without_export();
            }
        }
        let row = &mut self.rows[begun.place.row()];
        row.streak = Streak::begun(whose, &row.tally);
        row.count(begun, outcome, reply);
        if let Some(timing) = timing {
            self.time(whose, timing);
        }
    }

    #[cold]
    fn time(&mut self, whose: Whose, timing: &Timing) {
        self.rows[whose.place.row()].tally.time(timing);
        self.clients.tally(whose.client).time(timing);
        if let Some(tally) = self.export(whose.place.export()) {
            tally.time(timing);
        }
    }

    fn export(&mut self, number: Option<u16>) -> Option<&mut Tally> {
        let number = number?;
        let at = self.exports.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(&mut self.exports[at].1)
    }

    /// Counts with clients and exports what counts with procedures alone so far.
    fn settle(&mut self) {
        (0..self.rows.len()).for_each(|row| self.settle_row(row));
    }

    fn settle_row(&mut self, row: usize) {
        let row = &mut self.rows[row];
        let (whose, calls) = row.streak.end(&row.tally);
        if calls.is_none() {
            return;
        }
        self.clients.tally(whose.client).add(&calls);
        if let Some(tally) = self.export(whose.place.export()) {
            tally.add(&calls);
        }
    }

    /// What is counted, for whoever wants to read it.
    #[must_use]
    pub fn told(&self) -> Self {
        let mut told = self.clone();
        told.settle();
        told
    }

    fn add_export(&mut self, at: usize, export: u16) -> usize {
        self.exports.insert(at, (export, Tally::default()));
        at
    }

    /// Adds what another has told.
    pub fn fold(&mut self, other: &Self) {
        for (row, more) in self.rows.iter_mut().zip(&other.rows) {
            row.tally.fold(&more.tally);
            for (count, more) in row.failed.iter_mut().zip(&more.failed) {
                *count += more;
            }
        }
        for (export, more) in &other.exports {
            let at = match self.exports.binary_search_by_key(export, |(number, _)| *number) {
                Ok(at) => at,
                Err(at) => self.add_export(at, *export),
            };
            self.exports[at].1.fold(more);
        }
        self.clients.fold(&other.clients);
    }

    /// What was counted of each procedure, with program, version and name; the last is what is no
    /// call of a procedure that is served.
    pub fn procedures(&self) -> impl Iterator<Item = (&'static str, u32, &'static str, &Counted)> {
        let named = self.layout.rows().zip(&self.rows);
        named.map(|(named, counted)| (named.program, named.version, named.name, counted))
    }

    /// What was counted of each export, by its number.
    pub fn exports(&self) -> impl Iterator<Item = (u16, &Tally)> {
        self.exports.iter().map(|(export, tally)| (*export, tally))
    }

    /// All calls together.
    #[must_use]
    pub fn total(&self) -> Tally {
        self.rows.iter().fold(Tally::default(), |mut total, row| {
            total.fold(&row.tally);
            total
        })
    }

    /// The client at an address, who is heard at this moment.
    pub fn client(&mut self, address: IpAddr, now: Time) -> ClientId {
        if !self.clients.has_room_for(address) {
            // The one that loses its place takes along what it did.
            self.settle();
        }
        self.clients.at(address, now)
    }

    /// Notes that a client has a connection more; it keeps its place until that is closed.
    pub fn connected(&mut self, client: ClientId) {
        self.clients.connected(client);
    }

    /// Notes that a connection that was told of is closed.
    pub fn disconnected(&mut self, client: ClientId) {
        self.clients.disconnected(client);
    }

    /// Notes that a client is heard at this moment.
    #[inline]
    pub fn heard(&mut self, client: ClientId, now: Time) {
        self.clients.heard(client, now);
    }

    /// Its clients.
    #[must_use]
    pub fn clients(&self) -> &Clients {
        &self.clients
    }
}

impl Counted {
    #[inline]
    fn count(&mut self, begun: Begun, outcome: Outcome, reply: Option<&Message>) {
        self.tally.calls += 1;
        self.tally.bytes_in += u64::from(begun.bytes_in);
        self.tally.bytes_out += reply.map_or(0, Message::len) as u64;
        if !outcome.is_success() {
            self.tally.failed += 1;
            self.failed[outcome.index()] += 1;
        }
    }
}

#[cfg(test)]
mod tests;
