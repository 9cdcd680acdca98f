//! Disk space that the server reserves for holders of write leases.
//!
//! A holder reserves more space than it needs, and the reservation lasts as long as the lease. If a
//! writer lacks space, the server first recalls write leases on other objects: their holders write
//! the data that they have cached, and the rest of the reserved space becomes free.
//!
//! One call at a time reclaims space on a file system, so one search through the leases serves all
//! calls that lack space. The wait for each recall is bounded.

use core::future::poll_fn;
use core::task::Poll;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_channel::oneshot;
use leasehold_base::units::FileSystemId;
use leasehold_core::leases::{Client, Object};

use super::Leases;
use super::operation_guard::OperationGuard;

/// The number of bytes that a reclaim recalls in excess of the lacking bytes, so that the next
/// writer need not reclaim. It is also the maximum number of bytes that the server reclaims for one
/// lease request.
pub(super) const ROOM_AHEAD: u64 = 16 << 20;

/// The maximum number of objects whose leases one reclaim recalls.
const CALLED_BACK_MAX: usize = 256;

/// The maximum number of reclaims by one call. One reclaim may not suffice, because another call
/// may reserve the freed space first.
pub(super) const ROUNDS_MAX: usize = 4;

/// The reserved bytes on an object's file system.
pub(super) struct Reserved {
    /// The bytes that the client itself has reserved on that object.
    pub(super) own: u64,
    /// The bytes that all clients have reserved on other objects. Other clients' reservations on
    /// that object do not count, because their leases end before the client's operation.
    pub(super) elsewhere: u64,
}

/// The clients whose leases the server recalls for space.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whose {
    /// All clients.
    Anybodys,
    /// The clients of the same origin as this client, which has used its whole share. The server
    /// recalls no leases of other origins in this case.
    Of(Client),
}

/// The space that a lease request lacks.
pub(super) struct Lacking {
    pub(super) bytes: u64,
    /// The clients whose leases have reserved the lacking bytes.
    pub(super) whose: Whose,
    /// True if the disk has enough free bytes and only the client's share is too small.
    pub(super) is_of_share: bool,
}

/// The file systems on which a call reclaims reserved space, each with the other calls that wait for
/// the end of that reclaim.
#[derive(Default)]
pub(super) struct Reclaims(Mutex<BTreeMap<FileSystemId, Vec<oneshot::Sender<()>>>>);

impl Reclaims {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<FileSystemId, Vec<oneshot::Sender<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The call that reclaims space on a file system, until this value is dropped.
struct Maker {
    leases: Arc<Leases>,
    file_system: FileSystemId,
}

impl Drop for Maker {
    fn drop(&mut self) {
        // The drop of the senders wakes the waiting calls. The mutex is released before the drop,
        // because a woken call may acquire the mutex.
        let waiting = self.leases.reclaims.lock().remove(&self.file_system);
        drop(waiting);
    }
}

impl Leases {
    /// Reports the free bytes of a file system to the lease table.
    pub(super) fn has_space(&self, file_system: FileSystemId, bytes: u64) {
        self.common.shares().has_free(file_system, bytes);
    }

    /// Returns the reserved bytes on an object's file system.
    pub(super) fn reserved(&self, object: Object, client: Option<Client>) -> Reserved {
        let shard = self.shard(object);
        let (mut own, mut here) = (0_u64, 0_u64);
        for lease in shard.table.leases(object) {
            here = here.saturating_add(lease.space);
            if Some(lease.client) == client {
                own = own.saturating_add(lease.space);
            }
        }
        let all = self.common.reserved(object.file_system);
        Reserved { own, elsewhere: all.saturating_sub(here) }
    }

    /// Returns the space that a request for `bytes` lacks on a file system with `free` bytes. For a
    /// request of a whole disk the result is bounded by the maximum space of one lease.
    pub(super) fn lacking(
        &self,
        object: Object,
        client: Client,
        (bytes, free): (u64, u64),
        reserved: &Reserved,
    ) -> Lacking {
        let has = self.shard(object).lease_of(object, client).map_or(0, |lease| lease.space);
        let share = self.common.shares().share(object.file_system, client, has);
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

    /// Recalls reservations on other objects of the file system until `bytes` more are free, or
    /// waits for the end of another call's reclaim. Returns true if there may be more free space
    /// now. A lease that its holder does not return in time keeps its reserved space.
    pub(super) async fn make_room(
        self: &Arc<Self>,
        object: Object,
        bytes: u64,
        whose: Whose,
    ) -> bool {
        let file_system = object.file_system;
        let waits = match self.reclaims.lock().entry(file_system) {
            Entry::Vacant(place) => {
                place.insert(Vec::new());
                None
            }
            Entry::Occupied(mut waiting) => {
                let (sender, receiver) = oneshot::channel();
                waiting.get_mut().push(sender);
                Some(receiver)
            }
        };
        if let Some(waits) = waits {
            let _ = waits.await;
            return true;
        }
        let _maker = Maker { leases: Arc::clone(self), file_system };
        let mut turns: Vec<_> = self
            .longest_unwritten(object, bytes.saturating_add(ROOM_AHEAD), whose)
            .into_iter()
            .filter_map(|other| OperationGuard::of_nobody(self, other).ok())
            .collect();
        let mut has_made = false;
        poll_fn(|context| {
            // Each guard ends as soon as it begins: the recall is complete then, and the guard need
            // not delay other operations on its object during the other recalls.
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

    /// Returns objects other than `but` whose leases together reserve the given bytes, least
    /// recently written first. Omits objects whose leases the server is already recalling.
    fn longest_unwritten(&self, but: Object, bytes: u64, whose: Whose) -> Vec<Object> {
        // The top of the heap is the most recently written object, so `pop` removes it and the heap
        // keeps the least recently written objects of all shards.
        let mut longest = BinaryHeap::with_capacity(CALLED_BACK_MAX + 1);
        for shard in self.shards() {
            let is_meant = |client| match whose {
                Whose::Anybodys => true,
                Whose::Of(one) => shard.table.share_room(one, client),
            };
            let reserved = shard
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
            for one in reserved {
                longest.push(one);
                if longest.len() > CALLED_BACK_MAX {
                    longest.pop();
                }
            }
        }
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
