//! How other threads reach a loop.

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

/// A loop, as other threads see it: a list of what they want of it, and a bell.
#[derive(Debug)]
pub(crate) struct Remote {
    /// The number of the loop.
    pub(crate) index: usize,
    bell: OwnedFd,
    /// Whether the bell was rung and not yet heard: one system call for any number of requests.
    rung: AtomicBool,
    requests: Mutex<Requests>,
}

/// What other threads want of a loop.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Calls that can go on.
    pub(crate) woken: Vec<u32>,
    /// Connections to be served.
    pub(crate) connections: Vec<Accepted>,
    /// Addresses of which the connection that rested for longest makes room for another's.
    pub(crate) crowding: Vec<IpAddr>,
    /// Messages for clients that did not ask for them.
    pub(crate) posted: Vec<(Key, Message)>,
    /// The same by datagrams: to whom, and from which address of this machine.
    pub(crate) datagrams: Vec<(Route, Message)>,
    /// Connections that have their turn to send a large reply.
    pub(crate) departing: Vec<Key>,
    /// Whether the handler is to be woken now.
    pub(crate) hurried: bool,
    /// Where to tell what was counted.
    pub(crate) told: Vec<Sender<Box<Told>>>,
    /// To end, at the latest at the moment given.
    pub(crate) stop: Option<Time>,
}

/// A connection that was accepted.
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

    /// What becomes readable when there are requests. It stays so: only the edge means something.
    pub(crate) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// Tells the loop that a call of its can go on.
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

    /// Has the wake-ups kept for the loop that come about on the calling thread, which is its own:
    /// they cost no system call.
    pub(crate) fn keep_own(self: &Arc<Self>) {
        let own = KeptBack::OfLoop { remote: Arc::clone(self), woken: Vec::new() };
        KEPT_BACK.set(own);
    }

    /// Hands a connection over.
    pub(crate) fn serve(&self, connection: Accepted) {
        self.requests().connections.push(connection);
        self.ring();
    }

    /// Has the connection closed that rested for longest of those from an address.
    pub(crate) fn crowd_out(&self, address: IpAddr) {
        self.requests().crowding.push(address);
        self.ring();
    }

    /// Has a message sent to a client that did not ask for it.
    pub(crate) fn post(&self, to: Key, message: Message) {
        self.requests().posted.push((to, message));
        self.ring();
    }

    /// Has a datagram sent to a client that did not ask for it.
    pub(crate) fn post_datagram(&self, route: Route, message: Message) {
        self.requests().datagrams.push((route, message));
        self.ring();
    }

    /// Tells a connection that it has its turn to send a large reply.
    pub(crate) fn depart(&self, connection: Key) {
        self.requests().departing.push(connection);
        self.ring();
    }

    /// Has the handler woken.
    pub(crate) fn hurry(&self) {
        self.requests().hurried = true;
        self.ring();
    }

    /// Has the loop tell what it has counted.
    pub(crate) fn tell(&self, whom: Sender<Box<Told>>) {
        self.requests().told.push(whom);
        self.ring();
    }

    /// Ends the loop, at the latest at `deadline`.
    pub(crate) fn stop(&self, deadline: Time) {
        self.requests().stop = Some(deadline);
        self.ring();
    }

    /// Takes all requests, into lists that are empty.
    pub(crate) fn take(&self, into: &mut Requests) {
        if self.rung.swap(false, Ordering::AcqRel) {
            core::mem::swap(&mut *self.requests(), into);
        }
    }

    fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            // Fails only after 2^64 rings.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        // The lists are whole whatever a thread that died was about to add.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The wake-ups that a thread keeps back.
#[derive(Default)]
enum KeptBack {
    /// None: each is told at once.
    #[default]
    Nothing,
    /// Those that a loop gives itself.
    OfLoop { remote: Arc<Remote>, woken: Vec<u32> },
    /// Those of a piece of work, until its end.
    OfJob(Vec<(Arc<Remote>, u32)>),
}

thread_local! {
    static KEPT_BACK: RefCell<KeptBack> = const { RefCell::new(KeptBack::Nothing) };
}

/// Whether the loop of this thread has woken calls of its own.
pub(crate) fn has_own() -> bool {
    KEPT_BACK
        .with_borrow(|kept| matches!(kept, KeptBack::OfLoop { woken, .. } if !woken.is_empty()))
}

/// Takes the calls that the loop of this thread has woken itself, into a list that is empty.
pub(crate) fn take_own(into: &mut Vec<u32>) {
    KEPT_BACK.with_borrow_mut(|kept| {
        if let KeptBack::OfLoop { woken, .. } = kept {
            core::mem::swap(woken, into);
        }
    });
}

/// Does a piece of work, and tells loops only at its end which calls can go on: those that waited
/// for one thing are then answered together, and their clients go on together. A loop that does it
/// itself keeps its own in any case.
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
    // Told as well where the work panics.
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
    fn what_one_job_wakes_is_told_together_and_at_its_end() {
        let remotes = [0, 1].map(|index| Arc::new(Remote::new(index).expect("an eventfd")));
        let work = || {
            for (task, remote) in [(1, 0), (2, 0), (3, 1), (4, 0)] {
                remotes[remote].wake(task);
            }
            assert!(remotes.iter().all(|remote| told(remote).is_empty()));
            panic!("told all the same");
        };
        assert!(catch_unwind(AssertUnwindSafe(|| told_at_the_end(work))).is_err());
        assert_eq!(remotes.each_ref().map(|remote| told(remote)), [vec![1, 2, 4], vec![3]]);
        remotes[0].wake(5);
        assert_eq!(told(&remotes[0]), [5], "nothing is kept back behind the job");
    }

    #[test]
    fn a_loop_wakes_its_own_calls_without_the_bell() {
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
