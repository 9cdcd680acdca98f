//! The simulated data of the server: a few objects with a few cells each.
//!
//! A cell of a file stands for a part of its data, and a cell of a directory for a name. The value
//! of a cell is the id of the change that wrote it, or 0. The attributes of an object contain the
//! id of its last change.

use leasehold_core::leases::{Modrev, Object};

use leasehold_base::units::{FileId, FileSystemId};

/// The id of a change, unique in a world; zero means the initial state of an object.
pub(super) type Id = u64;

pub(super) const CELLS: usize = 2;

/// The number of objects of a world; the last object is a directory.
pub(super) const OBJECTS: usize = 3;

/// The index of the directory.
pub(super) const DIRECTORY: usize = OBJECTS - 1;

pub(super) fn object(index: usize) -> Object {
    let file = FileId(u64::try_from(index).expect("objects are few"));
    Object { file_system: FileSystemId(1), file }
}

pub(super) fn index(object: Object) -> usize {
    usize::try_from(object.file.0).expect("objects are few")
}

pub(super) const fn is_directory(index: usize) -> bool {
    index == DIRECTORY
}

/// The cells and the attributes of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) cells: [Id; CELLS],
    pub(super) attributes: Id,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Stored {
    pub(super) content: Content,
    pub(super) modrev: Modrev,
    /// All changes of the object, each with the host that made it.
    pub(super) changes: Vec<(usize, Vec<Id>)>,
    stable: (Content, Modrev, usize),
}

impl Stored {
    pub(super) fn commit(&mut self) {
        self.stable = (self.content, self.modrev, self.changes.len());
    }

    /// Returns to the stable state; returns the ids of the lost changes.
    pub(super) fn crash(&mut self) -> Vec<Id> {
        let lost = self.changes.drain(self.stable.2..).flat_map(|(_, ids)| ids).collect();
        (self.content, self.modrev) = (self.stable.0, self.stable.1);
        lost
    }

    /// Returns true if a host other than `host` has made a change after the first `since` changes.
    pub(super) fn changed_by_others(&self, since: usize, host: usize) -> bool {
        self.changes.iter().skip(since).any(|(by, _)| *by != host)
    }
}
