//! Iods that answer and refuse changes, as an iod does whose file system is read-only.
//!
//! The failure detector (`patient`) knows an iod that does not answer. An iod that answers with an
//! error counts as healthy there, and with two copies no client learns of the error. Rules:
//! 1. An iod that answers a change with the error of a read-only file system refuses changes.
//! 2. Any other error of a change may be an error of one object. The error has the iod probed soon:
//!    a probe is a change that changes nothing ([`crate::Iod::probe`]).
//! 3. A probe that fails says that the iod refuses changes, and a probe that succeeds says that the
//!    iod takes changes.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use futures_util::future::join_all;
use leasehold_fs::FsError;

use crate::Striped as Volume;

/// The last error of each iod that refuses changes.
#[derive(Debug, Default)]
pub(crate) struct Health {
    refusing: Mutex<BTreeMap<u16, FsError>>,
    /// True if a change failed since the last probe.
    is_probe_due: AtomicBool,
}

impl Health {
    fn state<T>(&self, look: impl FnOnce(&mut BTreeMap<u16, FsError>) -> T) -> T {
        look(&mut self.refusing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes note of the error of a change at an iod that is not away.
    pub(crate) fn heard(&self, iod: u16, error: FsError) {
        if error == FsError::ReadOnly {
            self.state(|refusing| refusing.insert(iod, error));
        } else if is_of_iod(error) {
            self.is_probe_due.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns true if an error can say that an iod takes no changes. A full iod is known elsewhere
/// (`full`).
const fn is_of_iod(error: FsError) -> bool {
    matches!(error, FsError::ReadOnly | FsError::Io | FsError::Access | FsError::ServerFault)
}

impl Volume {
    /// The iods that answer and refuse changes, with the error of the last change.
    #[must_use]
    pub fn refusing_iods(&self) -> BTreeMap<u16, FsError> {
        self.health.state(|refusing| refusing.clone())
    }

    /// Returns true if a change failed since the last probe, so that the next probe is due.
    #[must_use]
    pub fn is_probe_due(&self) -> bool {
        self.health.is_probe_due.load(Ordering::Relaxed)
    }

    /// Has each iod that is not away carry out a change that changes nothing, and notes the iods
    /// that refuse the change.
    pub async fn probe_iods(&self) {
        self.health.is_probe_due.store(false, Ordering::Relaxed);
        let there = (0..).zip(&self.iods).filter(|(_, iod)| !iod.is_gone() && !iod.is_away());
        let probes = there.map(async |(number, iod)| (number, iod, iod.probe().await));
        for (number, iod, done) in join_all(probes).await {
            self.health.state(|refusing| match done {
                Ok(()) => drop(refusing.remove(&number)),
                Err(error) if is_of_iod(error) && !iod.is_away() => {
                    refusing.insert(number, error);
                }
                Err(_) => {}
            });
        }
    }
}
