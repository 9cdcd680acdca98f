//! Searching the tree for objects whose names are not known, or no longer right: for a server
//! that may not open objects by the kernel's handles.
//!
//! One search runs at a time, for all that wait when it starts, and notes every name that it
//! meets. An object that is not found is gone for good: nothing brings its handle back but to
//! move it in from outside, and then a listing notes it again. So it must not be missed because it
//! was moved from where the search was not yet to where it had been: who did so through us has
//! noted where, and for local programs the search is repeated until no directory changes.

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

/// How many objects can wait to be searched for.
const WAITING_MAX: usize = 1024;

/// How often an object is searched for that is moved again before it is reached.
const SEARCH_TRIES: u32 = 3;

/// How often everything is searched in vain while directories change: to be missed, an object must
/// have been moved each time, and the wrong way.
const PASSES_MAX: u32 = 8;

/// The kernel stamps changes by a clock that is so far behind at most.
const CLOCK_STEP: Duration = Duration::from_millis(10);

/// What is asked of the kernel at a time.
const CHUNK_BYTES: usize = 32 << 10;

/// The objects that are to be searched for, and who waits for each.
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
    /// The open object of an id, wherever in the tree it is now.
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
                Err(Missing::Lost) => self.search_for(id)?.await.unwrap_or(Err(FsError::Later))?,
            }
        }
        Err(FsError::Later)
    }

    /// Joins the next search.
    fn search_for(
        self: &Arc<Self>,
        id: ObjectId,
    ) -> Result<oneshot::Receiver<Result<(), FsError>>, FsError> {
        let (sender, receiver) = oneshot::channel();
        let mut queue = lock(&self.searches.queue);
        if queue.waiting.len() == WAITING_MAX && !queue.waiting.contains_key(&id) {
            return Err(FsError::Later);
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

/// One search.
struct Search<'a> {
    volume: &'a Volume,
    index: &'a Index,
    waiting: Waiting,
    /// The inode numbers of those that wait; none where they are not known.
    numbers: Option<HashSet<u64, Mixing>>,
    /// How many files' names were noted.
    noted: usize,
    /// When a directory was changed last, as they were looked into in this pass.
    changed: SystemTime,
}

/// A directory that is still to be searched: a name in an open one.
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

    /// Looks where the objects were last seen, then everywhere; answers all that wait.
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
                // Somebody met it, and noted where.
                Ok(())
            };
            for waiter in waiters {
                // Who asked may have gone.
                let _ = waiter.send(outcome);
            }
        }
    }

    /// Searches the directories that the objects were last seen in: a file that was given
    /// another name is mostly still there.
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
                // What cannot be listed is met again below.
                let _ = self.scan(&directory.descriptor(), &id, 0);
            }
        }
    }

    /// Searches everything until all are found, or are missing from what does not change.
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
            // All that fits was noted.
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
                // Removed meanwhile, something else by now, or nobody here may look into it: what
                // is in there cannot be served.
                Err(
                    FsError::Access
                    | FsError::Invalid
                    | FsError::NotDirectory
                    | FsError::NotFound
                    | FsError::Stale,
                ) => {}
                // What is not found may be there: it must not be called stale.
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    fn descend(&mut self, branch: &Branch) -> Result<Vec<Branch>, FsError> {
        let Branch { above, above_id, name, depth } = branch;
        let flags = NAME | OFlags::DIRECTORY;
        let opened = openat(&**above, &**name, flags, Mode::empty()).map_err(meaning)?;
        // Nothing that is mounted there.
        self.volume.attributes_of(&opened)?;
        let id = self.volume.handles.of(&opened).map_err(meaning)?;
        self.note(&id, above_id, name);
        if *depth == DEPTH_MAX {
            return Err(FsError::ServerFault);
        }
        self.scan(&Arc::new(Descriptor::new(opened, Reach::Name)), &id, depth + 1)
    }

    /// Notes the names in a directory; gives back its directories.
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
            // Where the kernel does not say what it is, it may be both.
            let kind = record.file_type();
            if matches!(kind, FileType::Directory | FileType::Unknown) {
                let (above, name) = (Arc::clone(directory), name.into());
                branches.push(Branch { above, above_id: *id, name, depth });
            }
            // A directory is noted when it is entered. Past what the index holds, only what is
            // wanted is.
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

    /// Notes a name, and answers who waits for its object.
    fn note(&mut self, id: &ObjectId, directory: &ObjectId, name: &[u8]) {
        self.index.insert(id, directory, name);
        for waiter in self.waiting.remove(id).into_iter().flatten() {
            // Who asked may have gone.
            let _ = waiter.send(Ok(()));
        }
    }
}

/// When a directory's names were last changed.
fn changed_at(directory: &OwnedFd) -> Result<SystemTime, FsError> {
    let seen = fstat(directory).map_err(meaning)?;
    let seconds = u64::try_from(seen.st_ctime).unwrap_or(0);
    let nanoseconds = u32::try_from(seen.st_ctime_nsec).unwrap_or(0);
    Ok(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds))
}
