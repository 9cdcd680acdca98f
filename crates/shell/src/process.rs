//! The process: what it may do, what it is told.

use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, umask};
use rustix::thread::{CapabilitySet, capabilities};

use crate::sys;

/// Makes the process fit to serve, and returns how many descriptors it may have.
///
/// Files get exactly the mode that a client asks for (no umask), as many descriptors are allowed
/// as the system grants, and a file that grows beyond a limit of the process makes an error, not
/// a signal that ends it.
pub fn prepare() -> usize {
    umask(Mode::empty());
    sys::ignore_file_size_signal();
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let limit = if setrlimit(Resource::Nofile, raised).is_ok() { raised } else { limit };
    limit.current.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Whether the process may act as any user.
#[must_use]
pub fn can_act_as_others() -> bool {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    capabilities(None).is_ok_and(|have| have.effective.contains(needed))
}

/// The request to end: SIGINT or SIGTERM.
#[derive(Debug)]
pub struct Termination(());

impl Termination {
    /// Keeps the signals for [`Termination::wait`]. To be called before any thread is started.
    #[must_use]
    pub fn prepare() -> Self {
        sys::block_termination(true);
        Self(())
    }

    /// Waits until the process is asked to end. From then on a second request ends it at once.
    pub fn wait(self) {
        sys::wait_for_termination();
        sys::block_termination(false);
    }
}
