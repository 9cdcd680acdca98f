//! Limits on concurrent requests to other homes for changes of names.
//!
//! A change may wait for minutes at its home while clients hold leases. For that time it occupies a
//! slot of the only connection to that home. A home runs at most 128 calls of a connection at one
//! time and reads no further call, so without a limit neither retries, nor health checks, nor
//! released writes would get through. The change also occupies a slot of its client's connection,
//! or of the socket that all UDP clients share.

use core::pin::pin;
use std::sync::{Mutex, PoisonError};

use futures_util::future::{Either, select};
use leasehold_base::limits::durations::JUKEBOX_AFTER;
use leasehold_base::units::FileId;
use leasehold_core::replica::Peer;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::Metaserver;
use crate::node::Node;

/// The number of changes that one other home is asked for at one time: a fourth of the calls that a
/// home runs at once, and half of the calls that a session sends at once.
pub(crate) const SLOTS: u64 = 32;

/// The number of changes that all other homes together are asked for: half of the waiting calls
/// that a client's connection, and so any socket, may have.
const ALL_MAX: usize = 64;

/// The free slots.
pub(crate) struct Placing {
    homes: Vec<Home>,
    all: Semaphore,
}

struct Home {
    /// The free slots: as many as there are permits, or temporarily more.
    free: Mutex<Vec<u64>>,
    permits: Semaphore,
}

/// The permission to ask a home for a change.
pub(crate) struct Placed<'a> {
    /// The number of the change.
    pub(crate) number: u64,
    _slot: Option<Slot<'a>>,
}

struct Slot<'a> {
    home: &'a Home,
    slot: u64,
    // The permits are released after the slot is free.
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
        // A request takes the permit of its home first, so waiting for one home does not block
        // others.
        let one = home.permits.acquire().await.ok()?;
        let all = self.all.acquire().await.ok()?;
        let slot = home.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(Slot { home, slot, _permits: [one, all] })
    }
}

impl Metaserver {
    /// Waits until the home of an object may be asked for a change of its names. `None` if that
    /// takes longer than a client waits. An object of this home needs no slot.
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
