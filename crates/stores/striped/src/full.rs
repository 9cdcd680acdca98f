//! Iods whose disks are full.
//!
//! Rules:
//! 1. An iod that refuses a change for lack of room counts as full until it reports that a part of
//!    its room is free again. The threshold keeps an iod from switching to and fro with each file.
//! 2. New files use the other iods, as long as these can hold all copies.
//! 3. A copy that lacks data because its iod had no room counts as a copy on a failed iod, provided
//!    that two iods of the file's layout policy have room and are not away; the file then moves to
//!    these two iods. `copies` has the rules of copies.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use futures_util::future::join_all;
use leasehold_fs::{FsError, Space};

use crate::Striped;
use crate::iod::Room;
use crate::layout_policy::LayoutPolicy;

/// The divisor of an iod's room that gives the free room at which the iod is not full any more.
const FREE_PART: u64 = 20;

/// Returns true if an iod refused a change because the iod has no room for the change.
pub(crate) fn lacks_space(error: FsError) -> bool {
    matches!(error, FsError::NoSpace | FsError::QuotaExceeded)
}

/// The numbers of the iods that are full.
#[derive(Debug, Default)]
pub(crate) struct Full(Mutex<BTreeSet<u16>>);

impl Full {
    fn state<T>(&self, look: impl FnOnce(&mut BTreeSet<u16>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records the error of a change at an iod.
    pub(crate) fn heard(&self, iod: u16, error: FsError) {
        if lacks_space(error) {
            self.state(|full| full.insert(iod));
        }
    }

    /// Returns the numbers of all full iods.
    pub(crate) fn all(&self) -> BTreeSet<u16> {
        self.state(|full| full.clone())
    }

    fn has_room(&self, iod: u16) {
        self.state(|full| full.remove(&iod));
    }
}

impl Striped {
    /// Returns the iods that count as full.
    #[must_use]
    pub fn full_iods(&self) -> BTreeSet<u16> {
        self.full.all()
    }

    /// Returns true if enough iods for so many copies are reachable and have room, among the iods
    /// that the file may use.
    pub(crate) fn others_have_room(&self, shape: &LayoutPolicy, copies: u16) -> bool {
        let full = self.full.all();
        let has_room = |iod: &&u16| !full.contains(*iod) && !self.iod(**iod).is_away();
        let candidates = shape.candidates(&self.options);
        candidates.iter().filter(has_room).count() >= usize::from(copies)
    }

    /// Returns true if a file of `size` bytes needs a full iod that reports less free room than
    /// `size`. A full iod that does not report its room counts as an iod without room.
    pub(crate) async fn lacks_room(&self, shape: &LayoutPolicy, size: u64) -> bool {
        let full = self.full.all();
        if !shape.needs_full(&self.options, &full) {
            return false;
        }
        let candidates = shape.candidates(&self.options);
        let asked = full.iter().filter(|iod| candidates.contains(iod));
        let asked = asked.map(async |&iod| {
            let told =
                if self.iod(iod).is_away() { None } else { self.iod(iod).space().await.ok() };
            told.is_none_or(|room| room.space.available_bytes < size)
        });
        join_all(asked).await.contains(&true)
    }

    /// Queries full iods for their room. Returns true if one of these iods has room again.
    pub(crate) async fn look_for_room(&self) -> bool {
        let full = self.full.all();
        let asked = full.iter().filter(|&&iod| !self.iod(iod).is_away());
        let asked = asked.map(async |&iod| {
            let told = self.iod(iod).space().await;
            let Ok(Room { space: Space { bytes, available_bytes, .. }, .. }) = told else {
                return false;
            };
            let has_room = available_bytes.saturating_mul(FREE_PART) >= bytes;
            if has_room {
                self.full.has_room(iod);
            }
            has_room
        });
        join_all(asked).await.contains(&true)
    }
}
