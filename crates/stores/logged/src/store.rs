//! The operations of the trait `Store`. Each change runs on the store below, and is answered when
//! the log has its record on stable storage.

use std::sync::Arc;

use bytes::Bytes;
use futures_channel::oneshot;
use leasehold_base::units::FileTime;
use leasehold_fs::{
    Attributes, Caller, Capabilities, Changed, Committed, Device, FileType, Found, FsError, Guard,
    Linked, LocalGuard, MaybeReady, NewFile, NewNode, ObjectId, Place, Renamed, Reservations,
    SetAttributes, Space, Stability, Store, Wcc, WriteDone, forward_store, offload,
};

use crate::Logged;
use crate::record::{Change, Made, Record, Spot, State};

/// The receiver that completes when a record is stable.
type Wait = oneshot::Receiver<Result<(), FsError>>;

impl Logged {
    /// Makes the store below locate an object. Called before the mutex is acquired, because the
    /// location may need a long search that would delay all other changes.
    async fn at_hand(&self, object: &ObjectId) {
        // Ignore an error, which the operation itself will report.
        let _ = self.below.getattr(object).await;
    }

    async fn look(&self, caller: &Caller, place: Place<'_>) -> Option<Found> {
        self.below.lookup(caller, &place.directory, place.name).await.ok()
    }

    fn add(&self, record: &Record) -> Wait {
        self.journal.add(record, Bytes::new())
    }

    /// Records a CREATE. Returns the receiver that completes when the record is stable.
    fn created(&self, place: Change, file: &NewFile, old: Option<Found>, new: &Found) -> Wait {
        let is_old = old.is_some_and(|old| old.object == new.object);
        match file {
            NewFile::Unchecked(SetAttributes { size, .. }) if is_old => match size {
                Some(size) => self.add(&Record::Set {
                    object: new.object,
                    size: Some(*size),
                    state: State::from(&new.attributes),
                }),
                None => self.journal.barrier(),
            },
            // A retry has found the file of an earlier call. The record of that call may not be
            // stable yet, so wait for all earlier records.
            NewFile::Guarded(_) | NewFile::Exclusive { .. } if is_old => self.journal.barrier(),
            NewFile::Unchecked(_) | NewFile::Guarded(_) => self.add(&made(place, new, &[], None)),
            NewFile::Exclusive { verifier, .. } => {
                self.add(&made(place, new, &[], Some(*verifier)))
            }
        }
    }

    /// Removes a name, and records the name and its object.
    async fn unlink<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        unlink: impl FnOnce() -> MaybeReady<'a, Changed<()>>,
    ) -> Changed<()> {
        self.at_hand(&place.directory).await;
        let turn = self.turns.take().await;
        let old = self.look(caller, place).await;
        let changed = unlink().await;
        if changed.result.is_err() {
            return changed;
        }
        let wait = match old {
            Some(Found { object, attributes, .. }) => {
                if attributes.link_count <= 1 || attributes.file_type == FileType::Directory {
                    self.below.forget(&object);
                }
                let place = change(place, &changed.wcc);
                self.add(&Record::Removed { place, object })
            }
            None => self.journal.barrier(),
        };
        drop(turn);
        settled(changed, wait).await
    }
}

/// Returns the part of a record that describes a changed name, with the attributes of its
/// directory.
fn change(place: Place<'_>, directory: &Wcc) -> Change {
    let spot = Spot { directory: place.directory, name: place.name.as_bytes().to_vec() };
    Change { spot, state: directory.after.as_ref().map(State::from) }
}

fn made(place: Change, found: &Found, target: &[u8], exclusive: Option<[u8; 8]>) -> Record {
    let Attributes { file_id, file_type: kind, device, .. } = found.attributes;
    Record::Made(Made {
        place,
        object: found.object,
        file_id,
        kind,
        size: if kind == FileType::Regular { found.attributes.size } else { 0 },
        target: target.to_vec(),
        device: match kind {
            FileType::BlockDevice | FileType::CharacterDevice => device,
            FileType::Regular
            | FileType::Directory
            | FileType::Symlink
            | FileType::Socket
            | FileType::Fifo => Device::default(),
        },
        exclusive,
        state: State::from(&found.attributes),
    })
}

/// Waits until a record is stable.
async fn safe(wait: Wait) -> Result<(), FsError> {
    // The sender is dropped without a result only during the shutdown of the threads; then the
    // change may not be stable.
    wait.await.unwrap_or(Err(FsError::Io))
}

/// Returns the result of a change when its record is stable, or the error of the log.
async fn settled<T>(changed: Changed<T>, wait: Wait) -> Changed<T> {
    let Changed { result, wcc } = changed;
    let result = match safe(wait).await {
        Ok(()) => result,
        Err(error) => Err(error),
    };
    Changed { result, wcc }
}

impl Store for Logged {
    forward_store!(below: root identity path properties getattr lookup parent access readlink read readdir space);

    fn capabilities(&self) -> Capabilities<'_> {
        let below = self.below.capabilities();
        Capabilities {
            local_guard: below.local_guard.map(|_| self as &dyn LocalGuard),
            coherence: None,
            direct_layouts: None,
            // A volume of stripes keeps its names and their policies without a log.
            layout_policies: None,
            local_metadata: None,
            reservations: below.reservations.map(|_| self as &dyn Reservations),
            // The records of a removed file would recreate it at a replay.
            open_files: None,
            // The log has no records of changes of extended attributes.
            extended_attributes: None,
            // The log has no records of changes of ranges.
            ranges: None,
        }
    }

    fn setattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        changes: &'a SetAttributes,
        guard: Option<FileTime>,
    ) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::later(async move {
            self.at_hand(object).await;
            let turn = self.turns.take().await;
            let changed = self.below.setattr(caller, object, changes, guard).await;
            if changed.result.is_err() {
                return changed;
            }
            let after = match changed.wcc.after {
                Some(after) => Some(after),
                None => self.below.getattr(object).await.ok(),
            };
            let wait = match after {
                Some(after) => {
                    let (object, state) = (*object, State::from(&after));
                    self.add(&Record::Set { object, size: changes.size, state })
                }
                None => self.journal.barrier(),
            };
            drop(turn);
            settled(changed, wait).await
        })
    }

    fn write<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> MaybeReady<'a, Changed<WriteDone>> {
        if stability == Stability::Unstable {
            return self.below.write(caller, object, offset, data, stability);
        }
        MaybeReady::later(async move {
            self.at_hand(object).await;
            let turn = self.turns.take().await;
            let kept = data.clone();
            let changed = self.below.write(caller, object, offset, data, Stability::Unstable).await;
            let Changed { result: Ok(done), wcc } = changed else { return changed };
            let state = wcc.after.as_ref().map(State::from);
            let length = done.count;
            let record = Record::Written { object: *object, offset, length, state };
            let wait = self.journal.add(&record, kept.slice(..length as usize));
            drop(turn);
            settled(Changed { result: Ok(WriteDone { stability, ..done }), wcc }, wait).await
        })
    }

    fn create<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        file: &'a NewFile,
    ) -> MaybeReady<'a, Changed<Found>> {
        MaybeReady::later(async move {
            self.at_hand(&place.directory).await;
            let turn = self.turns.take().await;
            let old = self.look(caller, place).await;
            let changed = self.below.create(caller, place, file).await;
            let Ok(new) = &changed.result else { return changed };
            let wait = self.created(change(place, &changed.wcc), file, old, new);
            drop(turn);
            settled(changed, wait).await
        })
    }

    fn make<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        node: &'a NewNode<'a>,
        attributes: &'a SetAttributes,
    ) -> MaybeReady<'a, Changed<Found>> {
        MaybeReady::later(async move {
            self.at_hand(&place.directory).await;
            let turn = self.turns.take().await;
            let changed = self.below.make(caller, place, node, attributes).await;
            let Ok(new) = &changed.result else { return changed };
            let target = if let NewNode::Symlink(target) = node { target } else { &[][..] };
            let wait = self.add(&made(change(place, &changed.wcc), new, target, None));
            drop(turn);
            settled(changed, wait).await
        })
    }

    fn remove<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::later(self.unlink(caller, place, move || self.below.remove(caller, place)))
    }

    fn rmdir<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::later(self.unlink(caller, place, move || self.below.rmdir(caller, place)))
    }

    fn rename<'a>(
        &'a self,
        caller: &'a Caller,
        from: Place<'a>,
        to: Place<'a>,
    ) -> MaybeReady<'a, Renamed> {
        MaybeReady::later(async move {
            self.at_hand(&from.directory).await;
            self.at_hand(&to.directory).await;
            let turn = self.turns.take().await;
            let (moved, over) = (self.look(caller, from).await, self.look(caller, to).await);
            let mut renamed = self.below.rename(caller, from, to).await;
            if renamed.result.is_err() {
                return renamed;
            }
            let over = over.map(|found| found.object);
            let wait = match moved.map(|found| found.object) {
                Some(object) if over != Some(object) => {
                    let (from, to) = (change(from, &renamed.from), change(to, &renamed.to));
                    self.add(&Record::Renamed { from, to, object, over })
                }
                // Both names belong to one object, so the rename has changed nothing and needs no
                // record.
                Some(_) | None => self.journal.barrier(),
            };
            drop(turn);
            if let Err(error) = safe(wait).await {
                renamed.result = Err(error);
            }
            renamed
        })
    }

    fn link<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        place: Place<'a>,
    ) -> MaybeReady<'a, Linked> {
        MaybeReady::later(async move {
            self.at_hand(object).await;
            self.at_hand(&place.directory).await;
            let turn = self.turns.take().await;
            let mut linked = self.below.link(caller, object, place).await;
            if linked.result.is_err() {
                return linked;
            }
            let wait = self
                .add(&Record::Linked { place: change(place, &linked.directory), object: *object });
            drop(turn);
            if let Err(error) = safe(wait).await {
                linked.result = Err(error);
            }
            linked
        })
    }

    fn commit<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        length: u32,
    ) -> MaybeReady<'a, Changed<Committed>> {
        let Some(upto) = self.journal.mark(object) else {
            return self.below.commit(caller, object, offset, length);
        };
        MaybeReady::later(async move {
            if !self.commits_names {
                let journal = Arc::clone(&self.journal);
                let synced = offload(&*self.blocking, move || journal.sync_all()).await;
                if let Err(error) = synced {
                    return Changed::failed(error);
                }
            }
            // Commit the whole file and not only the requested range, because the record below
            // covers the whole file.
            let changed = self.below.commit(caller, object, 0, 0).await;
            match changed.result {
                Ok(_) => {
                    let wait = self.add(&Record::Synced { object: *object, upto });
                    settled(changed, wait).await
                }
                Err(FsError::Io) => {
                    // The disk may also have lost data of the file for which the log has records.
                    // Stop the journal, so that a start replays the log. This may block on a sync
                    // of the log, so run it on a blocking thread.
                    let journal = Arc::clone(&self.journal);
                    offload(&*self.blocking, move || journal.owe()).await;
                    changed
                }
                Err(_) => changed,
            }
        })
    }
}

impl LocalGuard for Logged {
    fn guard(&self, object: &ObjectId, guard: Guard) -> Result<(), FsError> {
        self.below.guard(object, guard)
    }
}

impl Reservations for Logged {
    fn reservable_space<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Space, FsError>> {
        self.below.reservable_space(caller, object)
    }
}
