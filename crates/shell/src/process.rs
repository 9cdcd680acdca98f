//! The process: what it may do, what it is told.

use std::io;

use rustix::fs::Mode;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit, umask};
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

/// The number of descriptors that the process has open; none where the system does not tell the
/// number.
#[must_use]
pub fn open_descriptors() -> Option<usize> {
    // One of the descriptors is for the directory itself.
    std::fs::read_dir("/proc/self/fd").ok().map(|all| all.count().saturating_sub(1))
}

/// Whether the process may act as any user.
#[must_use]
pub fn can_act_as_others() -> bool {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    capabilities(None).is_ok_and(|have| have.effective.contains(needed))
}

/// Whether the process may open what a handle names, wherever that lies.
#[must_use]
pub fn can_open_handles() -> bool {
    capabilities(None).is_ok_and(|have| have.effective.contains(CapabilitySet::DAC_READ_SEARCH))
}

/// What a process is asked by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To end: SIGINT or SIGTERM.
    End,
    /// To read its configuration again: SIGHUP.
    Reload,
    /// To start anew with what it has: SIGUSR2.
    Restart,
}

/// The requests that come by signals.
#[derive(Debug)]
pub struct Termination {
    signals: &'static [i32],
}

impl Termination {
    /// Keeps the signals that ask to end. To be called before any thread is started.
    #[must_use]
    pub fn prepare() -> Self {
        Self::of(&[libc::SIGINT, libc::SIGTERM])
    }

    /// Keeps all signals of a server, with the one that asks to read the configuration again if
    /// there is one. To be called before any thread is started.
    #[must_use]
    pub fn prepare_server(reloads: bool) -> Self {
        Self::of(match reloads {
            true => &[libc::SIGINT, libc::SIGTERM, libc::SIGUSR2, libc::SIGHUP],
            false => &[libc::SIGINT, libc::SIGTERM, libc::SIGUSR2],
        })
    }

    /// Keeps the signals that ask a program to end, where the program has nothing to reload: also
    /// keeps the signal of a terminal that is gone. A program calls this function before it starts
    /// any thread.
    #[must_use]
    pub fn prepare_program() -> Self {
        Self::of(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])
    }

    /// Waits until a signal asks a program to end, and returns in words the signal and the process
    /// that sent it. A second signal ends the program at once.
    #[must_use]
    pub fn wait_told(self) -> String {
        let (signal, sender) = sys::wait_for_signal_of(self.signals);
        sys::block_signals(self.signals, false);
        let name = match signal {
            libc::SIGINT => "SIGINT",
            libc::SIGHUP => "SIGHUP",
            _ => "SIGTERM",
        };
        format!("{name} of process {sender}")
    }

    fn of(signals: &'static [i32]) -> Self {
        sys::block_signals(signals, true);
        Self { signals }
    }

    /// Waits for the next request. Once that was to end, a second one ends the process at once.
    #[must_use]
    pub fn next(&self) -> Asked {
        match sys::wait_for_signal(self.signals) {
            libc::SIGHUP => Asked::Reload,
            libc::SIGUSR2 => Asked::Restart,
            _ => {
                sys::block_signals(self.signals, false);
                Asked::End
            }
        }
    }

    /// Waits until the process is asked to end.
    pub fn wait(self) {
        while self.next() != Asked::End {}
    }
}

/// Asks a server to start anew.
///
/// # Errors
/// When there is no such process, or it is another user's.
pub fn request_restart(pid: u32) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
    Ok(kill_process(pid, Signal::USR2)?)
}
