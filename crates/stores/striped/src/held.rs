//! Files that clients hold, and the removal of their data after the last hold.
//!
//! The store of names keeps the metafile of a held file after the removal of the last name. This
//! module keeps the objects of the file.
//!
//! Rules:
//! 1. If a held file loses its last name, its objects stay until the last hold ends.
//! 2. The end of a hold does not wait for iods: it puts the file into a queue. The next removal of
//!    a name, or the next round of pending removals, removes the objects.
//! 3. A search for leftover objects spares the objects of held files and of files in the queue.
//! 4. A stop of the metaserver loses the table and the queue. The objects of files without names
//!    are then leftovers, which a search removes; the list of removals therefore counts as
//!    incomplete.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_fs::{FsError, Held, ObjectId};

use crate::Striped;
use crate::file::{Data, File};
use crate::iod::ObjectName;
use crate::metafile::Head;

/// A file whose data the store removes when the file has neither names nor holds.
#[derive(Clone)]
pub(crate) struct Doomed {
    pub(crate) object: ObjectId,
    /// The cached information about the file. The reference keeps it in memory, because the
    /// metafile may be gone when the store needs the location of the data.
    pub(crate) file: Arc<File>,
    /// The header of the metafile, read before the removal of the name.
    pub(crate) head: Option<Head>,
}

/// The held files, by their object keys.
#[derive(Default)]
pub(crate) struct HeldFiles {
    state: Mutex<State>,
}

/// The store of names bounds the number of held files, so the state needs no limit of its own.
#[derive(Default)]
struct State {
    files: BTreeMap<ObjectId, Row>,
    /// The files without names whose last hold has ended.
    ended: Vec<Doomed>,
}

struct Row {
    file: Doomed,
    holds: usize,
    has_no_name: bool,
}

impl HeldFiles {
    fn state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, identity: ObjectId, file: Doomed) {
        self.state(|state| {
            let row = Row { file, holds: 0, has_no_name: false };
            state.files.entry(identity).or_insert(row).holds += 1;
        });
    }

    fn end(&self, identity: &ObjectId) {
        self.state(|state| {
            let Some(row) = state.files.get_mut(identity) else { return };
            row.holds -= 1;
            if row.holds == 0
                && let Some(Row { file, has_no_name: true, .. }) = state.files.remove(identity)
            {
                state.ended.push(file);
            }
        });
    }

    /// Returns true if a client holds a file.
    pub(crate) fn contains(&self, identity: &ObjectId) -> bool {
        self.state(|state| state.files.contains_key(identity))
    }

    /// Records that a held file has lost its last name (rule 1). Returns the file if no client
    /// holds it any more.
    fn unlinked(&self, identity: &ObjectId, doomed: Doomed) -> Option<Doomed> {
        self.state(|state| match state.files.get_mut(identity) {
            Some(row) => {
                (row.file, row.has_no_name) = (doomed, true);
                None
            }
            None => Some(doomed),
        })
    }

    /// Returns true if the data of a file without names is not removed yet.
    pub(crate) fn has_unlinked(&self) -> bool {
        self.state(|state| {
            !state.ended.is_empty() || state.files.values().any(|row| row.has_no_name)
        })
    }

    fn all(&self) -> Vec<Doomed> {
        self.state(|state| {
            let held = state.files.values().map(|row| &row.file);
            held.chain(&state.ended).cloned().collect()
        })
    }
}

impl Striped {
    /// Keeps a file, its metafile and its objects, until the result is dropped.
    pub(crate) async fn hold_file(&self, object: &ObjectId) -> Result<Held, FsError> {
        let below = self.names.hold(object).await?;
        let identity = self.names.identity(object);
        let file = Doomed { object: *object, file: self.file(object), head: None };
        self.held.add(identity, file);
        let table = Arc::clone(&self.held);
        Ok(Held::until(move || {
            // A removal that finds the metafile gone removes the data itself, so the metafile goes
            // first.
            drop(below);
            table.end(&identity);
        }))
    }

    /// Removes the data of a file that may have lost its last name, unless a client holds the file.
    pub(crate) async fn purge_if_gone(&self, doomed: Option<Doomed>) {
        if let Some(doomed) = doomed {
            match self.names.getattr(&doomed.object).await {
                Err(FsError::Stale) => self.purge_doomed(doomed).await,
                Ok(attributes) if attributes.link_count == 0 => {
                    let identity = self.names.identity(&doomed.object);
                    if let Some(doomed) = self.held.unlinked(&identity, doomed) {
                        self.purge_doomed(doomed).await;
                    }
                }
                Ok(_) | Err(_) => {}
            }
        }
        self.purge_ended().await;
    }

    /// Removes the data of the files in the queue (rule 2).
    pub(crate) async fn purge_ended(&self) {
        let ended = self.held.state(|state| core::mem::take(&mut state.ended));
        if ended.is_empty() {
            return;
        }
        let begun = self.removals.begin();
        for doomed in ended {
            self.purge_doomed(doomed).await;
        }
        begun.end();
    }

    async fn purge_doomed(&self, doomed: Doomed) {
        let head = doomed.present_head().await;
        if let Some(head) = head.or(doomed.head) {
            self.purge(&doomed.object, head).await;
        }
    }

    /// Returns the object names that a search must spare (rule 3).
    pub(crate) async fn names_of_held(&self) -> BTreeSet<ObjectName> {
        let mut names = BTreeSet::new();
        for file in self.held.all() {
            let present = match file.present_head().await {
                Some(head) => Some(head),
                None => self.head(&file.object).await.ok().flatten(),
            };
            names.extend(present.into_iter().chain(file.head).map(|head| head.name));
        }
        names
    }
}

impl Doomed {
    /// Returns the location of the data according to the cached information.
    async fn present_head(&self) -> Option<Head> {
        match &*self.file.read().await {
            Data::OnIods(objects) => Some(objects.head.clone()),
            Data::Inline(head) => Some(head.clone()),
            Data::Nowhere | Data::Unknown | Data::Gone => None,
        }
    }
}
