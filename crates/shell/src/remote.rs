//! How other threads reach a loop.

use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_base::units::Time;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

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
    pub(crate) fn wake(&self, task: u32) {
        self.requests().woken.push(task);
        self.ring();
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
