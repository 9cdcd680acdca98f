//! Iods whose disks are full.
//!
//! Rules:
//! 1. An iod that refuses a change for lack of space counts as full until it reports at least 1/20
//!    of its space ([`FREE_PART`]) as free. The threshold prevents that the state changes with each
//!    file.
//! 2. New files use the other iods, as long as these are enough for all copies.
//! 3. If a full iod refuses a change of one copy, the copy becomes out of date, provided that two
//!    iods of the file's layout policy are reachable and not full; the file then migrates to them.
//!    See rule 4 of the module `copies`.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use futures_util::future::join_all;
use leasehold_fs::{FsError, Space};

use crate::Striped;
use crate::iod::Room;
use crate::layout_policy::LayoutPolicy;

/// An iod is no longer full when its free space is at least its total space divided by this number.
const FREE_PART: u64 = 20;

/// Returns true if the error means that the iod has no space for a change.
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

    /// Returns true if, among the iods that the file may use, at least `copies` iods are reachable
    /// and not full.
    pub(crate) fn others_have_room(&self, shape: &LayoutPolicy, copies: u16) -> bool {
        let full = self.full.all();
        let has_room = |iod: &&u16| !full.contains(*iod) && !self.iod(**iod).is_away();
        let candidates = shape.candidates(&self.options);
        candidates.iter().filter(has_room).count() >= usize::from(copies)
    }

    /// Returns true if a file of `size` bytes must use full iods, and one of them reports less free
    /// space than `size`. A full iod that does not report its free space counts as an iod without
    /// free space.
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

    /// Queries the free space of the full iods. Returns true if one of them is no longer full.
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
