//! How many changes of names other homes are asked for at one time.
//!
//! A change may wait for minutes at its home, where clients hold leases. All that while it keeps a
//! place of the only connection to that home, which answers 128 calls at one time and reads no further
//! one: not that it is asked again, nor whether it is there, nor what is released to it. It keeps one of
//! its client's connection, too, or of a socket of all who come by datagrams.

use core::pin::pin;
use std::sync::{Mutex, PoisonError};

use futures_util::future::{Either, select};
use leasehold_base::units::FileId;
use leasehold_core::replica::Peer;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::node::Node;
use crate::{Metaserver, PATIENCE};

/// Changes that one other home is asked for at one time: a fourth of the calls that it answers, and half
/// of those that a session sends.
pub(crate) const SLOTS: u64 = 32;

/// Those that all other homes are asked for: half of the calls that a client's connection, and so any
/// socket, may have waiting.
const ALL_MAX: usize = 64;

/// What is free.
pub(crate) struct Placing {
    homes: Vec<Home>,
    all: Semaphore,
}

struct Home {
    /// The slots that are free: as many as there are permits, or more for a moment.
    free: Mutex<Vec<u64>>,
    permits: Semaphore,
}

/// Leave to ask a home for a change.
pub(crate) struct Placed<'a> {
    /// The change's number.
    pub(crate) number: u64,
    _slot: Option<Slot<'a>>,
}

struct Slot<'a> {
    home: &'a Home,
    slot: u64,
    // They go when the slot is free.
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
        // Who waits for one home keeps nobody from another.
        let one = home.permits.acquire().await.ok()?;
        let all = self.all.acquire().await.ok()?;
        let slot = home.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        Some(Slot { home, slot, _permits: [one, all] })
    }
}

impl Metaserver {
    /// Waits until the home of an object may be asked for a change of its names; none where that takes
    /// longer than a client waits. What has its home here takes no place of any connection to it.
    pub(crate) async fn may_place(&self, object: FileId) -> Option<Placed<'_>> {
        let home = self.with(|node| node.homes.of(object).filter(|home| *home != node.me()));
        let Some(home) = home else {
            return Some(Placed { number: self.with(Node::number), _slot: None });
        };
        let slot = pin!(self.shared.placing.slot(home));
        match select(slot, self.shared.outside.sleep(PATIENCE)).await {
            Either::Left((slot, _)) => {
                let slot = slot?;
                let number = self.with(|node| node.number_in(slot.slot));
                Some(Placed { number, _slot: Some(slot) })
            }
            Either::Right(_) => None,
        }
    }
}
