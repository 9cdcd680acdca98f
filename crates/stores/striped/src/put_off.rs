//! Files whose CREATE is to come again.
//!
//! A file is made before iods are asked for the size that it is to get. Where one of them is away
//! the CREATE is told to come again, and then finds a file of that name. If that is its own, and
//! nobody was at it since, the CREATE goes on. A restart forgets which are, and they are taken for
//! somebody else's.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_base::units::FileTime;
use leasehold_fs::{Caller, ObjectId, SetAttributes};

/// Files that are kept in mind; of more the first are forgotten.
const FILES_MAX: usize = 1024;

/// What a CREATE asks for: one that comes again asks for the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The part of the directory's id that is equal for all its ids.
    pub(crate) directory: ObjectId,
    pub(crate) name: Vec<u8>,
    pub(crate) caller: Caller,
    pub(crate) set: SetAttributes,
    /// Whether the file may be there already.
    pub(crate) may_be_there: bool,
}

/// A file that was made for what was asked.
#[derive(Debug)]
struct Made {
    asked: Asked,
    /// The part of the file's id that is equal for all its ids.
    file: ObjectId,
    /// When its metafile was changed last.
    changed: FileTime,
}

/// The files.
#[derive(Debug, Default)]
pub(crate) struct PutOff(Mutex<VecDeque<Made>>);

impl PutOff {
    fn made(&self) -> MutexGuard<'_, VecDeque<Made>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a file that was made, and was changed last at that time.
    pub(crate) fn note(&self, asked: Asked, file: ObjectId, changed: FileTime) {
        let mut made = self.made();
        made.retain(|other| other.asked != asked);
        if made.len() >= FILES_MAX {
            made.pop_front();
        }
        made.push_back(Made { asked, file, changed });
    }

    /// The file that was made for what is asked, and when it was changed last.
    pub(crate) fn find(&self, asked: &Asked) -> Option<(ObjectId, FileTime)> {
        let made = self.made();
        made.iter().find(|made| made.asked == *asked).map(|made| (made.file, made.changed))
    }

    /// What is asked is done, or cannot be gone on with.
    pub(crate) fn forget(&self, asked: &Asked) {
        self.made().retain(|made| made.asked != *asked);
    }

    /// The metafile of a file was changed, though nobody was at the file.
    pub(crate) fn follow(&self, file: &ObjectId, before: FileTime, after: FileTime) {
        for made in self.made().iter_mut() {
            if made.file == *file && made.changed == before {
                made.changed = after;
            }
        }
    }
}
