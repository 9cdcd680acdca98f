//! Syncs changes to stable storage. One sync serves all changes that wait for it.
//!
//! With [`Durability::Disk`], a table in `SEMANTICS.md` lists the syncs before the reply of each
//! operation. The sync of a directory includes the inodes of its new names if one transaction of
//! the file system's journal contains both. On other file systems the store also syncs the new or
//! linked object, or the renamed directory; if it cannot open the object, it syncs the whole file
//! system.
//!
//! Criteria in order of weight:
//! - The store never reports data as saved that may be lost. After a failed sync the kernel marks
//!   the data as clean, so the next sync would succeed without it. So the store counts failed
//!   syncs. Each change records the failure count at its start. The change fails if the count
//!   differs when it joins a sync or when that sync succeeds, and if that sync or the previous sync
//!   fails. The write verifier is derived from the count.
//! - A file system that has failed can report success for later syncs, because it has no dirty data
//!   left. Examples are an ext4 file system that an error has made read-only, and a directory on an
//!   XFS file system that has shut down. So a sync succeeds only if the file system still works
//!   afterwards: it returns attributes, which a failed XFS refuses, and it is not read-only, unless
//!   it was read-only from the start. A file system that an administrator makes read-only also
//!   counts as failed, to be on the safe side. The store does not detect one case: an ext4 file
//!   system that could not write its journal, until the next change on it fails. Until then, only
//!   the failures of changes that waited for the journal reveal the loss.
//! - At most one sync runs per object. Changes that arrive during a sync wait for the next sync,
//!   which starts after the current sync and serves all waiting changes.
//! - A COMMIT finds little data to write. The kernel keeps written data in memory for up to half a
//!   minute, so the store requests write-back of a file after each [`BEHIND_BYTES`] of written
//!   data. A loss during write-back counts as a failed sync. Below a write-ahead log the store does
//!   not request write-back, because the log relies on syncs and would not learn of a loss during
//!   write-back.
//! - A sync starts after all changes that arrived together. If other changes already wait when a
//!   sync ends, the next sync waits briefly for further changes from the clients whose changes were
//!   just served. Otherwise these clients and the clients that arrived during the sync would
//!   alternate permanently, each group with its own sync. There is no other deliberate delay.

use std::collections::HashMap;
use std::future::Future;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use leasehold_fs::unsettled::{Wait, hand_over};
use leasehold_fs::{
    Blocking, Changed, Committed, FsError, MaybeReady, ObjectId, Verifier, Wcc, yield_now,
};
use rustix::fs::{Advice, StatVfs, StatVfsMountFlags, fstatvfs, statvfs};
use rustix::io::{Errno, retry_on_intr};

use crate::Durability;
use crate::locks::{Mixing, lock, spread};
use crate::object::Descriptor;
use crate::sys::begin_to_write;

/// The extent of a sync; each extent includes the extents before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// Data, and the metadata that is necessary to read it.
    Data,
    /// Data and all attributes.
    Object,
    /// The whole file system.
    FileSystem,
}

/// The next sync of an object waits for the duration of the last sync, divided by this number. On a
/// disk that is slow enough for the wait to matter, a nearby client has sent its next change within
/// this time.
const GATHERING_SHARE: u32 = 2;

/// The maximum time for which a sync waits: the delay of a more distant client.
const GATHERING_MAX: Duration = Duration::from_millis(2);

/// The number of bytes of a file that are written before the store requests write-back. A smaller
/// file may be removed before its data needs to be on the disk.
const BEHIND_BYTES: u64 = 1 << 20;

/// The system calls for syncs. A test replaces them to make syncs fail, and a measurement replaces
/// them to make syncs as slow as on another disk.
pub trait Syncer: Send + Sync {
    /// Syncs a file or its file system; sleeps.
    ///
    /// # Errors
    /// The error of the kernel; the store then considers the data lost.
    fn sync(&self, file: BorrowedFd<'_>, extent: Extent) -> Result<(), Errno>;

    /// Makes the kernel start write-back of a file's data up to `end`, in preparation for a sync;
    /// may sleep, but not until the data is written.
    ///
    /// # Errors
    /// The error of the kernel; the store then considers the data lost.
    fn begin(&self, file: BorrowedFd<'_>, end: u64) -> Result<(), Errno>;

    /// Returns the time for which the next sync of an object waits for the clients of the last
    /// sync. `took` is the duration of the last sync.
    fn patience(&self, took: Duration) -> Duration {
        (took / GATHERING_SHARE).min(GATHERING_MAX)
    }
}

/// The kernel's system calls, for one file system.
pub(crate) struct Kernel {
    /// True if the file system was read-only at every check so far.
    was_read_only: AtomicBool,
}

impl Kernel {
    /// Creates the system calls for the file system of a path. An error of the query is ignored,
    /// because the same cause then makes the open of the export fail.
    pub(crate) fn of(path: &Path) -> Self {
        let is_read_only = |known: StatVfs| known.f_flag.contains(StatVfsMountFlags::RDONLY);
        Self { was_read_only: statvfs(path).is_ok_and(is_read_only).into() }
    }

    /// Fails if the file system has failed and may have dropped data that it had not written.
    fn must_live(&self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        rustix::fs::fstat(file)?;
        if !fstatvfs(file)?.f_flag.contains(StatVfsMountFlags::RDONLY) {
            self.was_read_only.store(false, Ordering::Relaxed);
            return Ok(());
        }
        if self.was_read_only.load(Ordering::Relaxed) { Ok(()) } else { Err(Errno::ROFS) }
    }
}

impl Syncer for Kernel {
    fn sync(&self, file: BorrowedFd<'_>, extent: Extent) -> Result<(), Errno> {
        let synced = retry_on_intr(|| match extent {
            Extent::Data => rustix::fs::fdatasync(file),
            Extent::Object => rustix::fs::fsync(file),
            Extent::FileSystem => rustix::fs::syncfs(file),
        });
        if synced.is_err() {
            // The data that could not be written is still in memory and marked as clean. Readers
            // would see it as the content of the file. Also, ext4 considers the data's blocks on
            // the disk as written, so data that is later written to the same blocks could read as
            // zeros. So drop the data from memory.
            let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
        }
        synced.and_then(|()| self.must_live(file))
    }

    fn begin(&self, file: BorrowedFd<'_>, end: u64) -> Result<(), Errno> {
        match retry_on_intr(|| begin_to_write(file, end)) {
            // Some systems do not support this call or do not permit it. The store then works
            // without write-back requests.
            Err(
                Errno::NOSYS
                | Errno::INVAL
                | Errno::SPIPE
                | Errno::OPNOTSUPP
                | Errno::PERM
                | Errno::ACCESS,
            ) => Ok(()),
            // The kernel still has the data, and a sync writes it later, so this is no loss.
            Err(Errno::NOMEM | Errno::AGAIN) => Ok(()),
            begun => begun,
        }
    }
}

/// The numbers of syncs since the start of the server.
#[derive(Debug, Default)]
pub struct SyncCounts {
    /// Successful syncs.
    pub done: AtomicU64,
    /// Failed syncs.
    pub failed: AtomicU64,
    /// The total duration of all syncs, in nanoseconds.
    pub nanoseconds: AtomicU64,
}

/// A syncer that counts its syncs. The cost of counting is negligible, because a sync takes
/// thousands of times as long.
pub(crate) struct Counting {
    pub(crate) syncer: Box<dyn Syncer>,
    pub(crate) done: Arc<SyncCounts>,
}

impl Syncer for Counting {
    fn sync(&self, file: BorrowedFd<'_>, extent: Extent) -> Result<(), Errno> {
        let start = Instant::now();
        let synced = self.syncer.sync(file, extent);
        let took = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let count = if synced.is_ok() { &self.done.done } else { &self.done.failed };
        count.fetch_add(1, Ordering::Relaxed);
        self.done.nanoseconds.fetch_add(took, Ordering::Relaxed);
        synced
    }

    fn begin(&self, file: BorrowedFd<'_>, end: u64) -> Result<(), Errno> {
        self.syncer.begin(file, end)
    }

    fn patience(&self, took: Duration) -> Duration {
        self.syncer.patience(took)
    }
}

/// The number of shards: large enough that a few threads seldom use the same shard.
const SHARDS: usize = 64;

/// The running syncs, and the changes that wait for them.
pub(crate) struct Syncs {
    durability: Durability,
    blocking: Arc<dyn Blocking>,
    syncer: Box<dyn Syncer>,
    start: Verifier,
    losses: AtomicU64,
    /// True if the owner of a call waits for the syncs of its changes in place of the store.
    pub(crate) hands_over: AtomicBool,
    behind: Behind,
    shards: Box<[Shard]>,
}

/// The state of the requests for write-back. Only one request runs at a time, because its system
/// call may sleep.
#[derive(Default)]
struct Behind {
    /// True while a request is queued or running.
    is_taken: AtomicBool,
    /// The file of the running request; `None` while no request runs.
    telling: Mutex<Option<ObjectId>>,
    told: Condvar,
}

#[derive(Default)]
struct Shard {
    groups: Mutex<Groups>,
    /// Notified when the number of waiting changes reaches the number that a group expects.
    complete: Condvar,
}

/// The waiting changes of each object. An object has an entry while a sync of the object runs or is
/// queued.
type Groups = HashMap<ObjectId, Group, Mixing>;

#[derive(Default)]
struct Group {
    waiting: Vec<Waiter>,
    /// The number of changes that the next sync expects: it waits briefly until as many have
    /// arrived.
    hoped_for: usize,
    /// The number of further syncs that start without a wait, because the expected clients did not
    /// return in time.
    hurried: u32,
}

/// The number of syncs that start without a wait after a sync that waited without success.
const HURRIED: u32 = 16;

struct Waiter {
    /// The failure count at the start of the waiting change.
    losses: u64,
    descriptor: Arc<Descriptor>,
    extent: Extent,
    answer: oneshot::Sender<Result<(), FsError>>,
}

/// A change in progress, and the syncs that its reply waits for.
pub(crate) struct Change {
    syncs: Arc<Syncs>,
    /// The failure count at the start of the change.
    losses: u64,
    joined: Vec<Joined>,
}

/// The membership of a change in the group that waits for a sync. When it is polled or dropped, it
/// starts the sync, unless another change starts it. It also starts the sync on drop, because other
/// changes may wait for the same sync.
struct Joined {
    start: Option<(Arc<Syncs>, ObjectId)>,
    answer: oneshot::Receiver<Result<(), FsError>>,
}

impl Syncs {
    pub(crate) fn new(
        durability: Durability,
        blocking: Arc<dyn Blocking>,
        syncer: Box<dyn Syncer>,
        start: Verifier,
    ) -> Self {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        let (losses, behind) = (AtomicU64::new(0), Behind::default());
        let hands_over = AtomicBool::new(false);
        Self { durability, blocking, syncer, start, losses, hands_over, behind, shards }
    }

    /// Begins a change; called before the first modification.
    pub(crate) fn begin(self: &Arc<Self>) -> Change {
        let losses = self.losses.load(Ordering::SeqCst);
        Change { syncs: Arc::clone(self), losses, joined: Vec::new() }
    }

    /// Returns the write verifier after this number of failed syncs.
    fn verifier(&self, losses: u64) -> Verifier {
        // The factor is odd, so each failure count gives another verifier.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let start = u64::from_be_bytes(self.start.0);
        Verifier((start ^ losses.wrapping_mul(SPREAD)).to_be_bytes())
    }

    /// Returns the current write verifier.
    pub(crate) fn now(&self) -> Verifier {
        self.verifier(self.losses.load(Ordering::SeqCst))
    }

    /// Changes the write verifier, so that clients write their uncommitted data again.
    pub(crate) fn lose(&self) {
        self.losses.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns true if the store syncs changes before it replies.
    pub(crate) fn are_wanted(&self) -> bool {
        self.durability == Durability::Disk
    }

    /// Returns true if the store syncs a COMMIT.
    fn commits_are_wanted(&self) -> bool {
        match self.durability {
            Durability::Disk | Durability::Log => true,
            Durability::Memory => false,
        }
    }

    /// Syncs the whole file system; a failure increases the failure count.
    pub(crate) fn sync_all(&self, file: BorrowedFd<'_>) -> Result<(), FsError> {
        self.sync_at_once(file, Extent::FileSystem)
    }

    /// Syncs one file; a failure increases the failure count.
    pub(crate) fn sync_object(&self, file: BorrowedFd<'_>) -> Result<(), FsError> {
        self.sync_at_once(file, Extent::Object)
    }

    fn sync_at_once(&self, file: BorrowedFd<'_>, extent: Extent) -> Result<(), FsError> {
        self.syncer.sync(file, extent).map_err(|_| {
            self.losses.fetch_add(1, Ordering::SeqCst);
            FsError::Io
        })
    }

    /// Joins the next sync of an object, for a change that began at the failure count `losses`.
    fn join(
        self: &Arc<Self>,
        losses: u64,
        object: &ObjectId,
        descriptor: Arc<Descriptor>,
        extent: Extent,
    ) -> Joined {
        let (sender, answer) = oneshot::channel();
        let shard = self.shard(object);
        let mut groups = lock(&shard.groups);
        // A failed sync increases the count before it takes its waiting changes out of the group.
        // So if the count is unchanged here under the lock of the group, a sync that fails later
        // also fails this change. If the count differs, data of this change may be lost, so the
        // change fails now.
        if self.losses.load(Ordering::SeqCst) != losses {
            let _ = sender.send(Err(FsError::Io));
            return Joined { start: None, answer };
        }
        let is_new = !groups.contains_key(object);
        let group = groups.entry(*object).or_default();
        group.waiting.push(Waiter { losses, descriptor, extent, answer: sender });
        if group.waiting.len() == group.hoped_for {
            shard.complete.notify_all();
        }
        drop(groups);
        Joined { start: is_new.then(|| (Arc::clone(self), *object)), answer }
    }

    /// Requests write-back of the unsynced data of a file, if at least [`BEHIND_BYTES`] are
    /// unsynced. The last write wrote `count` bytes at `offset`.
    pub(crate) fn write_behind(
        self: &Arc<Self>,
        object: &ObjectId,
        descriptor: &Descriptor,
        (offset, count): (u64, u32),
    ) {
        if !self.are_wanted()
            || descriptor.fall_behind(count) < BEHIND_BYTES
            || self.behind.is_taken.swap(true, Ordering::SeqCst)
        {
            return;
        }
        descriptor.catch_up();
        // The request uses a duplicate of the descriptor. The original can then be closed in the
        // usual manner, which includes a sync.
        let Ok(file) = descriptor.as_fd().try_clone_to_owned() else {
            self.behind.is_taken.store(false, Ordering::SeqCst);
            return;
        };
        let (syncs, object) = (Arc::clone(self), *object);
        self.blocking.run(Box::new(move || {
            *lock(&syncs.behind.telling) = Some(object);
            if syncs.syncer.begin(file.as_fd(), offset + u64::from(count)).is_err() {
                // A later sync may not report this error again, for example if the disk was full.
                // So count the loss now.
                syncs.losses.fetch_add(1, Ordering::SeqCst);
            }
            *lock(&syncs.behind.telling) = None;
            syncs.behind.told.notify_all();
            syncs.behind.is_taken.store(false, Ordering::SeqCst);
        }));
    }

    /// Waits until no request for write-back of these objects is running. The error of a running
    /// request may concern data that the caller has already synced, and must be counted first.
    fn wait_for_told(&self, is_one: impl Fn(&ObjectId) -> bool) {
        let telling = lock(&self.behind.telling);
        let is_told = |telling: &mut Option<ObjectId>| telling.as_ref().is_some_and(&is_one);
        drop(self.behind.told.wait_while(telling, is_told));
    }

    /// Syncs the data of a descriptor that is about to be closed, unless its file has no name any
    /// more.
    pub(crate) fn sync_at_last(self: Arc<Self>, object: &ObjectId, descriptor: Descriptor) {
        let has_name = rustix::fs::fstat(&descriptor).is_ok_and(|seen| seen.st_nlink > 0);
        if self.commits_are_wanted() && has_name {
            self.begin().join_wanted(object, &Arc::new(descriptor), Extent::Data);
        }
    }

    /// Syncs these descriptors, and waits for the results. Returns the write verifier for all data
    /// that clients have written; `None` if some of this data is lost or may still be lost.
    pub(crate) fn settle(self: &Arc<Self>, dirty: Vec<Arc<Descriptor>>) -> Option<Verifier> {
        if !self.commits_are_wanted() {
            return None;
        }
        let (sender, results) = mpsc::channel();
        let count = dirty.len();
        for descriptor in dirty {
            let (syncs, sender) = (Arc::clone(self), sender.clone());
            self.blocking.run(Box::new(move || {
                descriptor.clean();
                let result = syncs.syncer.sync(descriptor.as_fd(), Extent::Data);
                if result.is_err() {
                    // Count the failure before this job ends: a COMMIT of the same file does not
                    // receive this error itself, and must find the increased count.
                    syncs.losses.fetch_add(1, Ordering::SeqCst);
                }
                // The receiver waits for all results, so sending cannot fail.
                let _ = sender.send(result);
            }));
        }
        drop(sender);
        let synced = results.iter().filter(Result::is_ok).count();
        self.wait_for_told(|_| true);
        // A sync may still run whose client has disconnected, or whose descriptor was just closed.
        // Then some data is not yet safe, and the verifier must not be returned.
        let none_runs = self.shards.iter().all(|shard| lock(&shard.groups).is_empty());
        let all = synced == count && none_runs;
        // Read the failure count last. A failed sync increases the count before it leaves the
        // table, so the checks above ensure that this count includes all failures.
        all.then(|| self.verifier(self.losses.load(Ordering::SeqCst)))
    }

    fn start(self: Arc<Self>, object: ObjectId) {
        let blocking = Arc::clone(&self.blocking);
        blocking.run(Box::new(move || self.run(object)));
    }

    /// Runs one sync of an object, and sends the results to its changes.
    fn run(self: Arc<Self>, object: ObjectId) {
        let groups = &self.shard(&object).groups;
        let waiting = |group: &mut Group| core::mem::take(&mut group.waiting);
        let mut served = lock(groups).get_mut(&object).map(waiting).unwrap_or_default();
        let start = Instant::now();
        let result = self.sync(&served).map_err(|_| FsError::Io);
        let took = start.elapsed();
        self.wait_for_told(|told| *told == object);
        let mut more = false;
        if result.is_ok() {
            let mut groups = lock(groups);
            match groups.get_mut(&object) {
                Some(group) if !group.waiting.is_empty() => {
                    more = true;
                    group.hope_for(served.len());
                }
                Some(_) | None => drop(groups.remove(&object)),
            }
        } else {
            self.losses.fetch_add(1, Ordering::SeqCst);
            let group = lock(groups).remove(&object).unwrap_or_default();
            served.extend(group.waiting);
        }
        // A sync of another object that failed in the meantime may have lost data of these changes
        // too: fail each change that began at another failure count.
        let losses = self.losses.load(Ordering::SeqCst);
        for waiter in served {
            let is_whole = waiter.losses == losses;
            // The waiting task may have been dropped, so an error is ignored.
            let _ = waiter.answer.send(if is_whole { result } else { Err(FsError::Io) });
        }
        if more {
            // Queue the next sync as a new job, which runs after all other queued work. The changes
            // of this sync may receive their results only when this job ends, so this job must not
            // wait for their clients to return.
            let blocking = Arc::clone(&self.blocking);
            blocking.run(Box::new(move || {
                self.gather(&object, took);
                self.run(object);
            }));
        }
    }

    /// Waits briefly for further changes from the clients that the last sync has served. `took` is
    /// the duration of the last sync.
    fn gather(&self, object: &ObjectId, took: Duration) {
        let Shard { groups, complete } = self.shard(object);
        let time = self.syncer.patience(took);
        let is_short = |groups: &mut Groups| groups.get(object).is_some_and(Group::is_short);
        let waited = complete.wait_timeout_while(lock(groups), time, is_short);
        let (mut groups, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = groups.get_mut(object) {
            group.begin();
        }
    }

    /// Syncs each distinct descriptor among the waiting changes, nearly always only one. All must
    /// be synced, because a descriptor reports only the losses since it was opened.
    fn sync(&self, waiters: &[Waiter]) -> Result<(), Errno> {
        let extent = waiters.iter().map(|waiter| waiter.extent).max().unwrap_or(Extent::Data);
        let mut last: Option<&Arc<Descriptor>> = None;
        for Waiter { descriptor, .. } in waiters {
            if last.is_none_or(|last| !Arc::ptr_eq(last, descriptor)) {
                descriptor.clean();
                self.syncer.sync(descriptor.as_fd(), extent)?;
                last = Some(descriptor);
            }
        }
        Ok(())
    }

    fn shard(&self, object: &ObjectId) -> &Shard {
        &self.shards[spread(object, SHARDS)]
    }
}

impl Group {
    /// Records that a sync has served `answered` changes, so that the next sync expects further
    /// changes from their clients.
    fn hope_for(&mut self, answered: usize) {
        if self.hurried > 0 {
            self.hurried -= 1;
        } else {
            self.hoped_for = self.waiting.len() + answered;
        }
    }

    fn is_short(&self) -> bool {
        self.waiting.len() < self.hoped_for
    }

    /// Records that the next sync starts now.
    fn begin(&mut self) {
        if self.is_short() {
            self.hurried = HURRIED;
        }
        self.hoped_for = 0;
    }
}

impl Change {
    /// Returns the write verifier for a WRITE. If a loss occurs after the start of the WRITE, the
    /// COMMIT returns another verifier.
    pub(crate) fn verifier(&self) -> Verifier {
        self.syncs.verifier(self.losses)
    }

    /// Joins the next sync of an object, after the object was changed, if syncs are on. The
    /// descriptor must permit reads or writes.
    pub(crate) fn join(&mut self, object: &ObjectId, descriptor: &Arc<Descriptor>, extent: Extent) {
        if self.syncs.are_wanted() {
            self.join_wanted(object, descriptor, extent);
        }
    }

    /// Joins the next sync of an object for a COMMIT.
    pub(crate) fn join_commit(&mut self, object: &ObjectId, descriptor: &Arc<Descriptor>) {
        if self.syncs.commits_are_wanted() {
            self.join_wanted(object, descriptor, Extent::Object);
        }
    }

    fn join_wanted(&mut self, object: &ObjectId, descriptor: &Arc<Descriptor>, extent: Extent) {
        let descriptor = Arc::clone(descriptor);
        self.joined.push(self.syncs.join(self.losses, object, descriptor, extent));
    }

    /// Returns the result of the change: immediately if nothing must be synced, otherwise when
    /// everything is on stable storage. The caller must not be in a critical section, because
    /// blocking work may run on this thread.
    pub(crate) fn settle<T: Send + 'static>(
        self,
        changed: Changed<T>,
    ) -> MaybeReady<'static, Changed<T>> {
        if self.joined.is_empty() {
            return MaybeReady::now(changed);
        }
        MaybeReady::later(async move {
            let Changed { result, wcc } = changed;
            // If the owner of the call waits and the server is restarted, the next server process
            // syncs again and relies on the result. The kernel reports a loss only once, so after a
            // loss that next sync could succeed wrongly. So from the first loss on, the store
            // itself waits.
            let has_lost = self.syncs.losses.load(Ordering::SeqCst) != 0;
            let hands_over = self.syncs.hands_over.load(Ordering::Relaxed) && !has_lost;
            let wait: Wait = Box::pin(self.settled());
            let handed_over = if hands_over { hand_over(wait) } else { Err(wait) };
            let result = match handed_over {
                // The owner of the call has taken over the wait. It must not reply before the wait
                // ends, and replies with an error if the wait fails. So the store returns the
                // result now.
                Ok(()) => result,
                Err(wait) => wait.await.and(result),
            };
            Changed { result, wcc }
        })
    }

    /// Waits until the change is on stable storage.
    async fn settled(self) -> Result<(), FsError> {
        // Yield once, so that changes that arrived at the same time join the same sync.
        yield_now().await;
        // Start all syncs before waiting for the first one, so that they run in parallel.
        let waits: Vec<_> = self.joined.into_iter().map(Joined::wait).collect();
        let mut settled = Ok(());
        for wait in waits {
            settled = settled.and(wait.await);
        }
        settled
    }

    /// Returns the result of a COMMIT. The write verifier is read after the sync, so that it
    /// reveals any loss before the end of the sync.
    pub(crate) fn settle_commit(self, wcc: Wcc) -> MaybeReady<'static, Changed<Committed>> {
        let syncs = Arc::clone(&self.syncs);
        self.settle(Changed { result: Ok(()), wcc }).map(move |Changed { result, wcc }| {
            let verifier = syncs.verifier(syncs.losses.load(Ordering::SeqCst));
            Changed { result: result.map(|()| Committed { verifier }), wcc }
        })
    }
}

impl Joined {
    /// Starts the sync, unless another change starts it, and waits for it.
    fn wait(mut self) -> impl Future<Output = Result<(), FsError>> + Send {
        self.go();
        async move {
            let answer = core::mem::replace(&mut self.answer, oneshot::channel().1);
            // If the sender was dropped, the thread pool is shutting down and the sync may not have
            // run: report a failure.
            answer.await.unwrap_or(Err(FsError::Io))
        }
    }

    fn go(&mut self) {
        if let Some((syncs, object)) = self.start.take() {
            syncs.start(object);
        }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.go();
    }
}
