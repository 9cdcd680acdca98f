//! The mounts that clients have reported. The server only lists these mounts, and no decision
//! depends on them (RFC 1813 5.2.2).

use core::net::IpAddr;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The maximum number of recorded mounts. Further mounts work, but DUMP does not list them.
const MOUNTS_MAX: usize = 4096;

/// The maximum number of recorded mounts of one client. This number of mounts fits into a datagram,
/// and no client can fill the table alone.
const CLIENT_MOUNTS_MAX: usize = 16;

/// The mounts that clients have reported and not removed.
#[derive(Default)]
pub(crate) struct MountTable(Mutex<BTreeSet<Mount>>);

/// A client, and the canonical path of the directory that it has mounted.
pub(crate) type Mount = (IpAddr, Vec<u8>);

impl MountTable {
    pub(super) fn add(&self, client: IpAddr, path: Vec<u8>) {
        let mut mounts = self.lock();
        if mounts.len() < MOUNTS_MAX && of(&mounts, client).count() < CLIENT_MOUNTS_MAX {
            mounts.insert((client, path));
        }
    }

    pub(super) fn remove(&self, client: IpAddr, path: Vec<u8>) {
        self.lock().remove(&(client, path));
    }

    pub(super) fn remove_all(&self, client: IpAddr) {
        self.lock().retain(|(mounted_by, _)| *mounted_by != client);
    }

    pub(super) fn list(&self) -> Vec<Mount> {
        self.lock().iter().cloned().collect()
    }

    pub(super) fn list_of(&self, client: IpAddr) -> Vec<Mount> {
        of(&self.lock(), client).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<Mount>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the mounts of one client.
fn of(mounts: &BTreeSet<Mount>, client: IpAddr) -> impl Iterator<Item = &Mount> {
    mounts.range((client, Vec::new())..).take_while(move |(mounted_by, _)| *mounted_by == client)
}
