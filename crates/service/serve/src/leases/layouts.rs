//! Which files clients write where their data lies, and under which leases.
//!
//! Nobody else uses such a file before the store has ended its layout, also when its client has
//! gone: what that sent may still be on its way.

use leasehold_core::leases::{Client, Kind, Modrev, Object, Serial};
use leasehold_fs::{ExportId, ObjectId};

use super::{Leases, State};

/// How many files are written so at most.
const LAYOUTS_MAX: usize = 1 << 16;

/// How many of them are looked at for one that is not any more.
const LOOKED_AT_MAX: usize = 64;

/// Who writes a file where its data lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaidOut {
    pub(super) client: Client,
    /// The lease that it goes with.
    pub(super) serial: Serial,
    /// As its store knows the file.
    pub(super) export: ExportId,
    pub(super) id: ObjectId,
}

/// What is to be done before a client can be told where to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// Nothing.
    Now,
    /// To end the layout of another file, whose lease is over.
    After(Object, LaidOut),
    /// It cannot: too many are.
    Never,
}

impl Leases {
    /// Takes note that a client writes a file, which has this modrev, where its data lies, under the
    /// lease that it holds.
    pub(super) fn lay_out(&self, object: Object, laid_out: LaidOut, modrev: Modrev) -> Begun {
        let mut state = self.lock();
        if state.layouts.len() >= LAYOUTS_MAX && !state.layouts.contains_key(&object) {
            let over = state.layouts.iter().take(LOOKED_AT_MAX).find(|(object, (other, _))| {
                other.export == laid_out.export && !state.goes_on(**object, other)
            });
            return over.map_or(Begun::Never, |(object, (over, _))| Begun::After(*object, *over));
        }
        let told = state.layouts.get(&object).filter(|(told, _)| *told == laid_out);
        let since = told.map_or(modrev, |(_, since)| *since);
        state.layouts.insert(object, (laid_out, since));
        Begun::Now
    }

    /// Who writes a file where its data lies, if anybody does.
    pub(super) fn laid_out(&self, object: Object) -> Option<LaidOut> {
        self.lock().layouts.get(&object).map(|(laid_out, _)| *laid_out)
    }

    /// The modrev that a file had when this was told of it first.
    pub(super) fn laid_out_since(&self, object: Object, laid_out: &LaidOut) -> Option<Modrev> {
        let state = self.lock();
        let told = state.layouts.get(&object).filter(|(told, _)| told == laid_out);
        told.map(|(_, since)| *since)
    }

    /// Who wrote a file where its data lies under a lease that is over.
    pub(super) fn to_be_recalled(&self, object: Object) -> Option<LaidOut> {
        let state = self.lock();
        let told = state.layouts.get(&object).map(|(laid_out, _)| *laid_out);
        told.filter(|laid_out| !state.goes_on(object, laid_out))
    }

    /// A file is not written so any more; another may write it by now.
    pub(super) fn recalled(&self, object: Object, laid_out: &LaidOut) {
        let mut state = self.lock();
        if state.layouts.get(&object).is_some_and(|(told, _)| told == laid_out) {
            state.layouts.remove(&object);
        }
    }

    /// The lease of a client on an object, if that is of a kind and may be cached.
    pub(super) fn cachable(&self, object: Object, client: Client, kind: Kind) -> Option<Serial> {
        let state = self.lock();
        let leases = state.table.leases(object).iter();
        let mut own = leases.filter(|lease| lease.client == client && lease.cachable);
        own.find(|lease| lease.kind == kind).map(|lease| lease.serial)
    }

    /// True if no other caller changed an object since a client cached the object under this lease.
    pub(super) fn is_own_change(
        &self,
        object: Object,
        client: Client,
        since: Option<Serial>,
    ) -> bool {
        self.lock().table.is_own_change(object, client, since)
    }
}

impl State {
    /// A file is no more.
    pub(super) fn forget_layout(&mut self, object: Object) {
        self.layouts.remove(&object);
    }

    /// Whether the lease that a layout goes with is held.
    fn goes_on(&self, object: Object, laid_out: &LaidOut) -> bool {
        self.table.leases(object).iter().any(|lease| {
            let is_same = lease.client == laid_out.client && lease.serial == laid_out.serial;
            is_same && lease.cachable && lease.kind == Kind::Write
        })
    }
}
