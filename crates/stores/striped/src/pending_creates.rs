//! Files whose CREATE is pending.
//!
//! CREATE makes the file before it sets the requested size at the iods. If one of them is away, the
//! client receives a retry status, and its retry finds a file of that name. If this is the file of
//! the first attempt, and no other change has occurred since, the CREATE continues. A restart loses
//! the list of these files, and they then count as files of other clients.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_base::units::FileTime;
use leasehold_fs::{Caller, ObjectId, SetAttributes};

/// The maximum number of files in the list; the oldest entries make room.
const FILES_MAX: usize = 1024;

/// The arguments of a CREATE: a retry has equal arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The object key of the directory.
    pub(crate) directory: ObjectId,
    pub(crate) name: Vec<u8>,
    pub(crate) caller: Caller,
    pub(crate) set: SetAttributes,
    /// True if the file may exist already.
    pub(crate) may_be_there: bool,
}

/// A file that a pending CREATE has made.
#[derive(Debug)]
struct Made {
    asked: Asked,
    /// The object key of the file.
    file: ObjectId,
    /// The change time of its metafile.
    changed: FileTime,
}

/// The files of pending CREATEs.
#[derive(Debug, Default)]
pub(crate) struct PendingCreates(Mutex<VecDeque<Made>>);

impl PendingCreates {
    fn made(&self) -> MutexGuard<'_, VecDeque<Made>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a file that a CREATE has made, and its last change time.
    pub(crate) fn note(&self, asked: Asked, file: ObjectId, changed: FileTime) {
        let mut made = self.made();
        made.retain(|other| other.asked != asked);
        if made.len() >= FILES_MAX {
            made.pop_front();
        }
        made.push_back(Made { asked, file, changed });
    }

    /// Returns the file that a CREATE with these arguments has made, and its last change time.
    pub(crate) fn find(&self, asked: &Asked) -> Option<(ObjectId, FileTime)> {
        let made = self.made();
        made.iter().find(|made| made.asked == *asked).map(|made| (made.file, made.changed))
    }

    /// Removes an entry: the CREATE is done, or cannot continue.
    pub(crate) fn forget(&self, asked: &Asked) {
        self.made().retain(|made| made.asked != *asked);
    }

    /// Records that internal maintenance changed the metafile of a file.
    pub(crate) fn follow(&self, file: &ObjectId, before: FileTime, after: FileTime) {
        for made in self.made().iter_mut() {
            if made.file == *file && made.changed == before {
                made.changed = after;
            }
        }
    }
}
