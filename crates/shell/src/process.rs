//! The process: its limits, its privileges, and requests by signals.

use std::io;

use rustix::fs::Mode;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit, umask};
use rustix::thread::{CapabilitySet, capabilities};

use crate::sys;

/// Prepares the process to serve, and returns the maximum number of descriptors.
///
/// Files receive exactly the mode that a client requests (no umask), the limit of descriptors is
/// raised as far as the system permits, and a write beyond the file size limit returns an error
/// instead of ending the process by a signal.
pub fn prepare() -> usize {
    umask(Mode::empty());
    sys::ignore_file_size_signal();
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let limit = if setrlimit(Resource::Nofile, raised).is_ok() { raised } else { limit };
    limit.current.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Returns the number of open descriptors; `None` if the system does not report it.
#[must_use]
pub fn open_descriptors() -> Option<usize> {
    // The listing itself has one descriptor open, which does not count.
    std::fs::read_dir("/proc/self/fd").ok().map(|all| all.count().saturating_sub(1))
}

/// Returns true if the process may act as any user.
#[must_use]
pub fn can_act_as_others() -> bool {
    has(CapabilitySet::SETUID | CapabilitySet::SETGID)
}

/// Returns true if the process may open objects by handle anywhere.
#[must_use]
pub fn can_open_handles() -> bool {
    has(CapabilitySet::DAC_READ_SEARCH)
}

/// Returns true if the process may take kernel leases on files of any user (fcntl(2), F_SETLEASE).
#[must_use]
pub fn can_take_leases() -> bool {
    has(CapabilitySet::LEASE)
}

/// Returns true if the process has all these capabilities.
fn has(needed: CapabilitySet) -> bool {
    capabilities(None).is_ok_and(|have| have.effective.contains(needed))
}

/// A request to the process by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Stop: SIGINT or SIGTERM.
    End,
    /// Reload the configuration: SIGHUP.
    Reload,
    /// Restart with the sockets of the running server: SIGUSR2.
    Restart,
}

/// Requests to the process by signals.
#[derive(Debug)]
pub struct Termination {
    signals: &'static [i32],
}

impl Termination {
    /// Blocks the signals that request an end. A program calls this function before it starts any
    /// thread.
    #[must_use]
    pub fn prepare() -> Self {
        Self::of(&[libc::SIGINT, libc::SIGTERM])
    }

    /// Blocks all signals of a server, including SIGHUP if it reloads its configuration. A program
    /// calls this function before it starts any thread.
    #[must_use]
    pub fn prepare_server(reloads: bool) -> Self {
        Self::of(match reloads {
            true => &[libc::SIGINT, libc::SIGTERM, libc::SIGUSR2, libc::SIGHUP],
            false => &[libc::SIGINT, libc::SIGTERM, libc::SIGUSR2],
        })
    }

    /// Blocks the signals that request the end of a program without configuration, including SIGHUP
    /// of a closed terminal. A program calls this function before it starts any thread.
    #[must_use]
    pub fn prepare_program() -> Self {
        Self::of(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])
    }

    /// Waits until a signal requests the end of the program. Returns a text with the signal and its
    /// sender. A second such signal ends the program at once.
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

    /// Waits for the next request by a signal. After [`Asked::End`] a second signal that requests
    /// the end terminates the process at once.
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

    /// Waits for a signal that requests the end of the process.
    pub fn wait(self) {
        while self.next() != Asked::End {}
    }
}

/// Requests a restart of a server.
///
/// # Errors
/// The process does not exist, or it belongs to another user.
pub fn request_restart(pid: u32) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
    Ok(kill_process(pid, Signal::USR2)?)
}
