//! A bound on failed handle guesses by clients at an iod.
//!
//! An iod identifies a client by a user and a group number, and an attacker could try one pair of
//! numbers after another (see [`crate::iods`]). Rules:
//! 1. A call whose numbers permit neither reading nor writing its object is a miss. An address may
//!    have [`BURST`] misses at once, and one further miss in each [`INTERVAL`].
//! 2. An address that has used its misses is blocked: all its calls as a client must retry later.
//!    The server also makes calls with valid numbers retry, because any other answer would
//!    distinguish a correct guess from a wrong guess.
//! 3. The addresses of an IPv6 network count as one address. If [`ADDRESSES_MAX`] addresses have
//!    their own count of misses, all further addresses share one common count.

use core::net::IpAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use leasehold_base::units::Time;
use leasehold_core::leases::table::Origin;
use leasehold_leases::origin_of;

/// The number of misses that an address may have at once. After a fence each running call of a
/// client with the former layout becomes a miss, so an honest client also causes misses.
const BURST: u32 = 1024;

/// The time after which an address may have one further miss. At this rate an attacker needs 15
/// days to try all 2^27 pairs of numbers, and each fence of the object changes the valid pair.
const INTERVAL: Duration = Duration::from_millis(10);

/// The largest number of addresses with their own count of misses.
const ADDRESSES_MAX: usize = 4096;

/// The misses of all addresses.
#[derive(Debug, Default)]
pub(crate) struct Guesses {
    /// The latest of all times in `state`, in nanoseconds. If an address with this time would not
    /// be blocked, no address is blocked, and a call need not lock `state`.
    latest_ns: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The time by which each address has its full allowance again.
    free_at: BTreeMap<Origin, Time>,
    /// The time by which the addresses with the shared count have their full allowance again.
    others_free_at: Time,
}

impl Guesses {
    /// Returns true if an address is blocked (rule 2).
    pub(crate) fn are_held(&self, now: Time, from: IpAddr) -> bool {
        let latest = Time::from_nanoseconds(self.latest_ns.load(Ordering::Relaxed));
        if !is_over(now, latest) {
            return false;
        }
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let free_at = state.free_at.get(&origin_of(from)).copied();
        is_over(now, free_at.unwrap_or(state.others_free_at))
    }

    /// Counts a miss of an address.
    pub(crate) fn miss(&self, now: Time, from: IpAddr) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let origin = origin_of(from);
        if state.free_at.len() >= ADDRESSES_MAX && !state.free_at.contains_key(&origin) {
            state.free_at.retain(|_, free_at| *free_at > now);
        }
        let has_room = state.free_at.len() < ADDRESSES_MAX || state.free_at.contains_key(&origin);
        let State { free_at, others_free_at } = &mut *state;
        let free_at = if has_room { free_at.entry(origin).or_insert(now) } else { others_free_at };
        *free_at = (*free_at).max(now) + INTERVAL;
        self.latest_ns.fetch_max(free_at.as_nanoseconds(), Ordering::Relaxed);
    }
}

/// Returns true if an address whose allowance is full again at `free_at` has no miss left now.
fn is_over(now: Time, free_at: Time) -> bool {
    free_at.since(now) >= INTERVAL * BURST
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRANGER: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 7));
    const CLIENT: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(192, 0, 2, 8));

    fn at(seconds: u64) -> Time {
        Time::from_nanoseconds(seconds * 1_000_000_000)
    }

    #[test]
    fn only_an_address_with_many_misses_is_blocked() {
        let guesses = Guesses::default();
        for _ in 0..BURST {
            assert!(!guesses.are_held(at(5), STRANGER));
            guesses.miss(at(5), STRANGER);
        }
        assert!(guesses.are_held(at(5), STRANGER));
        assert!(!guesses.are_held(at(5), CLIENT), "the bound is for each address");
        assert!(!guesses.are_held(at(6), STRANGER), "some misses are free again");
        let mut missed = 0;
        while !guesses.are_held(at(6), STRANGER) {
            guesses.miss(at(6), STRANGER);
            missed += 1;
        }
        assert_eq!(missed, 100, "as many as a second has intervals");
    }

    #[test]
    fn addresses_beyond_the_bound_share_their_misses_and_take_no_room() {
        let guesses = Guesses::default();
        let address = |number: u32| IpAddr::V4((0x0a00_0000 | number).into());
        for number in 0..2 * u32::try_from(ADDRESSES_MAX).expect("it is small") {
            guesses.miss(at(1), address(number));
        }
        assert_eq!(guesses.state.lock().expect("no panic").free_at.len(), ADDRESSES_MAX);
        assert!(!guesses.are_held(at(1), address(0)), "one miss of its own");
        assert!(guesses.are_held(at(1), address(1 << 20)), "the misses of all others");
        guesses.miss(at(60), CLIENT);
        assert_eq!(guesses.state.lock().expect("no panic").free_at.len(), 1);
        assert!(!guesses.are_held(at(60), address(1 << 20)));
    }

    #[test]
    fn a_network_of_version_6_is_one_address() {
        let guesses = Guesses::default();
        let address =
            |last: u16| IpAddr::V6(core::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, last));
        (0..1024).for_each(|last| guesses.miss(at(1), address(last)));
        assert!(guesses.are_held(at(1), address(5000)));
    }
}
