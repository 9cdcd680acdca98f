//! Putting changes on stable storage, one sync for all that wait.
//!
//! What is synced before an operation is answered, with [`Durability::Disk`], is a table in
//! `SEMANTICS.md`. That a directory's sync takes along the inode of a new name holds where both are
//! changed in one transaction of a journal. On other file systems the new or linked object, or the
//! renamed directory, is synced as well, and the whole file system where it cannot be opened.
//!
//! Criteria in order of weight:
//! - Nothing that may be lost is reported as saved. When a sync fails, the kernel has marked the
//!   data clean all the same, and the next sync would succeed. So failures are counted; a change
//!   notes the count before it begins, and fails when the count is another once it wants to join
//!   a sync, or once that has succeeded, or when a sync that it has joined fails, or the one before
//!   that. The verifier is made of the count.
//! - A file system that gave up calls a sync that begins afterwards done, as nothing is left to be
//!   written: ext4 that an error has made read-only, and a directory of XFS that has shut down. So
//!   no sync succeeds unless the file system still lives when it is over: it can be asked for
//!   attributes, which XFS refuses from then on, and is not read-only unless it was from the start.
//!   One that an administrator makes read-only is taken for dead as well, to be on the safe side.
//!   What this does not see is an ext4 whose journal could not be written, before the next change
//!   finds out: for so long, the losses of those who waited for the journal are all that tells.
//! - At most one sync runs per object; who comes while it runs waits for the next, which starts
//!   behind its change and serves all that wait.
//! - A COMMIT finds little to write: the kernel, which leaves data in memory for up to half a minute, is
//!   told to write a file's after each [`BEHIND_BYTES`]. What that loses counts as a failed sync does.
//!   Not below a log, which is answered for by what was synced, and hears of no other loss.
//! - A sync begins behind all calls that came in together. Behind another sync it waits a little
//!   for those who were answered to come back: else they and those who came meanwhile would take
//!   turns, each with a sync of their own, for ever. Nothing else is delayed on purpose.

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
    Answer, Blocking, Changed, Committed, FsError, ObjectId, Verifier, Wcc, others_first,
};
use rustix::fs::{Advice, StatVfs, StatVfsMountFlags, fstatvfs, statvfs};
use rustix::io::{Errno, retry_on_intr};

use crate::Durability;
use crate::locks::{Mixing, lock, spread};
use crate::object::Descriptor;
use crate::sys::begin_to_write;

/// How much a sync takes along, each all that stands before it as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// Data, and what is needed to read it back.
    Data,
    /// Data and all attributes.
    Object,
    /// The whole file system.
    FileSystem,
}

/// It is this share of that time: until then a client that is near has answered, where a disk is slow enough for it to matter.
const GATHERING_SHARE: u32 = 2;

/// And for no longer: what a client takes that is farther away.
const GATHERING_MAX: Duration = Duration::from_millis(2);

/// How many bytes of a file are in memory before the kernel is told to write them. A file that is shorter
/// than that may be gone before anybody wants it on the disk.
const BEHIND_BYTES: u64 = 1 << 20;

/// The system calls, so that a test can let them fail, and a measurement let them take as long as
/// those of another disk.
pub trait Syncer: Send + Sync {
    /// Puts on stable storage what belongs to a file, or lies on its file system; sleeps.
    ///
    /// # Errors
    /// What the kernel says; the store takes the data for lost then.
    fn sync(&self, file: BorrowedFd<'_>, extent: Extent) -> Result<(), Errno>;

    /// Has the kernel begin to write what it has in memory of a file up to there, as a sync will want it
    /// written; may sleep, but not until it is.
    ///
    /// # Errors
    /// What the kernel says; the store takes the data for lost then.
    fn begin(&self, file: BorrowedFd<'_>, end: u64) -> Result<(), Errno>;

    /// How long the next sync of an object waits, behind one that took so long, for those to come
    /// back whom that has served.
    fn patience(&self, took: Duration) -> Duration {
        (took / GATHERING_SHARE).min(GATHERING_MAX)
    }
}

/// The kernel's own, for one file system.
pub(crate) struct Kernel {
    /// Whether it has been so whenever it was looked at.
    was_read_only: AtomicBool,
}

impl Kernel {
    /// Those for the file system that a path leads to. Where it cannot be asked it is about to be
    /// refused for another reason.
    pub(crate) fn of(path: &Path) -> Self {
        let is_read_only = |known: StatVfs| known.f_flag.contains(StatVfsMountFlags::RDONLY);
        Self { was_read_only: statvfs(path).is_ok_and(is_read_only).into() }
    }

    /// Fails where the file system gave up what it had not written.
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
            // What could not be written still lies in memory and is called clean. Readers would take
            // it for what the file holds; and ext4 takes its place on the disk for one that has
            // data, so what is written there again would be read as zeros one day. Forget it.
            let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
        }
        synced.and_then(|()| self.must_live(file))
    }

    fn begin(&self, file: BorrowedFd<'_>, end: u64) -> Result<(), Errno> {
        match retry_on_intr(|| begin_to_write(file, end)) {
            // Not every system has it, or lets us.
            Err(
                Errno::NOSYS
                | Errno::INVAL
                | Errno::SPIPE
                | Errno::OPNOTSUPP
                | Errno::PERM
                | Errno::ACCESS,
            ) => Ok(()),
            // It still has the data, and a sync tries again.
            Err(Errno::NOMEM | Errno::AGAIN) => Ok(()),
            begun => begun,
        }
    }
}

/// What syncs came to, since the start.
#[derive(Debug, Default)]
pub struct SyncCounts {
    /// Those that succeeded.
    pub done: AtomicU64,
    /// Those that failed.
    pub failed: AtomicU64,
    /// How long all took, in nanoseconds.
    pub nanoseconds: AtomicU64,
}

/// A syncer whose syncs are counted: each costs thousands of times as much.
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

/// Enough that a few threads seldom meet in one.
const SHARDS: usize = 64;

/// The syncs that run, and who waits for them.
pub(crate) struct Syncs {
    durability: Durability,
    blocking: Arc<dyn Blocking>,
    syncer: Box<dyn Syncer>,
    start: Verifier,
    losses: AtomicU64,
    /// True if the owner of a call may wait for the syncs of its changes in place of the store.
    pub(crate) hands_over: AtomicBool,
    behind: Behind,
    shards: Box<[Shard]>,
}

/// Whom the kernel is told to write: one at a time, as that may sleep.
#[derive(Default)]
struct Behind {
    /// Whether it is to be told of one, or is just now.
    is_taken: AtomicBool,
    /// Of which it is just now.
    telling: Mutex<Option<ObjectId>>,
    told: Condvar,
}

#[derive(Default)]
struct Shard {
    groups: Mutex<Groups>,
    /// Told when as many wait as a group has hoped for.
    complete: Condvar,
}

/// Per object those that wait; an object is in here while a sync of it runs or is about to.
type Groups = HashMap<ObjectId, Group, Mixing>;

#[derive(Default)]
struct Group {
    waiting: Vec<Waiter>,
    /// For how many the next sync waits a little.
    hoped_for: usize,
    /// How many syncs begin at once, because those who were answered did not come back.
    hurried: u32,
}

/// How many syncs begin at once after one that waited in vain.
const HURRIED: u32 = 16;

struct Waiter {
    /// How many syncs had failed when its change began.
    losses: u64,
    descriptor: Arc<Descriptor>,
    extent: Extent,
    answer: oneshot::Sender<Result<(), FsError>>,
}

/// A change that was begun, and the syncs that its answer waits for.
pub(crate) struct Change {
    syncs: Arc<Syncs>,
    /// How many syncs had failed when it began.
    losses: u64,
    joined: Vec<Joined>,
}

/// A place among those that wait for a sync. It starts the sync, if nobody else does, when it is
/// waited for, or dropped: others may count on it.
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

    /// Begins a change, before anything is changed.
    pub(crate) fn begin(self: &Arc<Self>) -> Change {
        let losses = self.losses.load(Ordering::SeqCst);
        Change { syncs: Arc::clone(self), losses, joined: Vec::new() }
    }

    /// What WRITE and COMMIT answer after so many failed syncs.
    fn verifier(&self, losses: u64) -> Verifier {
        // Odd, so that each count of losses gives another verifier.
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let start = u64::from_be_bytes(self.start.0);
        Verifier((start ^ losses.wrapping_mul(SPREAD)).to_be_bytes())
    }

    /// The verifier that WRITE and COMMIT answer now.
    pub(crate) fn now(&self) -> Verifier {
        self.verifier(self.losses.load(Ordering::SeqCst))
    }

    /// Has clients write again what they did not commit.
    pub(crate) fn lose(&self) {
        self.losses.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether changes are synced before they are answered.
    pub(crate) fn are_wanted(&self) -> bool {
        self.durability == Durability::Disk
    }

    /// Whether a COMMIT is synced.
    fn commits_are_wanted(&self) -> bool {
        match self.durability {
            Durability::Disk | Durability::Log => true,
            Durability::Memory => false,
        }
    }

    /// Syncs the whole file system; a failure counts as a loss.
    pub(crate) fn sync_all(&self, file: BorrowedFd<'_>) -> Result<(), FsError> {
        self.sync_at_once(file, Extent::FileSystem)
    }

    /// Syncs one file; a failure counts as a loss.
    pub(crate) fn sync_object(&self, file: BorrowedFd<'_>) -> Result<(), FsError> {
        self.sync_at_once(file, Extent::Object)
    }

    fn sync_at_once(&self, file: BorrowedFd<'_>, extent: Extent) -> Result<(), FsError> {
        self.syncer.sync(file, extent).map_err(|_| {
            self.losses.fetch_add(1, Ordering::SeqCst);
            FsError::Io
        })
    }

    /// Joins the next sync of an object, for a change that began after so many losses.
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
        // A failure is counted before those who wait are told: who comes later sees the count.
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

    /// Has the kernel write what is not to be synced yet, if with what came now it is enough: so many
    /// bytes from there on.
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
        // One of its own, so that the descriptor is closed, and synced for that, as if this were not.
        let Ok(file) = descriptor.as_fd().try_clone_to_owned() else {
            self.behind.is_taken.store(false, Ordering::SeqCst);
            return;
        };
        let (syncs, object) = (Arc::clone(self), *object);
        self.blocking.run(Box::new(move || {
            *lock(&syncs.behind.telling) = Some(object);
            if syncs.syncer.begin(file.as_fd(), offset + u64::from(count)).is_err() {
                // A sync may not be told again, as of what finds no room on the disk.
                syncs.losses.fetch_add(1, Ordering::SeqCst);
            }
            *lock(&syncs.behind.telling) = None;
            syncs.behind.told.notify_all();
            syncs.behind.is_taken.store(false, Ordering::SeqCst);
        }));
    }

    /// Waits until the kernel is not being told to write any of these: what that finds out is of what
    /// was written before.
    fn wait_for_told(&self, is_one: impl Fn(&ObjectId) -> bool) {
        let telling = lock(&self.behind.telling);
        let is_told = |telling: &mut Option<ObjectId>| telling.as_ref().is_some_and(&is_one);
        drop(self.behind.told.wait_while(telling, is_told));
    }

    /// Syncs data by a descriptor that is to be closed, unless its file has no name any more.
    pub(crate) fn sync_at_last(self: Arc<Self>, object: &ObjectId, descriptor: Descriptor) {
        let has_name = rustix::fs::fstat(&descriptor).is_ok_and(|seen| seen.st_nlink > 0);
        if self.commits_are_wanted() && has_name {
            self.begin().join_wanted(object, &Arc::new(descriptor), Extent::Data);
        }
    }

    /// Syncs by these descriptors, and waits for it; the verifier that holds for all that was ever
    /// written, when nothing of that can be lost any more.
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
                    // At once: a COMMIT of the same file would not be told, and must not be late.
                    syncs.losses.fetch_add(1, Ordering::SeqCst);
                }
                // The receiver waits for all.
                let _ = sender.send(result);
            }));
        }
        drop(sender);
        let synced = results.iter().filter(Result::is_ok).count();
        self.wait_for_told(|_| true);
        // What a client gave up waiting for, or what was closed just now, may still be synced.
        let none_runs = self.shards.iter().all(|shard| lock(&shard.groups).is_empty());
        let all = synced == count && none_runs;
        // Last: a failure is counted before its sync counts as no longer running.
        all.then(|| self.verifier(self.losses.load(Ordering::SeqCst)))
    }

    fn start(self: Arc<Self>, object: ObjectId) {
        let blocking = Arc::clone(&self.blocking);
        blocking.run(Box::new(move || self.run(object)));
    }

    /// One sync of an object, and its answers.
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
        // What another sync has lost meanwhile may be of these changes as well.
        let losses = self.losses.load(Ordering::SeqCst);
        for waiter in served {
            let is_whole = waiter.losses == losses;
            // Who asked may have gone.
            let _ = waiter.answer.send(if is_whole { result } else { Err(FsError::Io) });
        }
        if more {
            // Behind whatever else waits for a thread. Who was served is told at the end of this
            // job, so it must not be the one that waits for them.
            let blocking = Arc::clone(&self.blocking);
            blocking.run(Box::new(move || {
                self.gather(&object, took);
                self.run(object);
            }));
        }
    }

    /// Waits a little for those whom a sync has served that took so long.
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

    /// Syncs by every descriptor among the waiters, nearly always one: each tells of losses
    /// since it was opened.
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
    /// So many are answered, and may come back.
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

    /// The next sync begins.
    fn begin(&mut self) {
        if self.is_short() {
            self.hurried = HURRIED;
        }
        self.hoped_for = 0;
    }
}

impl Change {
    /// What a WRITE answers: a loss since it began shows at the COMMIT, which answers with another.
    pub(crate) fn verifier(&self) -> Verifier {
        self.syncs.verifier(self.losses)
    }

    /// Joins the next sync of an object, after it was changed, where any are wanted. The descriptor
    /// must be able to read or to write.
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

    /// Answers: at once, or when all is on stable storage. To be called outside of critical
    /// sections, because work that blocks may be done in place.
    pub(crate) fn settle<T: Send + 'static>(
        self,
        changed: Changed<T>,
    ) -> Answer<'static, Changed<T>> {
        if self.joined.is_empty() {
            return Answer::now(changed);
        }
        Answer::later(async move {
            let Changed { result, wcc } = changed;
            // The kernel reports a loss once, so a later start could not learn of a loss that this
            // server knows of: from the first loss on, the store waits itself.
            let has_lost = self.syncs.losses.load(Ordering::SeqCst) != 0;
            let hands_over = self.syncs.hands_over.load(Ordering::Relaxed) && !has_lost;
            let wait: Wait = Box::pin(self.settled());
            let handed_over = if hands_over { hand_over(wait) } else { Err(wait) };
            let result = match handed_over {
                // The owner of the call waits, and answers for the outcome.
                Ok(()) => result,
                Err(wait) => wait.await.and(result),
            };
            Changed { result, wcc }
        })
    }

    /// Waits until the change is on stable storage.
    async fn settled(self) -> Result<(), FsError> {
        // Changes that came at the same time join the same sync.
        others_first().await;
        // All syncs start before the store waits for the first sync.
        let waits: Vec<_> = self.joined.into_iter().map(Joined::wait).collect();
        let mut settled = Ok(());
        for wait in waits {
            settled = settled.and(wait.await);
        }
        settled
    }

    /// Answers a COMMIT: with the verifier behind the sync, so that a loss before it shows.
    pub(crate) fn settle_commit(self, wcc: Wcc) -> Answer<'static, Changed<Committed>> {
        let syncs = Arc::clone(&self.syncs);
        self.settle(Changed { result: Ok(()), wcc }).map(move |Changed { result, wcc }| {
            let verifier = syncs.verifier(syncs.losses.load(Ordering::SeqCst));
            Changed { result: result.map(|()| Committed { verifier }), wcc }
        })
    }
}

impl Joined {
    /// Starts the sync, if nobody else does, and waits for it.
    fn wait(mut self) -> impl Future<Output = Result<(), FsError>> + Send {
        self.go();
        async move {
            let answer = core::mem::replace(&mut self.answer, oneshot::channel().1);
            // The pool of threads is being taken down: the sync may not have come about.
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
