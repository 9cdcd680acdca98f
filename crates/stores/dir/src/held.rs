//! Files that the store keeps open for clients after a removal of their last name.
//!
//! A held file keeps a descriptor that only identifies it (`O_PATH`), so that programs of this
//! machine can execute the file, and guards of the file are possible.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use leasehold_fs::{FileType, FsError, Held, ObjectId};

use crate::locks::{Mixing, lock};
use crate::object::Object;
use crate::volume::Volume;

/// The minimum of the maximum number of held files, for a store with few descriptors.
const FILES_MIN: usize = 16;

/// The files that clients hold.
pub(crate) struct HeldFiles {
    rows: Mutex<HashMap<ObjectId, Row, Mixing>>,
    files_max: usize,
}

struct Row {
    object: Arc<Object>,
    holds: usize,
}

impl HeldFiles {
    /// Creates an empty table. Each held file keeps one descriptor open, in addition to
    /// `descriptors_max` descriptors of other objects.
    pub(crate) fn new(descriptors_max: usize) -> Self {
        Self { rows: Mutex::default(), files_max: (descriptors_max / 4).max(FILES_MIN) }
    }

    /// Returns the object of an id, if a client holds it.
    pub(crate) fn find(&self, id: &ObjectId) -> Option<Arc<Object>> {
        lock(&self.rows).get(id).map(|row| Arc::clone(&row.object))
    }

    /// Adds a hold; returns true if it is the only one of the object.
    fn add(&self, object: &Arc<Object>) -> Result<bool, FsError> {
        let mut rows = lock(&self.rows);
        if rows.len() >= self.files_max && !rows.contains_key(&object.id) {
            return Err(FsError::Delay);
        }
        let row = || Row { object: Arc::clone(object), holds: 0 };
        let row = rows.entry(object.id).or_insert_with(row);
        row.holds += 1;
        Ok(row.holds == 1)
    }

    /// Ends a hold; returns the object if it was the last hold.
    fn release(&self, id: &ObjectId) -> Option<Arc<Object>> {
        let mut rows = lock(&self.rows);
        let row = rows.get_mut(id)?;
        row.holds -= 1;
        if row.holds == 0 { rows.remove(id).map(|row| row.object) } else { None }
    }
}

impl Volume {
    /// Keeps a file open until the result is dropped.
    pub(crate) fn hold(self: &Arc<Self>, object: &Arc<Object>) -> Result<Held, FsError> {
        if object.file_type != FileType::Regular {
            return Err(FsError::WrongType);
        }
        let is_first = self.held.add(object)?;
        let (volume, id) = (Arc::clone(self), object.id);
        let held = Held::until(move || volume.release(&id));
        // A removal before the new hold has an effect. After an error the drop of `held` ends the
        // hold.
        let attributes = self.attributes_at(&*object.descriptor(), b"")?;
        if is_first && attributes.link_count == 0 { Err(FsError::Stale) } else { Ok(held) }
    }

    /// Ends a hold. Closes the file if it has no name and no other hold.
    fn release(&self, id: &ObjectId) {
        let Some(held) = self.held.release(id) else { return };
        if self.attributes(&held) != Err(FsError::Stale) {
            return;
        }
        self.guard_no_more(id);
        if let Some(open) = self.descriptors.by_id(id) {
            self.descriptors.remove(&open);
        }
        // The close of a file without a name frees its blocks, which can take long.
        self.blocking.run(Box::new(move || drop(held)));
    }
}
