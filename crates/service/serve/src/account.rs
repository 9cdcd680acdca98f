//! The accounts of calls, one for each loop; readers fold them together.
//!
//! Criteria in order of weight:
//! - Accounting is always on, so its cost must be very low. An account reads its data at fixed
//!   offsets of the call and the reply. It belongs to one loop and shares no memory with other
//!   loops. Each procedure counts a streak, which is a series of calls by one client on one export.
//!   The account updates the counters of clients and exports only when a streak ends or a reader
//!   copies the account.
//! - The account counts all calls, and measures the time of one call in sixteen. The choice is
//!   random, because calls arrive in patterns.
//! - The memory of an account is bounded. Clients beyond a limit share the entry `others`. An
//!   export gets an entry only after the server has accepted a handle of that export, so that
//!   forged handles add no entries.
//!
//! An account has no clock: its owner passes the duration of each call.

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
use head::{CounterPosition, Layout};
pub use histogram::{BUCKETS, Histogram};
pub use outcome::{OUTCOMES, Outcome};
use streak::{Streak, Whose};
pub use tally::{Tally, Timing};

/// The mean number of calls per timed call.
pub const TIMED_ONE_IN: u32 = 16;

/// The counters of one procedure.
#[derive(Clone, Debug)]
pub struct Counted {
    /// True if the results of the procedure begin with a status.
    has_status: bool,
    /// The counters of all calls of the procedure.
    pub tally: Tally,
    /// The numbers of failed calls for each index in [`OUTCOMES`]; the other calls succeeded.
    pub failed: [u64; OUTCOMES.len()],
    /// The current streak. The counters of its client and export do not contain the calls of this
    /// streak yet.
    streak: Streak,
}

/// A call in progress, with the row and the export whose counters the call changes.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    place: CounterPosition,
    client: ClientId,
    bytes_in: u32,
    /// True if the call is timed.
    pub timed: bool,
}

/// The account of one loop, or the sum of several.
#[derive(Clone)]
pub struct Account {
    layout: Layout,
    rows: Vec<Counted>,
    /// The counters of each export, sorted by export number.
    exports: Vec<(u16, Tally)>,
    /// The counters of the clients.
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
    /// Returns an empty account.
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

    /// Records the start of a call from a client.
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

    /// Returns the number of calls until the next timed call: from 1 to 31.
    fn draw(&mut self) -> u32 {
        // The random number generator is Marsaglia's xorshift with 32 bits.
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 17;
        self.chance ^= self.chance << 5;
        1 + self.chance % (2 * TIMED_ONE_IN - 1)
    }

    /// Counts a finished call; `reply` is None without a reply, and `timing` None for a call that
    /// is not timed.
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

    /// Like [`Account::end`], for a call whose client or export differs from the client or export
    /// of the procedure's streak.
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

    /// Adds all streaks to the counters of their clients and exports.
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

    /// Returns a complete copy of the account for a reader.
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

    /// Adds an account that [`Account::told`] returned.
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

    /// Returns the program, version, name and counters of each procedure; the last entry contains
    /// calls of unknown procedures.
    pub fn procedures(&self) -> impl Iterator<Item = (&'static str, u32, &'static str, &Counted)> {
        let named = self.layout.rows().zip(&self.rows);
        named.map(|(named, counted)| (named.program, named.version, named.name, counted))
    }

    /// Returns the counters of each export with its number.
    pub fn exports(&self) -> impl Iterator<Item = (u16, &Tally)> {
        self.exports.iter().map(|(export, tally)| (*export, tally))
    }

    /// Returns the sum over all calls.
    #[must_use]
    pub fn total(&self) -> Tally {
        self.rows.iter().fold(Tally::default(), |mut total, row| {
            total.fold(&row.tally);
            total
        })
    }

    /// Returns the client at an address, and records the time of its call.
    pub fn client(&mut self, address: IpAddr, now: Time) -> ClientId {
        if !self.clients.has_room_for(address) {
            // The new client may replace the entry of another client. The calls in that client's
            // streaks must be counted before its entry is removed.
            self.settle();
        }
        self.clients.at(address, now)
    }

    /// Records a new connection of a client, which keeps its entry while it has connections.
    pub fn connected(&mut self, client: ClientId) {
        self.clients.connected(client);
    }

    /// Records the end of a connection.
    pub fn disconnected(&mut self, client: ClientId) {
        self.clients.disconnected(client);
    }

    /// Records the time of a call of a client.
    #[inline]
    pub fn heard(&mut self, client: ClientId, now: Time) {
        self.clients.heard(client, now);
    }

    /// The counters of the clients.
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
