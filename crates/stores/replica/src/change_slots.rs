//! A limit on the number of concurrent requests for changes of names at other homes.
//!
//! A change may wait for minutes at its home until clients return their leases. There is one
//! connection to each home, and a home runs at most 128 calls of a connection at the same time and
//! reads no further call. So without a limit, waiting changes would block retries, health checks
//! and written data. A waiting change also counts toward the limit of calls of its client's
//! connection, or of the socket that all UDP clients share.

use core::pin::pin;
use std::sync::{Mutex, PoisonError};

use futures_util::future::{Either, select};
use leasehold_base::limits::durations::JUKEBOX_AFTER;
use leasehold_base::units::FileId;
use leasehold_core::replica::Peer;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::Metaserver;
use crate::node::Node;

/// The maximum number of concurrent changes at one other home: a fourth of the calls that a home
/// runs at once, and half of the calls that a session sends at once.
pub(crate) const SLOTS: u64 = 32;

/// The maximum number of concurrent changes at all other homes together: half of the waiting calls
/// that the connection of a client, or a UDP socket, may have.
const ALL_MAX: usize = 64;

/// The free slots of all homes.
pub(crate) struct Placing {
    homes: Vec<Home>,
    all: Semaphore,
}

struct Home {
    /// The numbers of the free slots. There are at least as many free slots as permits, because a
    /// slot becomes free before its permits.
    free: Mutex<Vec<u64>>,
    permits: Semaphore,
}

/// The permission to send a change to a home, which occupies a slot until this value is dropped.
pub(crate) struct Placed<'a> {
    /// The number of the change.
    pub(crate) number: u64,
    _slot: Option<Slot<'a>>,
}

struct Slot<'a> {
    home: &'a Home,
    slot: u64,
    // The permits are dropped after `Drop::drop` has returned the slot.
    _permits: [SemaphorePermit<'a>; 2],
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.home.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.slot);
    }
}

impl Placing {
    pub(crate) fn new(count: u32) -> Self {
        let home = |_| {
            let permits = Semaphore::new(usize::try_from(SLOTS).expect("they are few"));
            Home { free: Mutex::new((0..SLOTS).collect()), permits }
        };
        Self { homes: (0..count).map(home).collect(), all: Semaphore::new(ALL_MAX) }
    }

    /// Waits for a slot of a home.
    async fn slot(&self, peer: Peer) -> Option<Slot<'_>> {
        let home = self.homes.get(usize::try_from(peer.0).ok()?)?;
        // Take the permit of the home first. A request that waits for one home then holds no common
        // permit, and does not block requests to other homes.
        let one = home.permits.acquire().await.ok()?;
        let all = self.all.acquire().await.ok()?;
        let slot = home.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(Slot { home, slot, _permits: [one, all] })
    }
}

impl Metaserver {
    /// Waits for a slot to change the names of an object at its home. Returns `None` if no slot is
    /// free before the timeout of a client. A change of an object of this home needs no slot.
    pub(crate) async fn may_place(&self, object: FileId) -> Option<Placed<'_>> {
        let home = self.with(|node| node.homes.of(object).filter(|home| *home != node.me()));
        let Some(home) = home else {
            return Some(Placed { number: self.with(Node::number), _slot: None });
        };
        let slot = pin!(self.shared.placing.slot(home));
        match select(slot, self.shared.outside.sleep(JUKEBOX_AFTER)).await {
            Either::Left((slot, _)) => {
                let slot = slot?;
                let number = self.with(|node| node.number_in(slot.slot));
                Some(Placed { number, _slot: Some(slot) })
            }
            Either::Right(_) => None,
        }
    }
}
