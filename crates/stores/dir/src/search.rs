//! Searches the tree for objects whose recorded names are missing or wrong, for a server that
//! cannot open objects by the kernel's handles.
//!
//! Only one search runs at a time. It searches for all objects that are requested before it starts,
//! and records every name that it sees. If a search does not find an object, the object counts as
//! removed permanently: it could only appear again by a move into the export from outside, and then
//! a listing records it. So a search must not miss an object that moves from a directory that is
//! not searched yet to a directory that is already searched. The store records moves by its own
//! operations. Because of moves by local programs, the search repeats until no directory changes
//! during a pass.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_channel::oneshot;
use leasehold_fs::{FsError, ObjectId, offload};
use rustix::fs::{FileType, Mode, OFlags, RawDir, fstat, openat};

use crate::errors::meaning;
use crate::index::{Index, Known, OBJECTS_MAX};
use crate::locks::{Mixing, lock};
use crate::object::{Descriptor, Object, Reach};
use crate::volume::{DEPTH_MAX, Missing, NAME, TRIES_IN_POOL, Volume};

/// The maximum number of objects that can wait for a search.
const WAITING_MAX: usize = 1024;

/// The maximum number of searches for an object that moves again before the store opens it.
const SEARCH_TRIES: u32 = 3;

/// The maximum number of unsuccessful passes while directories change. The search misses an object
/// only if the object moves from an unsearched to a searched directory during each pass.
const PASSES_MAX: u32 = 8;

/// The maximum lag of the clock from which the kernel takes the change times of directories.
const CLOCK_STEP: Duration = Duration::from_millis(10);

/// The number of bytes of a listing that the search requests from the kernel in one call.
const CHUNK_BYTES: usize = 32 << 10;

/// The objects to search for, and the tasks that wait for each object.
#[derive(Default)]
pub(crate) struct Searches {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    is_running: bool,
    waiting: Waiting,
}

type Waiting = HashMap<ObjectId, Vec<oneshot::Sender<Result<(), FsError>>>, Mixing>;

impl Volume {
    /// Returns the open object with an id, after a search for its current name.
    pub(crate) async fn find(self: &Arc<Self>, id: ObjectId) -> Result<Arc<Object>, FsError> {
        for _ in 0..SEARCH_TRIES {
            match self.object(&id) {
                Ok(object) => return Ok(object),
                Err(Missing::Failed(error)) => return Err(error),
                Err(Missing::Busy) => {
                    let volume = Arc::clone(self);
                    let open = move || volume.open_by_handle(&id, TRIES_IN_POOL);
                    match offload(&*self.blocking, open).await {
                        Ok(object) => return Ok(object),
                        Err(Missing::Failed(error)) => return Err(error),
                        Err(Missing::Busy | Missing::Lost) => {}
                    }
                }
                Err(Missing::Lost) => self.search_for(id)?.await.unwrap_or(Err(FsError::Delay))?,
            }
        }
        Err(FsError::Delay)
    }

    /// Adds an object to the next search.
    fn search_for(
        self: &Arc<Self>,
        id: ObjectId,
    ) -> Result<oneshot::Receiver<Result<(), FsError>>, FsError> {
        let (sender, receiver) = oneshot::channel();
        let mut queue = lock(&self.searches.queue);
        if queue.waiting.len() == WAITING_MAX && !queue.waiting.contains_key(&id) {
            return Err(FsError::Delay);
        }
        queue.waiting.entry(id).or_default().push(sender);
        let starts = !core::mem::replace(&mut queue.is_running, true);
        drop(queue);
        if starts {
            self.start_search();
        }
        Ok(receiver)
    }

    fn start_search(self: &Arc<Self>) {
        let volume = Arc::clone(self);
        self.blocking.run(Box::new(move || {
            let waiting = core::mem::take(&mut lock(&volume.searches.queue).waiting);
            if let Some(index) = &volume.index {
                Search::new(&volume, index, waiting).run();
            }
            let mut queue = lock(&volume.searches.queue);
            queue.is_running = !queue.waiting.is_empty();
            let again = queue.is_running;
            drop(queue);
            if again {
                volume.start_search();
            }
        }));
    }
}

/// A search in progress.
struct Search<'a> {
    volume: &'a Volume,
    index: &'a Index,
    waiting: Waiting,
    /// The inode numbers of the objects to search for; `None` if the handles do not contain the
    /// inode numbers.
    numbers: Option<HashSet<u64, Mixing>>,
    /// The number of names of files that this search has recorded.
    noted: usize,
    /// The latest change time of the directories that this pass has read.
    changed: SystemTime,
}

/// A directory that the search has not entered yet: a name in an open directory.
struct Branch {
    above: Arc<Descriptor>,
    above_id: ObjectId,
    name: Box<[u8]>,
    depth: usize,
}

impl<'a> Search<'a> {
    fn new(volume: &'a Volume, index: &'a Index, waiting: Waiting) -> Self {
        let numbers = waiting.keys().map(|id| volume.handles.number(id)).collect();
        Self { volume, index, waiting, numbers, noted: 0, changed: SystemTime::UNIX_EPOCH }
    }

    /// Searches the last known directories of the objects, then the whole tree; sends the results
    /// to all waiting tasks.
    fn run(mut self) {
        let known = |id: &ObjectId| (*id, self.index.find(id));
        let before: HashMap<_, _> = self.waiting.keys().map(known).collect();
        let outcome = self.volume.acting.as_server().and_then(|()| {
            self.look_nearby();
            self.look_everywhere()
        });
        for (id, waiters) in core::mem::take(&mut self.waiting) {
            let outcome = if before.get(&id) == Some(&self.index.find(&id)) {
                outcome.and_then(|()| {
                    self.index.remove(&id);
                    Err(FsError::Stale)
                })
            } else {
                // The index entry has changed, so another task found the object and recorded its
                // name.
                Ok(())
            };
            for waiter in waiters {
                // The waiting task may have been dropped, so an error is ignored.
                let _ = waiter.send(outcome);
            }
        }
    }

    /// Searches the directories in which the objects were last seen, because a renamed file is
    /// usually still in the same directory.
    fn look_nearby(&mut self) {
        let mut places = Vec::new();
        for id in self.waiting.keys() {
            if let Some(Known::At { directory, .. }) = self.index.find(id)
                && !places.contains(&directory)
            {
                places.push(directory);
            }
        }
        for id in places {
            if let Ok(directory) = self.volume.object(&id) {
                // If this directory cannot be listed now, ignore the error: the pass over the whole
                // tree tries the directory again.
                let _ = self.scan(&directory.descriptor(), &id, 0);
            }
        }
    }

    /// Searches the whole tree in passes. Ends when all objects are found, or after a pass that did
    /// not find them although no directory changed since the previous pass began.
    fn look_everywhere(&mut self) -> Result<(), FsError> {
        let mut last_begun = None;
        for _ in 0..PASSES_MAX {
            let begun = SystemTime::now() - CLOCK_STEP;
            self.changed = SystemTime::UNIX_EPOCH;
            self.pass()?;
            if self.waiting.is_empty() || last_begun.is_some_and(|last| self.changed < last) {
                break;
            }
            last_begun = Some(begun);
            // The first pass has filled the index as far as permitted, so further passes record
            // only the objects to search for.
            self.noted = OBJECTS_MAX;
        }
        Ok(())
    }

    fn pass(&mut self) -> Result<(), FsError> {
        let root = &self.volume.root;
        let mut branches = self.scan(&root.descriptor(), &root.id, 0)?;
        let mut outcome = Ok(());
        while !self.waiting.is_empty()
            && let Some(branch) = branches.pop()
        {
            match self.descend(&branch) {
                Ok(more) => branches.extend(more),
                // The directory was removed, is now another type of object, or cannot be searched
                // by any caller. In each case its contents cannot be served, so skip it.
                Err(
                    FsError::Access
                    | FsError::Invalid
                    | FsError::NotDirectory
                    | FsError::NotFound
                    | FsError::Stale,
                ) => {}
                // The missing objects may be in this directory, so the search fails and they do not
                // count as removed.
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    fn descend(&mut self, branch: &Branch) -> Result<Vec<Branch>, FsError> {
        let Branch { above, above_id, name, depth } = branch;
        let flags = NAME | OFlags::DIRECTORY;
        let opened = openat(&**above, &**name, flags, Mode::empty()).map_err(meaning)?;
        // Fails for a directory on another file system, which the search does not enter.
        self.volume.attributes_of(&opened)?;
        let id = self.volume.handles.of(&opened).map_err(meaning)?;
        self.note(&id, above_id, name);
        if *depth == DEPTH_MAX {
            return Err(FsError::ServerFault);
        }
        self.scan(&Arc::new(Descriptor::new(opened, Reach::Name)), &id, depth + 1)
    }

    /// Records the names in a directory; returns the directories in it.
    fn scan(
        &mut self,
        directory: &Arc<Descriptor>,
        id: &ObjectId,
        depth: usize,
    ) -> Result<Vec<Branch>, FsError> {
        let volume = self.volume;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let stream = openat(&**directory, c".", flags, Mode::empty()).map_err(meaning)?;
        self.changed = self.changed.max(changed_at(&stream)?);
        let mut chunk = Vec::<u8>::with_capacity(CHUNK_BYTES);
        let mut records = RawDir::new(&stream, chunk.spare_capacity_mut());
        let mut branches = Vec::new();
        while let Some(record) = records.next() {
            let record = record.map_err(meaning)?;
            let name = record.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            // If the kernel does not report the type of an entry, the entry may be a directory or a
            // file: treat it as both.
            let kind = record.file_type();
            if matches!(kind, FileType::Directory | FileType::Unknown) {
                let (above, name) = (Arc::clone(directory), name.into());
                branches.push(Branch { above, above_id: *id, name, depth });
            }
            // The search records a directory when it enters the directory, so record only other
            // entries here. When the index is half full, record only the objects to search for.
            let may_note = kind != FileType::Directory && self.noted < OBJECTS_MAX / 2;
            let is_wanted =
                self.numbers.as_ref().is_none_or(|numbers| numbers.contains(&record.ino()));
            if (may_note || is_wanted)
                && let Ok(found) = volume.handles.at(directory.as_fd(), name)
            {
                self.noted += 1;
                self.note(&found, id, name);
            }
        }
        Ok(branches)
    }

    /// Records a name, and sends a result to the tasks that wait for its object.
    fn note(&mut self, id: &ObjectId, directory: &ObjectId, name: &[u8]) {
        self.index.insert(id, directory, name);
        for waiter in self.waiting.remove(id).into_iter().flatten() {
            // The waiting task may have been dropped, so an error is ignored.
            let _ = waiter.send(Ok(()));
        }
    }
}

/// Returns the time of the last change of a directory's names.
fn changed_at(directory: &OwnedFd) -> Result<SystemTime, FsError> {
    let seen = fstat(directory).map_err(meaning)?;
    let seconds = u64::try_from(seen.st_ctime).unwrap_or(0);
    let nanoseconds = u32::try_from(seen.st_ctime_nsec).unwrap_or(0);
    Ok(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds))
}
