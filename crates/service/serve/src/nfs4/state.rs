//! The owner of the opens and locks of version 4: shards by file, and the sharing of the fate of a
//! client between the shards.
//!
//! No two locks are held at the same time: neither two shards, nor a shard and the sessions. The
//! effects of one state machine are collected, and performed after its lock is released.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use leasehold_base::units::Time;
use leasehold_core::locks::{self, Locker, Locks};
use leasehold_core::opens::{self, Object, Opens, Share, StateId};
use leasehold_core::owners::Client;
use leasehold_fs::{ExportId, Held, ObjectId};

/// The number of shards: a power of two, so that many event loops rarely wait for one another.
const SHARDS: usize = 16;

/// Returns the shard of a file.
fn shard_of(object: Object) -> usize {
    let [low, ..] = (object.file.0 ^ object.file_system.0.rotate_left(7)).to_le_bytes();
    usize::from(low) % SHARDS
}

/// The opens and locks of the server.
pub(crate) struct State {
    shards: Vec<Mutex<Shard>>,
    /// The objects that clients have open.
    files: RwLock<BTreeMap<(ExportId, ObjectId), Known>>,
}

/// An object that clients have open.
struct Known {
    /// The file, so that READ and WRITE do not query the attributes of the object.
    object: Object,
    /// Keeps the file after the removal of its last name.
    held: Option<Held>,
}

/// The opens and locks of a part of the files.
pub(super) struct Shard {
    pub(super) opens: Opens,
    pub(super) locks: Locks,
    /// The ids under which clients have opened each file.
    ids: BTreeMap<Object, Vec<(ExportId, ObjectId)>>,
}

/// The consequences of a step in a shard, which concern other parts of the server.
#[derive(Default)]
pub(super) struct Consequences {
    /// The clients that have lost their state because another client needs it.
    pub(super) expired: Vec<Client>,
    /// The owners to notify that a lock may be available.
    pub(super) notices: Vec<Notice>,
}

/// A lock that may be available.
#[derive(Clone)]
pub(super) struct Notice {
    /// The ids under which clients have opened the file.
    pub(super) files: Vec<(ExportId, ObjectId)>,
    /// The owner that waits for the lock.
    pub(super) owner: locks::Owner,
}

impl State {
    pub(crate) fn new(epoch: u32) -> Self {
        let shard = |number| {
            Mutex::new(Shard {
                opens: Opens::new(opens::Limits::DEFAULT, epoch, number),
                locks: Locks::new(locks::Limits::DEFAULT),
                ids: BTreeMap::new(),
            })
        };
        let numbers = 0..u8::try_from(SHARDS).expect("there are few shards");
        Self { shards: numbers.map(shard).collect(), files: RwLock::default() }
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, Shard> {
        self.shards[index % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a step in the shard of a file.
    pub(super) fn on_file<T>(
        &self,
        now: Time,
        object: Object,
        step: impl FnOnce(&mut Shard, &mut Vec<opens::Effect>, &mut Vec<locks::Effect>) -> T,
    ) -> (T, Consequences) {
        self.in_shard(now, shard_of(object), step)
    }

    /// Runs a step in the shard of a state id.
    pub(super) fn on_stateid<T>(
        &self,
        now: Time,
        id: StateId,
        step: impl FnOnce(&mut Shard, &mut Vec<opens::Effect>, &mut Vec<locks::Effect>) -> T,
    ) -> (T, Consequences) {
        self.in_shard(now, usize::from(id.number().shard()), step)
    }

    fn in_shard<T>(
        &self,
        now: Time,
        index: usize,
        step: impl FnOnce(&mut Shard, &mut Vec<opens::Effect>, &mut Vec<locks::Effect>) -> T,
    ) -> (T, Consequences) {
        let mut shard = self.lock(index);
        let (mut of_opens, mut of_locks) = (Vec::new(), Vec::new());
        let result = step(&mut shard, &mut of_opens, &mut of_locks);
        let (consequences, gone) = shard.settle(now, of_opens, of_locks);
        drop(shard);
        if !gone.is_empty() {
            let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
            let ended: Vec<_> = gone.iter().filter_map(|id| files.remove(id)).collect();
            drop(files);
            // The end of a kept file can call the store, so no lock is held.
            drop(ended);
        }
        (result, consequences)
    }

    /// Runs a step in each shard.
    pub(super) fn everywhere(
        &self,
        now: Time,
        mut step: impl FnMut(&mut Shard, &mut Vec<opens::Effect>, &mut Vec<locks::Effect>),
    ) -> Consequences {
        let mut all = Consequences::default();
        for index in 0..SHARDS {
            let ((), some) = self.in_shard(now, index, &mut step);
            all.expired.extend(some.expired);
            all.notices.extend(some.notices);
        }
        all
    }

    /// Records the file of an object that a client has opened, unless its last close came first.
    pub(super) fn know(&self, export: ExportId, id: ObjectId, object: Object) {
        if self.file(export, &id) == Some(object) {
            return;
        }
        let (key, known) = ((export, id), Known { object, held: None });
        let write = || self.files.write().unwrap_or_else(PoisonError::into_inner);
        let earlier = write().insert(key, known);
        let mut shard = self.lock(shard_of(object));
        let is_open = shard.opens.share(object) != Share::default();
        if is_open {
            let ids = shard.ids.entry(object).or_default();
            if !ids.contains(&key) {
                ids.push(key);
            }
        }
        drop(shard);
        let ended = if is_open { None } else { write().remove(&key) };
        // The end of a kept file can call the store, so no lock is held.
        drop((earlier, ended));
    }

    /// Returns the file of an object, if a client has it open.
    pub(super) fn file(&self, export: ExportId, id: &ObjectId) -> Option<Object> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.get(&(export, *id)).map(|known| known.object)
    }

    /// Returns true if the store keeps an open object.
    pub(super) fn is_kept(&self, key: &(ExportId, ObjectId)) -> bool {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.get(key).is_some_and(|known| known.held.is_some())
    }

    /// Stores the proof that the store keeps an object until its last close, which can have come
    /// first.
    pub(super) fn keep(&self, key: (ExportId, ObjectId), object: Object, held: Held) {
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = files.get_mut(&key)
            && known.object == object
            && known.held.is_none()
        {
            known.held = Some(held);
        }
    }

    /// Returns true if no client has any file open.
    pub(super) fn is_idle(&self) -> bool {
        self.files.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Returns the number of states of a client.
    pub(super) fn states(&self, client: Client) -> usize {
        (0..SHARDS).map(|index| self.lock(index).opens.tally(client).live).sum()
    }

    /// Returns the number of revoked states of a client.
    pub(super) fn revoked(&self, client: Client) -> usize {
        (0..SHARDS).map(|index| self.lock(index).opens.tally(client).expired).sum()
    }

    /// Runs the work that is due, and returns the time of the next work.
    pub(super) fn wake(&self, now: Time) -> (Option<Time>, Consequences) {
        let due = |index: usize| self.lock(index).locks.next_wake();
        let consequences = match (0..SHARDS).filter_map(due).min() {
            Some(time) if time <= now => {
                self.everywhere(now, |shard, _, effects| shard.locks.tick(now, effects))
            }
            _ => Consequences::default(),
        };
        ((0..SHARDS).filter_map(due).min(), consequences)
    }
}

impl Shard {
    /// Performs the effects within the shard. Returns the other effects, and the ids that no client
    /// has open any more.
    fn settle(
        &mut self,
        now: Time,
        mut of_opens: Vec<opens::Effect>,
        mut of_locks: Vec<locks::Effect>,
    ) -> (Consequences, Vec<(ExportId, ObjectId)>) {
        let (mut consequences, mut gone) = (Consequences::default(), Vec::new());
        while !of_opens.is_empty() || !of_locks.is_empty() {
            for effect in core::mem::take(&mut of_opens) {
                match effect {
                    opens::Effect::Expire(client) => {
                        self.locks.release(now, Locker::Client(client), &mut of_locks);
                        consequences.expired.push(client);
                    }
                    opens::Effect::First(_) => {}
                    opens::Effect::Last(object) => {
                        gone.extend(self.ids.remove(&object).into_iter().flatten());
                    }
                    opens::Effect::Unlock { object, client, owner, open } => {
                        let owner = locks::Owner { locker: Locker::Client(client), name: owner };
                        let under = Some(locks::Under(open.0));
                        self.locks.release_owner(now, object, &owner, under, &mut of_locks);
                    }
                }
            }
            for effect in core::mem::take(&mut of_locks) {
                match effect {
                    locks::Effect::Expire(client) => {
                        self.opens.expire(client, &mut of_opens);
                        consequences.expired.push(client);
                    }
                    locks::Effect::Notify(object, owner) => {
                        let files = self.ids.get(&object).cloned().unwrap_or_default();
                        consequences.notices.push(Notice { files, owner });
                    }
                    // Version 4 has no requests that block in the server.
                    locks::Effect::Granted(_) | locks::Effect::Refused(_) => {}
                }
            }
        }
        (consequences, gone)
    }
}

#[cfg(test)]
mod tests {
    use leasehold_base::units::{FileId, FileSystemId};

    use super::*;

    /// The last close of a file can come before the server records the object of an OPEN.
    #[test]
    fn an_object_without_an_open_leaves_no_record() {
        let state = State::new(1);
        let object = Object { file_system: FileSystemId(1), file: FileId(2) };
        let id = ObjectId::new(&[3; 8]).expect("a short id");
        state.know(ExportId(1), id, object);
        assert!(state.is_idle());
        assert!(state.lock(shard_of(object)).ids.is_empty());
    }
}
