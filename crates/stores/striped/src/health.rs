//! Detection of iods that answer but refuse changes, for example because their file system is
//! read-only.
//!
//! The failure detector ([`crate::RetryingIod`]) detects only iods that do not answer. An iod that
//! answers with errors counts as reachable there, and if files have two copies, no client receives
//! the errors. Therefore this module reports such iods to the administrator. Rules:
//! 1. An iod that answers a change with NFS3ERR_ROFS refuses changes.
//! 2. Any other error of a change may concern one object only. After such an error, the store soon
//!    makes a health check (probe) of the iods. The health check is a change without effect
//!    ([`crate::Iod::probe`]).
//! 3. If the health check fails, the iod refuses changes; if it succeeds, the iod accepts changes.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use futures_util::future::join_all;
use leasehold_fs::FsError;

use crate::Striped;

/// The last error of each iod that refuses changes.
#[derive(Debug, Default)]
pub(crate) struct Health {
    refusing: Mutex<BTreeMap<u16, FsError>>,
    /// True if a change failed since the last health check, so that a health check is due.
    is_probe_due: AtomicBool,
}

impl Health {
    fn state<T>(&self, look: impl FnOnce(&mut BTreeMap<u16, FsError>) -> T) -> T {
        look(&mut self.refusing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records the error of a change at a reachable iod.
    pub(crate) fn heard(&self, iod: u16, error: FsError) {
        if error == FsError::ReadOnly {
            self.state(|refusing| refusing.insert(iod, error));
        } else if is_of_iod(error) {
            self.is_probe_due.store(true, Ordering::Relaxed);
        }
    }
}

/// Returns true if an error can mean that an iod refuses all changes. The module `full` handles
/// full iods.
const fn is_of_iod(error: FsError) -> bool {
    matches!(error, FsError::ReadOnly | FsError::Io | FsError::Access | FsError::ServerFault)
}

impl Striped {
    /// Returns the iods that answer and refuse changes, with the error of the last change.
    #[must_use]
    pub fn refusing_iods(&self) -> BTreeMap<u16, FsError> {
        self.health.state(|refusing| refusing.clone())
    }

    /// Returns true if a change failed since the last health check, so that the next health check
    /// is due.
    #[must_use]
    pub fn is_probe_due(&self) -> bool {
        self.health.is_probe_due.load(Ordering::Relaxed)
    }

    /// Makes a health check of each reachable iod, and records the iods that refuse the change.
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
