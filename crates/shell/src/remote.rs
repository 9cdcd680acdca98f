//! The interface of a loop to other threads.

use core::cell::RefCell;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering};
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_base::units::Time;
use leasehold_base::xdr::Message;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::report::Told;
use crate::slab::Key;
use crate::sys::Route;

/// The interface of a loop to other threads: a list of requests, and a bell, which is the
/// descriptor by which other threads wake the loop.
#[derive(Debug)]
pub(crate) struct Remote {
    /// The index of the loop.
    pub(crate) index: usize,
    bell: OwnedFd,
    /// True if a thread has rung the bell and the loop has not reacted yet. Further requests then
    /// need not ring the bell, so that one system call serves any number of requests.
    rung: AtomicBool,
    requests: Mutex<Requests>,
}

/// The requests of other threads to a loop.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Calls to continue.
    pub(crate) woken: Vec<u32>,
    /// New connections to serve.
    pub(crate) connections: Vec<Accepted>,
    /// Addresses of which the loop closes the connection that has been idle for longest, because
    /// another address needs a connection.
    pub(crate) crowding: Vec<IpAddr>,
    /// Unsolicited messages for clients.
    pub(crate) posted: Vec<(Key, Message)>,
    /// Unsolicited datagrams, with their destination and local source address.
    pub(crate) datagrams: Vec<(Route, Message)>,
    /// Connections that have received the permission to send a large reply (see `send_scheduler`).
    pub(crate) departing: Vec<Key>,
    /// True if the loop must call the handler's `wake` now.
    pub(crate) hurried: bool,
    /// The receivers of the loop's counters.
    pub(crate) told: Vec<Sender<Box<Told>>>,
    /// The deadline of the stop, if the loop must stop.
    pub(crate) stop: Option<Time>,
}

/// An accepted connection.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) socket: OwnedFd,
    pub(crate) from: SocketAddr,
}

impl Remote {
    pub(crate) fn new(index: usize) -> Result<Self, Errno> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { index, bell, rung: AtomicBool::new(false), requests: Mutex::default() })
    }

    /// Returns the descriptor that becomes readable when there are requests. The loop never reads
    /// the descriptor, which therefore stays readable; the loop must use edge-triggered events.
    pub(crate) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// Informs the loop that one of its calls can continue.
    pub(crate) fn wake(self: &Arc<Self>, task: u32) {
        let kept = KEPT_BACK.try_with(|kept| match &mut *kept.borrow_mut() {
            KeptBack::OfLoop { remote, woken } if Arc::ptr_eq(remote, self) => {
                woken.push(task);
                true
            }
            KeptBack::OfJob(woken) => {
                woken.push((Arc::clone(self), task));
                true
            }
            KeptBack::OfLoop { .. } | KeptBack::Nothing => false,
        });
        if !kept.unwrap_or(false) {
            self.requests().woken.push(task);
            self.ring();
        }
    }

    /// Makes the calling thread, which must be the loop's own thread, collect the wake-ups for the
    /// loop's own calls. Such wake-ups then need no system call.
    pub(crate) fn keep_own(self: &Arc<Self>) {
        let own = KeptBack::OfLoop { remote: Arc::clone(self), woken: Vec::new() };
        KEPT_BACK.set(own);
    }

    /// Passes a connection to the loop.
    pub(crate) fn serve(&self, connection: Accepted) {
        self.requests().connections.push(connection);
        self.ring();
    }

    /// Makes the loop close the connection from an address that has been idle for longest.
    pub(crate) fn crowd_out(&self, address: IpAddr) {
        self.requests().crowding.push(address);
        self.ring();
    }

    /// Sends an unsolicited message to a client.
    pub(crate) fn post(&self, to: Key, message: Message) {
        self.requests().posted.push((to, message));
        self.ring();
    }

    /// Sends an unsolicited datagram to a client.
    pub(crate) fn post_datagram(&self, route: Route, message: Message) {
        self.requests().datagrams.push((route, message));
        self.ring();
    }

    /// Informs a connection that it has the permission to send a large reply.
    pub(crate) fn depart(&self, connection: Key) {
        self.requests().departing.push(connection);
        self.ring();
    }

    /// Makes the loop call the handler's `wake`.
    pub(crate) fn hurry(&self) {
        self.requests().hurried = true;
        self.ring();
    }

    /// Requests the counters of the loop.
    pub(crate) fn tell(&self, whom: Sender<Box<Told>>) {
        self.requests().told.push(whom);
        self.ring();
    }

    /// Stops the loop, at the latest at `deadline`.
    pub(crate) fn stop(&self, deadline: Time) {
        self.requests().stop = Some(deadline);
        self.ring();
    }

    /// Moves all requests into `into`, whose lists must be empty.
    pub(crate) fn take(&self, into: &mut Requests) {
        if self.rung.swap(false, Ordering::AcqRel) {
            core::mem::swap(&mut *self.requests(), into);
        }
    }

    fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            // The write of the counter fails only after 2^64 rings, so the result is ignored.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        // The poison of the mutex is ignored: the lists are consistent even if a thread panicked
        // before it added an entry.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The wake-ups that a thread defers.
#[derive(Default)]
enum KeptBack {
    /// The thread defers no wake-ups and delivers each at once.
    #[default]
    Nothing,
    /// The wake-ups of a loop for its own calls.
    OfLoop { remote: Arc<Remote>, woken: Vec<u32> },
    /// The wake-ups of a job, until its end.
    OfJob(Vec<(Arc<Remote>, u32)>),
}

thread_local! {
    static KEPT_BACK: RefCell<KeptBack> = const { RefCell::new(KeptBack::Nothing) };
}

/// Returns true if the loop of this thread has woken calls of its own.
pub(crate) fn has_own() -> bool {
    KEPT_BACK
        .with_borrow(|kept| matches!(kept, KeptBack::OfLoop { woken, .. } if !woken.is_empty()))
}

/// Moves the list of calls that the loop of this thread has woken itself into `into`, which must be
/// empty.
pub(crate) fn take_own(into: &mut Vec<u32>) {
    KEPT_BACK.with_borrow_mut(|kept| {
        if let KeptBack::OfLoop { woken, .. } = kept {
            core::mem::swap(woken, into);
        }
    });
}

/// Runs a job, and delivers the wake-ups of the job at its end. Calls that waited for the same
/// result are then answered together, and their clients continue together. On a loop's own thread
/// the wake-ups for the loop's own calls are collected as usual.
pub(crate) fn told_at_the_end(work: impl FnOnce()) {
    struct Telling;

    impl Drop for Telling {
        fn drop(&mut self) {
            let KeptBack::OfJob(woken) = KEPT_BACK.take() else { return };
            for of_one in woken.chunk_by(|(one, _), (other, _)| Arc::ptr_eq(one, other)) {
                let Some((remote, _)) = of_one.first() else { continue };
                remote.requests().woken.extend(of_one.iter().map(|(_, task)| *task));
                remote.ring();
            }
        }
    }

    if KEPT_BACK.with_borrow(|kept| matches!(kept, KeptBack::OfLoop { .. })) {
        return work();
    }
    KEPT_BACK.set(KeptBack::OfJob(Vec::new()));
    // The drop of this guard delivers the wake-ups, even if the job panics.
    let _telling = Telling;
    work();
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    use super::*;

    fn told(remote: &Remote) -> Vec<u32> {
        let mut requests = Requests::default();
        remote.take(&mut requests);
        requests.woken
    }

    #[test]
    fn wakeups_of_a_job_are_delivered_together_at_its_end() {
        let remotes = [0, 1].map(|index| Arc::new(Remote::new(index).expect("an eventfd")));
        let work = || {
            for (task, remote) in [(1, 0), (2, 0), (3, 1), (4, 0)] {
                remotes[remote].wake(task);
            }
            assert!(remotes.iter().all(|remote| told(remote).is_empty()));
            panic!("the wake-ups are delivered all the same");
        };
        assert!(catch_unwind(AssertUnwindSafe(|| told_at_the_end(work))).is_err());
        assert_eq!(remotes.each_ref().map(|remote| told(remote)), [vec![1, 2, 4], vec![3]]);
        remotes[0].wake(5);
        assert_eq!(told(&remotes[0]), [5], "nothing is kept back behind the job");
    }

    #[test]
    fn loop_wakes_its_own_calls_without_the_bell() {
        let [here, elsewhere] = [0, 1].map(|index| Arc::new(Remote::new(index).expect("one")));
        here.keep_own();
        here.wake(1);
        elsewhere.wake(2);
        assert!(has_own());
        assert!(!here.rung.load(Ordering::SeqCst) && told(&elsewhere) == [2]);
        let mut own = Vec::new();
        take_own(&mut own);
        assert!(own == [1] && !has_own());
        told_at_the_end(|| here.wake(4));
        assert!(has_own(), "also behind work that the loop does itself");
        take_own(&mut Vec::new());
        thread::scope(|threads| threads.spawn(|| here.wake(3)).join().expect("it wakes"));
        assert_eq!(told(&here), [3]);
    }
}
