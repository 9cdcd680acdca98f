//! Room on a disk that is reserved for holders of write leases.
//!
//! They reserve more than they need, and keep it for as long as they keep their leases. So when a
//! writer finds too little, leases on other objects are called back first: who still has something
//! to write there brings it, and the rest is free.
//!
//! One call makes room on a file system at a time, so that the leases are looked through once for
//! all that lack some. What is called back comes within a while, or is not waited for.

use core::future::poll_fn;
use core::task::Poll;
use std::collections::BinaryHeap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use futures_channel::oneshot;
use leasehold_base::units::{FileSystemId, Time};
use leasehold_core::leases::table;
use leasehold_core::leases::{Client, Object};

use super::Leases;
use super::turn::Turn;

/// How much more than is needed is called back, so that the next writer need not ask, and the most
/// that is called back for one lease.
pub(super) const ROOM_AHEAD: u64 = 16 << 20;

/// How many leases are called back at once.
const CALLED_BACK_MAX: usize = 256;

/// How often one call has room made: what comes free may be reserved anew before it has its turn.
pub(super) const ROUNDS_MAX: usize = 4;

/// What is reserved where an object lies.
pub(super) struct Reserved {
    /// For a client on that object.
    pub(super) own: u64,
    /// On other objects. Whoever else has reserved on that object lets the client go first.
    pub(super) elsewhere: u64,
}

/// The clients whose leases the server calls back for room.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whose {
    /// The leases of all clients.
    Anybodys,
    /// The leases of the origin of one client, which has its whole share: clients of other origins
    /// give no lease up for it.
    Of(Client),
}

/// Room that an ask for a lease lacks.
pub(super) struct Lacking {
    pub(super) bytes: u64,
    /// The leases that have reserved the lacking bytes.
    pub(super) whose: Whose,
    /// True if the disk has the bytes and only a share of the disk lacks them.
    pub(super) is_of_share: bool,
}

/// Who makes room on a file system, until this is dropped.
struct Maker {
    leases: Arc<Leases>,
    file_system: FileSystemId,
}

impl Drop for Maker {
    fn drop(&mut self) {
        // Whoever waits is woken by the end of it.
        let waiting = self.leases.lock().making_room.remove(&self.file_system);
        drop(waiting);
    }
}

impl Leases {
    /// So many bytes are free on a file system.
    pub(super) fn has_space(self: &Arc<Self>, file_system: FileSystemId, bytes: u64) {
        let event = table::Event::Space(file_system, bytes);
        self.with(Time::ZERO, |state, outs| state.step(event, outs));
    }

    /// How many bytes are reserved where this object lies.
    pub(super) fn reserved(&self, object: Object, client: Option<Client>) -> Reserved {
        let state = self.lock();
        let leases = state.table.leases(object).iter();
        let (mut own, mut here) = (0_u64, 0_u64);
        for lease in leases {
            here = here.saturating_add(lease.space);
            if Some(lease.client) == client {
                own = own.saturating_add(lease.space);
            }
        }
        let all = state.table.reserved_bytes(object.file_system);
        Reserved { own, elsewhere: all.saturating_sub(here) }
    }

    /// The room that an ask for so many bytes lacks on a file system with so many free bytes. An
    /// ask for a whole disk lacks no more than one lease may have.
    pub(super) fn lacking(
        &self,
        object: Object,
        client: Client,
        (bytes, free): (u64, u64),
        reserved: &Reserved,
    ) -> Lacking {
        let share = self.lock().table.share(object, client);
        let wanted = bytes.min(ROOM_AHEAD).min(share.of_lease);
        let of_disk = reserved.elsewhere.saturating_add(wanted).saturating_sub(free);
        let of_share = wanted.saturating_sub(share.least());
        let whose = if of_disk == 0 && share.of_origin < wanted {
            Whose::Of(client)
        } else {
            Whose::Anybodys
        };
        Lacking { bytes: of_disk.max(of_share), whose, is_of_share: of_disk == 0 }
    }

    /// Calls back what is reserved on other objects of its file system until so many bytes more are
    /// left over, or waits for another call that does. Says whether there may be more room now:
    /// whose lease does not come back in a while keeps it.
    pub(super) async fn make_room(
        self: &Arc<Self>,
        object: Object,
        bytes: u64,
        whose: Whose,
    ) -> bool {
        let file_system = object.file_system;
        let waits = self.with(Time::ZERO, |state, _| match state.making_room.entry(file_system) {
            Entry::Vacant(place) => {
                place.insert(Vec::new());
                None
            }
            Entry::Occupied(mut waiting) => {
                let (sender, receiver) = oneshot::channel();
                waiting.get_mut().push(sender);
                Some(receiver)
            }
        });
        if let Some(waits) = waits {
            let _ = waits.await;
            return true;
        }
        let _maker = Maker { leases: Arc::clone(self), file_system };
        let mut turns: Vec<_> = self
            .longest_unwritten(object, bytes.saturating_add(ROOM_AHEAD), whose)
            .into_iter()
            .filter_map(|other| Turn::of_nobody(self, other).ok())
            .collect();
        let mut has_made = false;
        poll_fn(|context| {
            // Each turn ends when it has begun: its object is not kept while others are waited for.
            turns.retain_mut(|turn| match turn.poll_begin(context) {
                Poll::Ready(begun) => {
                    has_made |= begun.is_ok();
                    false
                }
                Poll::Pending => true,
            });
            if turns.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        has_made
    }

    /// Objects for which so many bytes are reserved, those first that were not written for longest,
    /// and none that is called back already.
    fn longest_unwritten(&self, but: Object, bytes: u64, whose: Whose) -> Vec<Object> {
        let state = self.lock();
        let is_meant = |client| match whose {
            Whose::Anybodys => true,
            Whose::Of(one) => state.table.share_room(one, client),
        };
        let reserved = state
            .table
            .iter()
            .filter(|(object, ..)| *object != but && object.file_system == but.file_system)
            .filter(|(_, leases, _)| !leases.iter().any(|lease| lease.evicted))
            .filter(|(_, leases, _)| leases.iter().all(|lease| is_meant(lease.client)))
            .filter_map(|(object, leases, _)| {
                let space: u64 = leases.iter().map(|lease| lease.space).sum();
                let last_write = leases.iter().map(|lease| lease.last_write).max()?;
                (space > 0).then_some((last_write, object, space))
            });
        // With the one on top that was written last.
        let mut longest = BinaryHeap::with_capacity(CALLED_BACK_MAX + 1);
        for one in reserved {
            longest.push(one);
            if longest.len() > CALLED_BACK_MAX {
                longest.pop();
            }
        }
        drop(state);
        let mut found = 0_u64;
        longest
            .into_sorted_vec()
            .into_iter()
            .take_while(|(.., space)| {
                let wanted = found < bytes;
                found = found.saturating_add(*space);
                wanted
            })
            .map(|(_, object, _)| object)
            .collect()
    }
}
