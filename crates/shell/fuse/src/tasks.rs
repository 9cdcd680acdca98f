//! The waiting requests of a session, and the threads that continue these requests.
//!
//! The thread that reads a request polls it. If the request must wait, this module stores (parks)
//! the request. The thread that wakes a request also continues it, which saves a thread switch;
//! usually this is the thread that receives the server's reply. A request that may return much
//! data, or that another request wakes, continues on one of a few workers. A waiting request can be
//! cancelled: its reply is then EINTR, and its future is dropped.

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

/// The interval at which the session checks if processes with interrupted requests are dying.
const GLANCE: Duration = Duration::from_millis(20);

/// A callback for the end of an invalidation.
type Done = Box<dyn FnOnce() + Send>;

/// A request in progress.
pub(crate) struct Task {
    pub(crate) id: RequestId,
    /// The name of the operation for display.
    pub(crate) name: &'static str,
    /// The requesting thread.
    pub(crate) thread: u32,
    pub(crate) since: Instant,
    /// True if the request may return much data.
    is_large: bool,
    /// The future of the request; `None` once it is answered.
    answer: Mutex<Option<Answer>>,
    /// True if the request is in the queue.
    queued: AtomicBool,
    /// True if the request was cancelled and must end with EINTR.
    ended: AtomicBool,
    hub: Weak<Hub>,
}

/// The shared state of a session: all waiting requests, and the device to which replies are
/// written.
pub(crate) struct Hub {
    pub(crate) device: OwnedFd,
    state: Mutex<State>,
    /// Signals that the queue has an entry or that the session has ended.
    woken: Condvar,
    /// Signals that `suspects` has an entry or that the session has ended.
    suspected: Condvar,
    /// Signals that there is an invalidation to send or that the session has ended.
    noticed: Condvar,
    /// The features of the kernel.
    kernel: OnceLock<Kernel>,
}

#[derive(Default)]
struct State {
    parked: BTreeMap<RequestId, Arc<Task>>,
    queue: VecDeque<Arc<Task>>,
    /// Requests whose process may be dying.
    suspects: BTreeSet<RequestId>,
    /// Nodes whose data the kernel must drop.
    notices: BTreeSet<NodeId>,
    /// Nodes whose data the kernel must drop, with a callback for the end.
    withdrawals: VecDeque<(NodeId, Done)>,
    over: bool,
}

/// The properties of a request that are known before its first poll.
pub(crate) struct Begun {
    pub(crate) id: RequestId,
    pub(crate) name: &'static str,
    pub(crate) thread: u32,
    /// True if the requesting process may die without an INTERRUPT: a dying process closes its
    /// descriptors at its end, and for the resulting FLUSH the kernel reports no signal.
    pub(crate) suspect: bool,
    /// True if the reply may be long.
    pub(crate) is_large: bool,
}

thread_local! {
    /// True if this thread is polling a request. If that request wakes another request, a worker
    /// continues the other request, so that polls are not nested.
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

    /// Records the features of the kernel.
    pub(crate) fn agree(&self, kernel: Kernel) {
        // The session negotiates with the kernel once, so `set` cannot fail.
        let _ = self.kernel.set(kernel);
    }

    pub(crate) fn kernel(&self) -> Kernel {
        self.kernel.get().copied().unwrap_or_default()
    }

    /// Replies to a request immediately, or parks it.
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
                // This thread still holds the mutex of the task, so no worker can complete the task
                // before the task is in `parked`.
                let mut state = self.state();
                state.parked.insert(begun.id, Arc::clone(&task));
                if begun.suspect {
                    state.suspects.insert(begun.id);
                    self.suspected.notify_one();
                }
            }
        }
    }

    /// Sends a reply. Ignores the error if the kernel has already given up the request.
    pub(crate) fn answer(&self, id: RequestId, result: &Result<Reply, Errno>) {
        match reply::send(&self.device, id, result) {
            Ok(()) | Err(Errno::NOENT | Errno::NODEV) => {}
            Err(errno) => {
                tracing::error!(%errno, request = id.0, "the kernel rejects a reply");
                // The requesting process still waits for a reply, so the session sends an I/O error
                // instead. If the kernel rejects this reply as well, the request no longer exists.
                let _ = reply::send(&self.device, id, &Err(Errno::IO));
            }
        }
    }

    /// Handles a signal for the process of a request. Returns true if that request is parked.
    pub(crate) fn interrupt(&self, id: RequestId) -> bool {
        let mut state = self.state();
        let here = state.parked.contains_key(&id);
        if here {
            state.suspects.insert(id);
            self.suspected.notify_one();
        }
        here
    }

    /// Continues woken requests until the session ends.
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
        // The flag is cleared before the poll, so that a wake-up during the poll queues the task
        // again and is not lost.
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

    /// Cancels requests of dying processes until the session ends.
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

    /// Requests that the kernel drops the data of a node.
    pub(crate) fn notice(&self, node: NodeId) {
        self.state().notices.insert(node);
        self.noticed.notify_one();
    }

    /// Like [`Self::notice`], but also calls `done` after the kernel has dropped the data. Calls
    /// `done` at once if the session has ended.
    pub(crate) fn withdraw(&self, node: NodeId, done: Done) {
        let mut state = self.state();
        if state.over {
            drop(state);
            return done();
        }
        state.withdrawals.push_back((node, done));
        self.noticed.notify_one();
    }

    /// Sends invalidations to the kernel until the session ends. The kernel completes an
    /// invalidation only when no read of the data is in progress. A request must therefore never
    /// wait for this thread, because that request may be such a read.
    pub(crate) fn tell(&self) {
        let mut state = self.state();
        while !state.over {
            // Invalidations with a callback go first, because a caller waits for the callback.
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

    /// Returns the waiting requests.
    pub(crate) fn parked(&self) -> Vec<Arc<Task>> {
        self.state().parked.values().cloned().collect()
    }

    /// Ends all work and drops parked requests.
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
        // The poison of the mutex is ignored, because no change of the state panics in its middle.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Task {
    /// Polls the future. A panic becomes an error, because the requesting process waits for a
    /// reply.
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
            // If another thread holds the mutex of the task, that thread has just polled the task
            // and is parking it. A worker then continues the task after that thread has released
            // the mutex.
            if let Ok(answer) = self.answer.try_lock() {
                return hub.go_on_with(&self, answer);
            }
        }
        hub.state().queue.push_back(self);
        hub.woken.notify_one();
    }
}
