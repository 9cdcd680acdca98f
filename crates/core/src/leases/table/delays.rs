//! The time for which clients have delayed other callers, and the clients that are therefore
//! granted no leases.
//!
//! Rules:
//! 1. A client delays other callers from a short time after the first EVICT for its lease until the
//!    lease is returned or has expired. The client is not charged while it writes back its changes.
//!    A suspended server detects the expiry of a lease late, and charges no client for that time.
//! 2. Several leases that are recalled at one time count once.
//! 3. The charge of a client decreases by an eighth of the time that passes. While the charge
//!    exceeds the bound of a client, the client is granted no lease.
//! 4. No client of an origin, such as a machine, is granted a lease while the charge of the origin,
//!    the sum over its clients, exceeds the bound of an origin. A machine can invent any number of
//!    client names, but has only a few origins.
//! 5. The charge of a client stays with its origin when the client is forgotten.

use core::time::Duration;
use std::collections::BTreeMap;

use leasehold_base::units::Time;

use super::Origin;
use crate::leases::{Client, Terms};

/// The time in which a cooperative holder returns a lease. It is shorter than the time for which
/// plain calls wait before their callers must retry them.
const PROMPT: Duration = Duration::from_secs(1);

/// The longest time for which a client may delay other callers: enough for some lost recalls, but
/// less than a term.
const CLIENT_MAX: Duration = Duration::from_secs(4);

/// The number of terms for which the clients of one origin may delay other callers: the server may
/// have to wait for several mounts of a crashed machine, one after the other.
const ORIGIN_TERMS_MAX: u32 = 4;

/// The divisor for the decrease of a charge: as time passes, this fraction (1/n) of the time is
/// subtracted from each charge.
const FORGIVEN: u32 = 8;

/// The maximum number of origins with a recorded charge. Above this number, the origin with the
/// least charge is forgotten.
const ORIGINS_MAX: usize = 1 << 12;

/// A time interval in which a client has delayed other callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The client.
    pub client: Client,
    /// The start of the interval.
    pub since: Time,
    /// The end of the interval.
    pub end: Time,
}

/// The charges of clients and of origins.
#[derive(Clone, Debug, Default)]
pub(super) struct Delays {
    clients: BTreeMap<Client, Delay>,
    origins: BTreeMap<Origin, Delay>,
    /// The origin of each client.
    met: BTreeMap<Client, Origin>,
}

/// The charge of a client or an origin: the time for which it has delayed other callers.
#[derive(Clone, Copy, Debug, Default)]
struct Delay {
    /// The charge at the time `at`.
    taken: Duration,
    /// The end of the last charged interval. No time before it is charged again.
    at: Time,
}

impl Delay {
    /// Rule 3: returns the charge, which has decreased by an eighth of the time that has passed.
    fn left(&self, now: Time) -> Duration {
        self.taken.saturating_sub(now.since(self.at) / FORGIVEN)
    }

    /// Rule 2: no time is counted twice.
    fn add(&mut self, since: Time, end: Time) {
        let end = end.max(self.at);
        let taken = end.since(since.max(self.at));
        *self = Self { taken: self.left(end) + taken, at: end };
    }
}

impl Delays {
    /// Records that a client calls from an origin.
    pub(super) fn met(&mut self, client: Client, origin: Origin) {
        self.met.insert(client, origin);
    }

    /// Returns the last origin of a client that the table has not forgotten.
    pub(super) fn origin(&self, client: Client) -> Option<Origin> {
        self.met.get(&client).copied()
    }

    /// Rule 5: forgets a client that the table does not need any more. The charge of the client
    /// stays with its origin.
    pub(super) fn forget(&mut self, client: Client) {
        self.met.remove(&client);
        self.clients.remove(&client);
    }

    /// Charges a client for a lease that was returned or expired at `end`, and returns the charge,
    /// if any. The recall was sent at `sent`, and the client last wrote at `wrote`.
    pub(super) fn gave_back(
        &mut self,
        end: Time,
        client: Client,
        (sent, wrote): (Time, Time),
    ) -> Option<Charge> {
        // Rule 1: the charge begins a short time after the first EVICT and after the client's last
        // WRITE, so a client is not charged while it writes back its changes.
        let since = sent.max(wrote) + PROMPT;
        let charge = (since < end).then_some(Charge { client, since, end })?;
        self.charge(charge);
        Some(charge)
    }

    /// Records a charge of another shard, unless this shard has forgotten the client.
    pub(super) fn charge_known(&mut self, charge: Charge) {
        if self.met.contains_key(&charge.client) {
            self.charge(charge);
        }
    }

    fn charge(&mut self, Charge { client, since, end }: Charge) {
        self.clients.entry(client).or_default().add(since, end);
        if let Some(origin) = self.met.get(&client) {
            self.origins.entry(*origin).or_default().add(since, end);
            if self.origins.len() > ORIGINS_MAX {
                self.forget_origin(end);
            }
        }
    }

    /// Rules 3 and 4: returns true if the charge of a client or of its origin exceeds the bound, so
    /// that the client is granted no lease now.
    pub(super) fn is_barred(&self, now: Time, client: Client, terms: &Terms) -> bool {
        if self.clients.is_empty() && self.origins.is_empty() {
            return false;
        }
        let exceeds = |delay: Option<&Delay>, most| delay.is_some_and(|it| it.left(now) > most);
        let origin = self.met.get(&client).and_then(|origin| self.origins.get(origin));
        exceeds(self.clients.get(&client), CLIENT_MAX)
            || exceeds(origin, terms.longest_term * ORIGIN_TERMS_MAX)
    }

    /// Forgets all origins without a remaining charge and, if necessary, the origin with the least
    /// charge. This is rare, because few origins delay other callers.
    fn forget_origin(&mut self, now: Time) {
        self.origins.retain(|_, delay| !delay.left(now).is_zero());
        if self.origins.len() > ORIGINS_MAX {
            let least = self.origins.iter().min_by_key(|(_, delay)| delay.left(now));
            if let Some(origin) = least.map(|(origin, _)| *origin) {
                self.origins.remove(&origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Client = Client(1);

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn is_barred(delays: &Delays, seconds: u64, client: Client) -> bool {
        delays.is_barred(at(seconds), client, &Terms::DEFAULT)
    }

    #[test]
    fn a_client_that_let_a_term_run_out_is_barred_for_eight_times_as_long() {
        let mut delays = Delays::default();
        delays.gave_back(at(61), ONE, (at(0), Time::ZERO));
        assert!(is_barred(&delays, 61, ONE));
        assert!(is_barred(&delays, 61 + 8 * 56 - 1, ONE));
        assert!(!is_barred(&delays, 61 + 8 * 56, ONE));
        assert!(!is_barred(&delays, 61, Client(2)), "nothing is known of its origin");
    }

    #[test]
    fn leases_recalled_at_the_same_time_count_once() {
        let mut delays = Delays::default();
        for _ in 0..1000 {
            delays.gave_back(at(3), ONE, (at(0), Time::ZERO));
        }
        assert!(!is_barred(&delays, 3, ONE), "it took two seconds");
        delays.gave_back(at(8), ONE, (at(1), Time::ZERO));
        assert!(is_barred(&delays, 8, ONE), "and five more");
    }

    #[test]
    fn a_lease_that_expired_unnoticed_counts_once() {
        let mut delays = Delays::default();
        delays.gave_back(at(8), ONE, (at(0), Time::ZERO));
        delays.gave_back(at(5), ONE, (at(0), Time::ZERO));
        assert!(is_barred(&delays, 8 + 8 * 3 - 1, ONE), "it took seven seconds");
        assert!(!is_barred(&delays, 8 + 8 * 3, ONE), "and no more");
    }

    #[test]
    fn a_client_is_not_charged_while_it_writes_back() {
        let mut delays = Delays::default();
        delays.gave_back(at(100), ONE, (at(0), at(99)));
        assert!(!is_barred(&delays, 100, ONE));
    }

    #[test]
    fn the_clients_of_a_barred_origin_are_barred() {
        let mut delays = Delays::default();
        for number in 0..5 {
            let (client, begun) = (Client(number), 100 * u64::from(number));
            delays.met(client, Origin(7));
            assert!(!is_barred(&delays, begun, client));
            delays.gave_back(at(begun + 71), client, (at(begun), Time::ZERO));
            delays.forget(client);
        }
        delays.met(Client(6), Origin(7));
        delays.met(Client(7), Origin(8));
        assert!(is_barred(&delays, 500, Client(6)), "all calls of the origin took 295 s");
        assert!(!is_barred(&delays, 500, Client(7)), "another origin took nothing");
    }

    #[test]
    fn origins_with_the_least_charge_are_forgotten_first() {
        let mut delays = Delays::default();
        for number in 0..5000 {
            let client = Client(number);
            delays.met(client, Origin(number.into()));
            let taken = if number == 3 { 600 } else { 60 };
            delays.gave_back(at(taken), client, (at(0), Time::ZERO));
            delays.forget(client);
        }
        assert_eq!((delays.origins.len(), delays.clients.len()), (ORIGINS_MAX, 0));
        delays.met(ONE, Origin(3));
        assert!(is_barred(&delays, 600, ONE));
    }
}
