//! The state that the registry and all shards share. No operation without a conflict holds one of
//! the mutexes of this state for longer than one change of reserved bytes, or one search by handle.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use leasehold_base::units::{FileSystemId, Time};
use leasehold_core::leases::table::{Charge, Shared, Shares};

use crate::names::HandleIndex;

/// The maximum number of waiting calls. At this limit the server replies to a call that would have
/// to wait with a status that requests a retry. Threads that reach the limit at the same time may
/// exceed it by one call each.
const WAITING_MAX: usize = 1 << 14;

/// The time that stands for no scheduled wake-up.
const NEVER: u64 = u64::MAX;

/// The state that the registry and all shards share.
pub(crate) struct Common {
    /// The latest time that an event reported, in nanoseconds.
    now: AtomicU64,
    /// The time of the next wake-up that the owner has already scheduled, in nanoseconds.
    announced: AtomicU64,
    /// The number of waiting calls and local programs.
    waiting: AtomicUsize,
    /// True during the grace period.
    recovering: AtomicBool,
    /// True while clients of another protocol may reclaim state from before the start.
    others_recovering: AtomicBool,
    account: Account,
    pub(crate) handles: HandleIndex,
}

impl Common {
    pub(crate) fn new(now: Time, is_recovering: bool) -> Self {
        Self {
            now: AtomicU64::new(now.as_nanoseconds()),
            announced: AtomicU64::new(NEVER),
            waiting: AtomicUsize::new(0),
            recovering: AtomicBool::new(is_recovering),
            others_recovering: AtomicBool::new(false),
            account: Account::default(),
            handles: HandleIndex::default(),
        }
    }

    /// Advances the clock.
    pub(crate) fn tell(&self, now: Time) {
        let now = now.as_nanoseconds();
        // Most calls of one round of an event loop have the same time. The comparison saves them
        // the write to a word that all threads read.
        if now > self.now.load(Ordering::Relaxed) {
            self.now.fetch_max(now, Ordering::Relaxed);
        }
    }

    /// Returns the latest time that an event reported.
    pub(crate) fn now(&self) -> Time {
        Time::from_nanoseconds(self.now.load(Ordering::Relaxed))
    }

    /// Records that a wake-up is due at a time. Returns true if the owner has scheduled no wake-up
    /// until then.
    pub(crate) fn announce(&self, next: Time) -> bool {
        let next = next.as_nanoseconds();
        next < self.announced.load(Ordering::Relaxed)
            && next < self.announced.fetch_min(next, Ordering::Relaxed)
    }

    /// Records that the scheduled wake-up has begun. A step that ends from now on and finds its
    /// time too early announces the time itself, so no wake-up is lost while the shards are visited.
    pub(crate) fn is_waking(&self) {
        self.announced.store(NEVER, Ordering::Relaxed);
    }

    /// Returns true if another call may wait.
    pub(crate) fn may_wait(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) < WAITING_MAX
    }

    /// Counts the waiting calls of one part of the state, which had `counted` before this step.
    pub(crate) fn count_waiting(&self, counted: &mut usize, waiting: usize) {
        // A call that need not wait leaves both numbers equal and writes no shared word.
        if waiting > *counted {
            self.waiting.fetch_add(waiting - *counted, Ordering::Relaxed);
        } else if waiting < *counted {
            self.waiting.fetch_sub(*counted - waiting, Ordering::Relaxed);
        }
        *counted = waiting;
    }

    /// Returns the number of waiting calls and local programs.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Returns true during the grace period.
    pub(crate) fn is_recovering(&self) -> bool {
        self.recovering.load(Ordering::Acquire)
    }

    pub(crate) fn set_recovering(&self, is_recovering: bool) {
        self.recovering.store(is_recovering, Ordering::Release);
    }

    /// Returns true if clients of another protocol reclaim state, and no client of leases does.
    pub(crate) fn is_for_others(&self) -> bool {
        self.others_recovering.load(Ordering::Acquire) && !self.is_recovering()
    }

    pub(crate) fn set_others_recovering(&self, is_recovering: bool) {
        self.others_recovering.store(is_recovering, Ordering::Release);
    }

    /// Returns the reserved bytes of a file system.
    pub(crate) fn reserved(&self, file_system: FileSystemId) -> u64 {
        // Without this comparison every WRITE would acquire the mutex.
        if self.account.reserved.load(Ordering::Acquire) == 0 {
            return 0;
        }
        self.shares().reserved(file_system)
    }

    /// Returns the bytes that the leases of all shards have reserved.
    pub(crate) fn shares(&self) -> MutexGuard<'_, Shares> {
        self.account.lock()
    }

    /// Returns the access of one step of the lease table to the state of all shards.
    pub(crate) fn for_step(&self) -> ForStep<'_> {
        ForStep { account: &self.account, shares: None, charges: Vec::new() }
    }
}

/// The bytes that the leases of all shards have reserved.
#[derive(Default)]
struct Account {
    shares: Mutex<Shares>,
    /// The reserved bytes of all file systems together.
    reserved: AtomicU64,
}

impl Account {
    fn lock(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().expect("a core that panicked is not used again")
    }
}

/// The access of one step of a shard to the state of all shards. The step acquires the mutex at its
/// first use and keeps it until its end, so that no other step reserves the same bytes.
pub(crate) struct ForStep<'a> {
    account: &'a Account,
    shares: Option<MutexGuard<'a, Shares>>,
    /// The charges that the step has recorded, for the other shards.
    pub(crate) charges: Vec<Charge>,
}

impl Shared for ForStep<'_> {
    fn shares(&mut self) -> &mut Shares {
        self.shares.get_or_insert_with(|| self.account.lock())
    }

    fn charged(&mut self, charge: Charge) {
        self.charges.push(charge);
    }
}

impl Drop for ForStep<'_> {
    fn drop(&mut self) {
        if let Some(shares) = &self.shares {
            self.account.reserved.store(shares.reserved_of_all(), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanoseconds: u64) -> Time {
        Time::from_nanoseconds(nanoseconds)
    }

    #[test]
    fn only_an_earlier_wake_up_is_announced() {
        let common = Common::new(Time::ZERO, false);
        assert!(common.announce(at(50)));
        assert!(!common.announce(at(50)));
        assert!(!common.announce(at(60)));
        assert!(common.announce(at(40)));
        common.is_waking();
        assert!(common.announce(at(60)));
    }

    #[test]
    fn waiting_calls_of_all_parts_are_bounded() {
        let common = Common::new(Time::ZERO, false);
        let (mut one, mut other) = (0, 0);
        common.count_waiting(&mut one, WAITING_MAX - 1);
        assert!(common.may_wait());
        common.count_waiting(&mut other, 1);
        assert!(!common.may_wait());
        common.count_waiting(&mut one, 0);
        assert_eq!((common.waiting(), common.may_wait()), (1, true));
    }
}
