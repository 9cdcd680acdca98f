//! Room on a disk that is reserved for holders of write leases.
//!
//! They reserve more than they need, and keep it for as long as they keep their leases. So when a
//! writer finds too little, leases on other objects are called back first: who still has something
//! to write there brings it, and the rest is free.

use std::sync::Arc;

use leasehold_base::units::Time;
use leasehold_core::leases::table;
use leasehold_core::leases::{Client, Object};

use super::Leases;
use super::turn::Turn;

/// How much more than is needed is called back, so that the next writer need not ask.
const ROOM_AHEAD: u64 = 16 << 20;

/// How many leases are called back at once.
const CALLED_BACK_MAX: usize = 256;

impl Leases {
    /// So many bytes are free.
    pub(crate) fn has_space(self: &Arc<Self>, bytes: u64) {
        self.with(Time::ZERO, |state, outs| state.step(table::Event::Space(bytes), outs));
    }

    /// How many bytes are reserved, but for those for this client on this object.
    pub(crate) fn reserved_for_others(&self, object: Object, client: Option<Client>) -> u64 {
        let state = self.lock();
        let leases = state.table.leases(object).iter();
        let own = leases.filter(|lease| Some(lease.client) == client).map(|lease| lease.space);
        state.table.reserved_bytes().saturating_sub(own.sum())
    }

    /// Calls back what is reserved on other objects until so many bytes more are left over; whose
    /// lease does not come back in a while keeps it.
    pub(crate) async fn make_room(self: &Arc<Self>, object: Object, bytes: u64) {
        let turns: Vec<_> = self
            .longest_unwritten(object, bytes.saturating_add(ROOM_AHEAD))
            .into_iter()
            .filter_map(|other| Turn::of_nobody(self, other).ok())
            .collect();
        for mut turn in turns {
            let _ = turn.begin().await;
        }
    }

    /// Objects for which so many bytes are reserved, those first that were not written for longest.
    fn longest_unwritten(&self, but: Object, bytes: u64) -> Vec<Object> {
        let state = self.lock();
        let mut reserved: Vec<_> = state
            .table
            .iter()
            .filter(|(object, ..)| *object != but)
            .filter_map(|(object, leases, _)| {
                let space: u64 = leases.iter().map(|lease| lease.space).sum();
                let last_write = leases.iter().map(|lease| lease.last_write).max()?;
                (space > 0).then_some((last_write, object, space))
            })
            .collect();
        drop(state);
        reserved.sort_unstable_by_key(|(last_write, object, _)| (*last_write, *object));
        let mut found = 0_u64;
        reserved
            .into_iter()
            .take(CALLED_BACK_MAX)
            .take_while(|(.., space)| {
                let wanted = found < bytes;
                found = found.saturating_add(*space);
                wanted
            })
            .map(|(_, object, _)| object)
            .collect()
    }
}
