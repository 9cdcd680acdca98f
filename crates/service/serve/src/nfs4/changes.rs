//! The change attribute of objects, which is one number in GETATTR, READDIR, VERIFY and the change
//! of a directory (`leasehold_core::changes` determines it).

use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_base::limits::state::CHANGES_MAX;
use leasehold_core::changes::Changes;
use leasehold_core::opens::Object;
use leasehold_fs::{self as fs, Changed, Wcc};
use leasehold_wire::nfs4::{ChangeId, ChangeInfo, Status};

use super::compound::Compound;
use super::convert;
use super::opens::object_of;

/// The number of shards: a power of two, so that event loops rarely wait for one another.
const SHARDS: usize = 16;

/// The change attributes of the objects of a server.
pub(super) struct Numbers([Mutex<Changes>; SHARDS]);

impl Default for Numbers {
    fn default() -> Self {
        Self(core::array::from_fn(|_| Mutex::new(Changes::new(CHANGES_MAX / SHARDS))))
    }
}

impl Numbers {
    fn lock(&self, object: Object) -> MutexGuard<'_, Changes> {
        let [low, ..] = object.file.0.to_le_bytes();
        self.0[usize::from(low) % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Compound {
    /// Returns the change attribute of an object.
    pub(super) fn change(&self, attributes: &fs::Attributes) -> ChangeId {
        let object = object_of(attributes);
        ChangeId(self.nfs4.numbers.lock(object).number(object, attributes.changed))
    }

    /// Records a change of an object, and returns it in the form of a directory's change. A store
    /// reports the attributes before only if no other change came between, so they prove that the
    /// change is atomic. Without them the client must drop its cache of the directory.
    pub(super) fn changed(&self, wcc: &Wcc) -> ChangeInfo {
        let Some(after) = &wcc.after else { return ChangeInfo::default() };
        let (object, before) = (object_of(after), wcc.before.map(|before| before.changed));
        let times = (before, after.changed);
        let (before, after) = self.nfs4.numbers.lock(object).changed(object, times);
        ChangeInfo {
            atomic: before.is_some(),
            before: ChangeId(before.unwrap_or_default()),
            after: ChangeId(after),
        }
    }

    /// Records that an object was created or changed, so that the next change in the same step of the
    /// clock has another number.
    pub(super) fn changed_file(&self, attributes: &fs::Attributes) {
        let object = object_of(attributes);
        self.nfs4.numbers.lock(object).changed(object, (None, attributes.changed));
    }

    /// Records a change of names or of extended attributes, and returns its result and the change.
    pub(super) fn settled<T>(&self, changed: Changed<T>) -> Result<(T, ChangeInfo), Status> {
        let info = self.noted(&changed);
        changed.result.map(|done| (done, info)).map_err(convert::status)
    }

    /// Records an operation that may have changed an object.
    pub(super) fn noted<T>(&self, changed: &Changed<T>) -> ChangeInfo {
        // An operation that failed and left the change time has changed nothing.
        let is_unchanged = match (&changed.wcc.before, &changed.wcc.after) {
            (Some(before), Some(after)) => before.changed == after.changed,
            _ => false,
        };
        match changed.result.is_err() && is_unchanged {
            true => ChangeInfo::default(),
            false => self.changed(&changed.wcc),
        }
    }
}
