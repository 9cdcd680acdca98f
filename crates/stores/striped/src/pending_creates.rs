//! Files whose CREATE is pending.
//!
//! CREATE makes the file first and then sets the requested size at the iods. If an iod is
//! unreachable, the client receives a retry status, and the retry finds that a file of the name
//! exists. This list shows if the existing file is the file of the first attempt, without a change
//! by another client since. Then the retry continues the first attempt. A restart of the metaserver
//! loses the list, so these files then count as files of other clients.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_base::units::FileTime;
use leasehold_fs::{Caller, ObjectId, SetAttributes};

/// The maximum number of files in the list. A new entry beyond it replaces the oldest entry.
const FILES_MAX: usize = 1024;

/// The arguments of a CREATE, by which the store recognizes a retry.
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
    /// The last change time of the file's metafile that the CREATE itself or internal maintenance
    /// caused.
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

    /// Removes the entry of a CREATE that is complete or cannot continue.
    pub(crate) fn forget(&self, asked: &Asked) {
        self.made().retain(|made| made.asked != *asked);
    }

    /// Records that internal maintenance changed the change time of a file's metafile.
    pub(crate) fn follow(&self, file: &ObjectId, before: FileTime, after: FileTime) {
        for made in self.made().iter_mut() {
            if made.file == *file && made.changed == before {
                made.changed = after;
            }
        }
    }
}
