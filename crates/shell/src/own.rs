//! The identity of the server itself, and the threads that have it.
//!
//! The kernel has a user, a group, supplementary groups and capabilities of file access for each
//! thread, and a new thread inherits them from the thread that starts it. Threads that serve
//! requests act as users. A thread that such a thread starts would open the server's own files as
//! that user.
//!
//! Rules:
//! 1. One thread, the starter, starts every thread of the server. The starter accesses no file and
//!    serves no request, so it always has the identity of the process.
//! 2. File work of the server itself runs on threads that have the identity of the process. Each
//!    function that does such work begins with [`must_be_own`], in release builds as well: a server
//!    that opens its own files as a user can lose data that it has reported as saved.
//! 3. After a thread has acted as a user, the thread must not do file work of the server any more.
//!    When it first acts as a user, a thread gives up two capabilities; if the process has one of
//!    these capabilities, [`must_be_own`] detects by their absence that the thread breaks this
//!    rule.
//! 4. A thread that does file work of the server runs work of a store by [`aside`], on another
//!    thread, because a store acts as users even while it is opened.
//!
//! See `docs/design/0024-own-work.md`.

use std::io;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::process::getgroups;
use rustix::thread::{CapabilitySet, capabilities};

use crate::sys;

/// The properties by which the kernel decides file accesses of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    user: u32,
    group: u32,
    groups: Vec<u32>,
    powers: CapabilitySet,
}

impl Identity {
    /// The identity of the calling thread.
    fn of_this_thread() -> Self {
        let groups = getgroups().unwrap_or_default();
        Self {
            user: sys::file_system_user(),
            group: sys::file_system_group(),
            groups: groups.into_iter().map(rustix::fs::Gid::as_raw).collect(),
            powers: capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective),
        }
    }
}

/// The identity of the process.
fn of_process() -> &'static Identity {
    static OWN: OnceLock<Identity> = OnceLock::new();
    OWN.get_or_init(Identity::of_this_thread)
}

/// An order to start one thread.
type Order = Box<dyn FnOnce() + Send>;

/// The channel to the starter; `None` until the starter exists.
static STARTER: Mutex<Option<Sender<Order>>> = Mutex::new(None);

/// Records the identity of the calling thread as the identity of the process, and starts the
/// starter. A program calls this function before any thread acts as a user, and after it has
/// blocked the signals of the process, because the starter's threads inherit the signal mask. If a
/// program does not call this function, the first use of this module starts the starter.
///
/// # Errors
/// The system cannot start a thread.
pub fn begin() -> io::Result<()> {
    order(Box::new(|| ()))
}

/// Starts a thread that has the identity of the process, regardless of the calling thread.
///
/// # Errors
/// The system cannot start a thread.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let (sender, started) = mpsc::sync_channel(1);
    let name = name.to_owned();
    order(Box::new(move || {
        // The calling thread waits for the result, so the send cannot fail.
        let _ = sender.send(thread::Builder::new().name(name).spawn(work));
    }))?;
    started.recv().unwrap_or_else(|_| Err(io::Error::other("the starter of threads has ended")))
}

/// Runs work of a store on a new thread, so that the calling thread keeps the identity of the
/// process (rule 4). The caller waits for the end of the work and propagates its panic.
///
/// # Errors
/// The system cannot start a thread.
pub fn aside<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("aside".to_owned()).spawn_scoped(scope, work)?;
        Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Sends an order to the starter.
fn order(order: Order) -> io::Result<()> {
    let mut starter = STARTER.lock().unwrap_or_else(PoisonError::into_inner);
    if starter.is_none() {
        of_process();
        let (sender, orders) = mpsc::channel::<Order>();
        let run = move || orders.into_iter().for_each(|order| order());
        thread::Builder::new().name("starter".to_owned()).spawn(run)?;
        *starter = Some(sender);
    }
    let sent = starter.as_ref().map(|sender| sender.send(order));
    match sent {
        Some(Ok(())) => Ok(()),
        Some(Err(_)) | None => Err(io::Error::other("the starter of threads has ended")),
    }
}

/// Returns true if the calling thread has the identity of the process.
#[must_use]
pub fn is_own() -> bool {
    Identity::of_this_thread() == *of_process()
}

/// Checks that the calling thread has the identity of the process (rule 2). The four system calls
/// of the check take less than a microsecond, which is little compared with the hundreds of
/// microseconds of file work.
///
/// # Panics
/// The thread has another identity, which is a fault of this program.
#[track_caller]
pub fn must_be_own() {
    let (now, own) = (Identity::of_this_thread(), of_process());
    assert!(now == *own, "file work of the server runs as {now:?}, and the server is {own:?}");
}

#[cfg(test)]
mod tests {
    use rustix::process::geteuid;

    use super::*;

    /// Makes the calling thread act as an ordinary user, as a store does for a request.
    pub(crate) fn act_as_a_caller() {
        assert!(geteuid().is_root(), "only the superuser can act as callers");
        of_process();
        sys::set_file_system_user(4242);
    }

    #[test]
    fn spawned_thread_has_the_identity_of_the_process() {
        if !geteuid().is_root() {
            // In a process of an ordinary user all threads have the same identity, so the test can
            // check nothing else.
            assert!(is_own());
            return;
        }
        begin().expect("there are threads");
        let caller = thread::spawn(|| {
            act_as_a_caller();
            assert!(!is_own());
            assert!(!thread::spawn(is_own).join().expect("no panic"), "plain threads inherit it");
            spawn("own", is_own).expect("there are threads").join().expect("no panic")
        });
        assert!(caller.join().expect("no panic"));
    }

    #[test]
    fn store_work_aside_keeps_the_identity_of_the_thread() {
        if geteuid().is_root() {
            let is_own_aside = aside(|| {
                act_as_a_caller();
                is_own()
            });
            assert!(!is_own_aside.expect("there are threads"), "the work acts as a caller");
        }
        must_be_own();
    }

    #[test]
    fn file_work_as_a_user_panics() {
        must_be_own();
        if geteuid().is_root() {
            let work = thread::spawn(|| {
                act_as_a_caller();
                must_be_own();
            });
            work.join().expect_err("the thread acts as a caller");
        }
    }
}
