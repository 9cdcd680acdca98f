//! The bytes of each file system, and the part of the bytes that write leases may reserve.
//!
//! Rule 13 of the table bounds a lease, the clients of one origin, and all leases together. A
//! machine can invent any number of client names, so the clients of one origin share one bound. A
//! client without a known origin has a bound of its own.

use std::collections::BTreeMap;

use leasehold_base::units::FileSystemId;

use super::Origin;
use crate::leases::Client;

/// A lease may reserve at most this fraction (1/n) of the free bytes. Several clients that write
/// large files at the same time then have a share each, and most of the disk is left.
const LEASE_PARTS: u64 = 8;

/// The leases of one origin may together reserve at most this fraction (1/n) of the free bytes.
const ORIGIN_PARTS: u64 = 4;

/// All leases may together reserve at most this fraction (1/n) of the free bytes. Writers without a
/// lease can use the other bytes, however many clients hold leases.
const ALL_PARTS: u64 = 2;

/// The most bytes that a lease may reserve, by each of the bounds of rule 13.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The maximum by the bound of one lease.
    pub of_lease: u64,
    /// The maximum by the bound of the client's origin, less the bytes that other leases of the
    /// origin have reserved.
    pub of_origin: u64,
    /// The maximum by the bound of all leases, less the bytes that all other leases have reserved.
    pub of_all: u64,
    /// The number of free bytes that no other lease has reserved: the only bound of a reclaimed
    /// lease.
    pub(super) unreserved: u64,
}

impl Share {
    /// Returns the least of the bounds.
    #[must_use]
    pub fn least(self) -> u64 {
        self.of_lease.min(self.of_origin).min(self.of_all)
    }
}

/// The free bytes and the reserved bytes of one file system.
#[derive(Clone, Copy, Debug, Default)]
struct Room {
    /// The free bytes, as the owner of the table last reported them, less the bytes written since.
    free: u64,
    /// The number of free bytes that leases have reserved.
    reserved: u64,
}

/// The bytes that the leases of a table have reserved.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    /// The free and reserved bytes of each exported file system.
    rooms: BTreeMap<FileSystemId, Room>,
    /// The number of reserved bytes of each client that has reserved any.
    clients: BTreeMap<(FileSystemId, Client), u64>,
    /// The number of reserved bytes of each origin that has reserved any.
    origins: BTreeMap<(FileSystemId, Origin), u64>,
    /// The origin of each client.
    met: BTreeMap<Client, Origin>,
}

impl Shares {
    /// Records the number of free bytes of a file system, including reserved bytes.
    pub fn has_free(&mut self, file_system: FileSystemId, bytes: u64) {
        self.rooms.entry(file_system).or_default().free = bytes;
    }

    /// Counts bytes that a call has written to where there was no data.
    pub(super) fn was_written(&mut self, file_system: FileSystemId, bytes: u64) {
        let room = self.rooms.entry(file_system).or_default();
        room.free = room.free.saturating_sub(bytes);
    }

    /// Returns the number of reserved bytes of a file system, which writes of other callers must
    /// leave free.
    #[must_use]
    pub fn reserved(&self, file_system: FileSystemId) -> u64 {
        self.rooms.get(&file_system).map_or(0, |room| room.reserved)
    }

    /// Returns the number of reserved bytes of all file systems.
    #[must_use]
    pub fn reserved_of_all(&self) -> u64 {
        self.rooms.values().fold(0, |all, room| all.saturating_add(room.reserved))
    }

    /// Records the origin of a client. The bytes that the client has reserved count for its latest
    /// origin.
    pub(super) fn met(&mut self, client: Client, origin: Origin) {
        let before = self.met.insert(client, origin);
        self.moved(client, before, Some(origin));
    }

    /// Forgets the origin of a client.
    pub(super) fn forget(&mut self, client: Client) {
        let before = self.met.remove(&client);
        self.moved(client, before, None);
    }

    /// Reserves bytes for a client.
    pub(super) fn reserve(&mut self, file_system: FileSystemId, client: Client, bytes: u64) {
        self.rooms.entry(file_system).or_default().reserved += bytes;
        add(&mut self.clients, (file_system, client), bytes);
        if let Some(origin) = self.met.get(&client) {
            add(&mut self.origins, (file_system, *origin), bytes);
        }
    }

    /// Frees bytes that were reserved for a client.
    pub(super) fn give_back(&mut self, file_system: FileSystemId, client: Client, bytes: u64) {
        self.rooms.entry(file_system).or_default().reserved -= bytes;
        subtract(&mut self.clients, (file_system, client), bytes);
        if let Some(origin) = self.met.get(&client) {
            subtract(&mut self.origins, (file_system, *origin), bytes);
        }
    }

    /// Counts the reserved bytes of a client under another origin.
    fn moved(&mut self, client: Client, from: Option<Origin>, to: Option<Origin>) {
        if from == to {
            return;
        }
        for file_system in self.rooms.keys().copied() {
            let Some(bytes) = self.clients.get(&(file_system, client)).copied() else { continue };
            if let Some(from) = from {
                subtract(&mut self.origins, (file_system, from), bytes);
            }
            if let Some(to) = to {
                add(&mut self.origins, (file_system, to), bytes);
            }
        }
    }

    /// Rule 13: returns the bounds of a client's lease that has `has` bytes reserved already.
    #[must_use]
    pub fn share(&self, file_system: FileSystemId, client: Client, has: u64) -> Share {
        let Room { free, reserved } = self.rooms.get(&file_system).copied().unwrap_or_default();
        let taken = match self.met.get(&client) {
            Some(origin) => self.origins.get(&(file_system, *origin)),
            None => self.clients.get(&(file_system, client)),
        };
        let (of_others, of_all_others) = (taken.map_or(0, |taken| taken - has), reserved - has);
        Share {
            of_lease: free / LEASE_PARTS,
            of_origin: (free / ORIGIN_PARTS).saturating_sub(of_others),
            of_all: (free / ALL_PARTS).saturating_sub(of_all_others),
            unreserved: free.saturating_sub(of_all_others),
        }
    }

    /// Compares all counts with the reservations of the leases.
    ///
    /// # Panics
    /// Panics if a count is wrong.
    pub fn check(&self, leases: impl Iterator<Item = (FileSystemId, Client, u64)>) {
        let mut counted = Self { met: self.met.clone(), ..Self::default() };
        for (file_system, client, bytes) in leases {
            counted.reserve(file_system, client, bytes);
        }
        assert_eq!(counted.clients, self.clients, "space is counted by client");
        assert_eq!(counted.origins, self.origins, "space is counted by origin");
        for file_system in self.rooms.keys().chain(counted.rooms.keys()) {
            let (is, counts) = (self.reserved(*file_system), counted.reserved(*file_system));
            assert_eq!(is, counts, "space is counted");
        }
    }
}

/// Adds to a count; a count of zero has no entry.
fn add<K: Copy + Ord>(counts: &mut BTreeMap<K, u64>, key: K, bytes: u64) {
    if bytes > 0 {
        *counts.entry(key).or_default() += bytes;
    }
}

/// Subtracts from a count.
fn subtract<K: Copy + Ord>(counts: &mut BTreeMap<K, u64>, key: K, bytes: u64) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= bytes;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}
