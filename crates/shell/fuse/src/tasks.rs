//! Requests that wait, and who goes on with them.
//!
//! A request is polled where it was read; if it must wait it is parked here. When it is woken it
//! goes on where that comes about, on the thread that hears the server say, which saves a change of
//! threads; what brings much data, or is woken by another request, goes on on one of a few workers.
//! A request that waits can be ended: it is then answered EINTR and its future dropped.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::dying::is_dying;
use crate::init::Kernel;
use crate::notify::invalidate;
use crate::{Answer, NodeId, Reply, RequestId, reply};

/// How often the processes of suspects are looked at.
const GLANCE: Duration = Duration::from_millis(20);

/// What is called when the kernel has dropped data.
type Done = Box<dyn FnOnce() + Send>;

/// A request under way.
pub(crate) struct Task {
    pub(crate) id: RequestId,
    /// Its operation, for people.
    pub(crate) name: &'static str,
    /// The thread that asked.
    pub(crate) thread: u32,
    pub(crate) since: Instant,
    /// Whether it may bring much data.
    is_large: bool,
    /// What it will come to; nothing once it is answered.
    answer: Mutex<Option<Answer>>,
    /// Whether it stands in the queue.
    queued: AtomicBool,
    /// Whether it is to end without a result.
    ended: AtomicBool,
    hub: Weak<Hub>,
}

/// All requests that wait, and the device that answers go to.
pub(crate) struct Hub {
    pub(crate) device: OwnedFd,
    state: Mutex<State>,
    /// There is something in the queue, or all is over.
    woken: Condvar,
    /// There is a suspect, or all is over.
    suspected: Condvar,
    /// There is a notice, or all is over.
    noticed: Condvar,
    /// What the kernel can do.
    kernel: OnceLock<Kernel>,
}

#[derive(Default)]
struct State {
    parked: BTreeMap<RequestId, Arc<Task>>,
    queue: VecDeque<Arc<Task>>,
    /// Requests whose process may be dying.
    suspects: BTreeSet<RequestId>,
    /// Nodes whose data the kernel is to drop.
    notices: BTreeSet<NodeId>,
    /// The same, where somebody waits for that.
    withdrawals: VecDeque<(NodeId, Done)>,
    over: bool,
}

/// What of a request is said before it is known whether it has to wait.
pub(crate) struct Begun {
    pub(crate) id: RequestId,
    pub(crate) name: &'static str,
    pub(crate) thread: u32,
    /// Whether its process may die without an INTERRUPT: closing descriptors is the last thing it
    /// does, and no signal is told of then.
    pub(crate) suspect: bool,
    /// Whether its answer may be long.
    pub(crate) is_large: bool,
}

thread_local! {
    /// Whether this thread goes on with a request: another that it wakes is for a worker.
    static AT_WORK: Cell<bool> = const { Cell::new(false) };
}

impl Hub {
    pub(crate) fn new(device: OwnedFd) -> Self {
        Self {
            device,
            state: Mutex::default(),
            woken: Condvar::new(),
            suspected: Condvar::new(),
            noticed: Condvar::new(),
            kernel: OnceLock::new(),
        }
    }

    /// What the kernel can do is known.
    pub(crate) fn agree(&self, kernel: Kernel) {
        // It says so once.
        let _ = self.kernel.set(kernel);
    }

    pub(crate) fn kernel(&self) -> Kernel {
        self.kernel.get().copied().unwrap_or_default()
    }

    /// Answers a request now, or parks it.
    pub(crate) fn begin(self: &Arc<Self>, begun: &Begun, answer: Answer) {
        let task = Arc::new(Task {
            id: begun.id,
            name: begun.name,
            thread: begun.thread,
            since: Instant::now(),
            is_large: begun.is_large,
            answer: Mutex::new(Some(answer)),
            queued: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            hub: Arc::downgrade(self),
        });
        let mut answer = task.answer.lock().unwrap_or_else(PoisonError::into_inner);
        match task.poll(&mut answer) {
            Poll::Ready(result) => self.answer(begun.id, &result),
            Poll::Pending => {
                // Under the task's lock, so that no worker is done with it before it is here.
                let mut state = self.state();
                state.parked.insert(begun.id, Arc::clone(&task));
                if begun.suspect {
                    state.suspects.insert(begun.id);
                    self.suspected.notify_one();
                }
            }
        }
    }

    /// Sends an answer. A request that the kernel has given up is none of our concern any more.
    pub(crate) fn answer(&self, id: RequestId, result: &Result<Reply, Errno>) {
        match reply::send(&self.device, id, result) {
            Ok(()) | Err(Errno::NOENT | Errno::NODEV) => {}
            Err(errno) => {
                tracing::error!(%errno, request = id.0, "the kernel does not take an answer");
                // It must have one: what asked waits for it. If it takes none, it is gone.
                let _ = reply::send(&self.device, id, &Err(Errno::IO));
            }
        }
    }

    /// The process of a request got a signal. Whether that request is here.
    pub(crate) fn interrupt(&self, id: RequestId) -> bool {
        let mut state = self.state();
        let here = state.parked.contains_key(&id);
        if here {
            state.suspects.insert(id);
            self.suspected.notify_one();
        }
        here
    }

    /// Goes on with requests that are woken, until all is over.
    pub(crate) fn work(&self) {
        loop {
            let mut state = self.state();
            let task = loop {
                if state.over {
                    return;
                }
                match state.queue.pop_front() {
                    Some(task) => break task,
                    None => {
                        state = self.woken.wait(state).unwrap_or_else(PoisonError::into_inner);
                    }
                }
            };
            drop(state);
            self.go_on(&task);
        }
    }

    fn go_on(&self, task: &Arc<Task>) {
        let answer = task.answer.lock().unwrap_or_else(PoisonError::into_inner);
        self.go_on_with(task, answer);
    }

    fn go_on_with(&self, task: &Arc<Task>, mut answer: MutexGuard<'_, Option<Answer>>) {
        // What wakes it from here on queues it again.
        task.queued.store(false, Ordering::SeqCst);
        if answer.is_none() {
            return;
        }
        let result = if task.ended.load(Ordering::SeqCst) {
            *answer = None;
            Err(Errno::INTR)
        } else {
            match task.poll(&mut answer) {
                Poll::Pending => return,
                Poll::Ready(result) => result,
            }
        };
        drop(answer);
        let mut state = self.state();
        state.parked.remove(&task.id);
        state.suspects.remove(&task.id);
        drop(state);
        self.answer(task.id, &result);
    }

    /// Ends requests of processes that are dying, until all is over.
    pub(crate) fn watch(&self) {
        let mut state = self.state();
        while !state.over {
            if state.suspects.is_empty() {
                state = self.suspected.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let suspects: Vec<_> =
                state.suspects.iter().filter_map(|id| state.parked.get(id).cloned()).collect();
            drop(state);
            for task in suspects.iter().filter(|task| is_dying(task.thread)) {
                task.ended.store(true, Ordering::SeqCst);
                Arc::clone(task).wake();
            }
            state = self.state();
            let again = self.suspected.wait_timeout(state, GLANCE);
            state = again.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The kernel is to drop the data of a node.
    pub(crate) fn notice(&self, node: NodeId) {
        self.state().notices.insert(node);
        self.noticed.notify_one();
    }

    /// The same, and `done` is called when that is so; at once where all is over.
    pub(crate) fn withdraw(&self, node: NodeId, done: Done) {
        let mut state = self.state();
        if state.over {
            drop(state);
            return done();
        }
        state.withdrawals.push_back((node, done));
        self.noticed.notify_one();
    }

    /// Has the kernel drop data, until all is over. It answers when no read of it is under way, so
    /// no request may wait for this.
    pub(crate) fn tell(&self) {
        let mut state = self.state();
        while !state.over {
            // What somebody waits for comes first.
            let (node, done) = if let Some((node, done)) = state.withdrawals.pop_front() {
                (node, Some(done))
            } else if let Some(node) = state.notices.pop_first() {
                (node, None)
            } else {
                state = self.noticed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            invalidate(self, node, 0);
            if let Some(done) = done {
                done();
            }
            state = self.state();
        }
        let withdrawals = core::mem::take(&mut state.withdrawals);
        drop(state);
        withdrawals.into_iter().for_each(|(_, done)| done());
    }

    /// The requests that wait.
    pub(crate) fn parked(&self) -> Vec<Arc<Task>> {
        self.state().parked.values().cloned().collect()
    }

    /// Ends all work; what is parked is dropped.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        state.over = true;
        state.queue.clear();
        let parked = std::mem::take(&mut state.parked);
        drop(state);
        self.woken.notify_all();
        self.suspected.notify_all();
        self.noticed.notify_all();
        drop(parked);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves it as it was: no step of ours panics half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Task {
    /// Polls what it will come to; what panics comes to an error, for somebody waits for it.
    fn poll(self: &Arc<Self>, answer: &mut Option<Answer>) -> Poll<Result<Reply, Errno>> {
        let Some(future) = answer else { return Poll::Pending };
        let waker = Waker::from(Arc::clone(self));
        let mut context = Context::from_waker(&waker);
        let was_at_work = AT_WORK.replace(true);
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
        AT_WORK.set(was_at_work);
        let result = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(result)) => result,
            Err(_) => {
                tracing::error!(operation = self.name, "an operation panicked");
                Err(Errno::IO)
            }
        };
        *answer = None;
        Poll::Ready(result)
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if self.queued.swap(true, Ordering::SeqCst) {
            return;
        }
        let Some(hub) = self.hub.upgrade() else { return };
        if !self.is_large && !AT_WORK.get() {
            // Where another thread has just polled it, and parks it now, a worker waits for that.
            if let Ok(answer) = self.answer.try_lock() {
                return hub.go_on_with(&self, answer);
            }
        }
        hub.state().queue.push_back(self);
        hub.woken.notify_one();
    }
}
