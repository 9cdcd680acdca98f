//! The layouts for writing: files that clients write directly at the iods, with the leases of the
//! layouts.
//!
//! No other client accesses such a file before the store has ended its layout, even after the
//! holder has gone: WRITEs of the holder may still be in transit to the iods.

use leasehold_core::leases::{Client, Kind, Modrev, Object, Serial};
use leasehold_fs::{ExportId, ObjectId};

use super::Leases;
use crate::shard::{SHARDS, Shard};

/// The maximum number of layouts for writing of one shard; all shards together have 2^16.
const LAYOUTS_MAX: usize = (1 << 16) / SHARDS;

/// The maximum number of layouts that one search for a layout with an ended lease visits.
const LOOKED_AT_MAX: usize = 64;

/// A client's layout for writing a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaidOut {
    pub(super) client: Client,
    /// The lease of the layout.
    pub(super) serial: Serial,
    /// The export and the object id of the file.
    pub(super) export: ExportId,
    pub(super) id: ObjectId,
}

/// The step that must precede a new layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// No step.
    Now,
    /// Ending the layout of another file, whose lease has ended.
    After(Object, LaidOut),
    /// A new layout is impossible, because there are too many layouts whose leases still exist.
    Never,
}

impl Leases {
    /// Records that a client writes a file directly under the lease that it holds; `modrev` is the
    /// file's current modrev.
    pub(super) fn lay_out(&self, object: Object, laid_out: LaidOut, modrev: Modrev) -> Begun {
        let mut shard = self.shard(object);
        if shard.layouts.len() >= LAYOUTS_MAX && !shard.layouts.contains_key(&object) {
            let over = shard.layouts.iter().take(LOOKED_AT_MAX).find(|(object, (other, _))| {
                other.export == laid_out.export && !shard.goes_on(**object, other)
            });
            return over.map_or(Begun::Never, |(object, (over, _))| Begun::After(*object, *over));
        }
        let told = shard.layouts.get(&object).filter(|(told, _)| *told == laid_out);
        let since = told.map_or(modrev, |(_, since)| *since);
        shard.layouts.insert(object, (laid_out, since));
        Begun::Now
    }

    /// Returns the layout for writing of a file, if one exists.
    pub(super) fn laid_out(&self, object: Object) -> Option<LaidOut> {
        self.shard(object).layouts.get(&object).map(|(laid_out, _)| *laid_out)
    }

    /// Returns the modrev of a file at the start of this layout.
    pub(super) fn laid_out_since(&self, object: Object, laid_out: &LaidOut) -> Option<Modrev> {
        let shard = self.shard(object);
        let told = shard.layouts.get(&object).filter(|(told, _)| told == laid_out);
        told.map(|(_, since)| *since)
    }

    /// Returns the layout under which a client writes a file, if the lease of that layout has
    /// ended. The caller must end the layout.
    pub(super) fn to_be_recalled(&self, object: Object) -> Option<LaidOut> {
        let shard = self.shard(object);
        let told = shard.layouts.get(&object).map(|(laid_out, _)| *laid_out);
        told.filter(|laid_out| !shard.goes_on(object, laid_out))
    }

    /// Removes an ended layout, unless another one has replaced it.
    pub(super) fn recalled(&self, object: Object, laid_out: &LaidOut) {
        let mut shard = self.shard(object);
        if shard.layouts.get(&object).is_some_and(|(told, _)| told == laid_out) {
            shard.layouts.remove(&object);
        }
    }

    /// Returns a client's lease on an object if the lease is of this kind and the client may cache.
    pub(super) fn cachable(&self, object: Object, client: Client, kind: Kind) -> Option<Serial> {
        let shard = self.shard(object);
        let leases = shard.table.leases(object).iter();
        let mut own = leases.filter(|lease| lease.client == client && lease.cachable);
        own.find(|lease| lease.kind == kind).map(|lease| lease.serial)
    }

    /// Returns true if no other caller has changed an object since a client cached the object under
    /// the lease `since`.
    pub(super) fn is_own_change(
        &self,
        object: Object,
        client: Client,
        since: Option<Serial>,
    ) -> bool {
        self.shard(object).table.is_own_change(object, client, since)
    }
}

impl Shard {
    /// Returns true if the lease of a layout still exists.
    fn goes_on(&self, object: Object, laid_out: &LaidOut) -> bool {
        self.table.leases(object).iter().any(|lease| {
            let is_same = lease.client == laid_out.client && lease.serial == laid_out.serial;
            is_same && lease.cachable && lease.kind == Kind::Write
        })
    }
}
