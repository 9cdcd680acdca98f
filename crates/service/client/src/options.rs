//! How a client caches.

use core::time::Duration;

use leasehold_base::units::FileTime;
use leasehold_core::cache;
use leasehold_session::nfs::Bounds;

/// What is cached, and when the server is asked whether it is still good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// Nothing: each read and write is a call, and each write is stable when it ends.
    None,
    /// Everything, for as long as it is trusted, whoever opens and closes: for a directory that
    /// nobody else changes. A close pushes nothing; fsync does.
    BufferCache,
    /// Everything; an open asks whether the file has changed, and a close pushes what was written.
    /// Who opens a file after another has closed it sees what that one wrote.
    #[default]
    CloseToOpen,
    /// Everything while a lease on it is held, and never what is stale: what others do is seen when
    /// it is done. A close pushes nothing; fsync does. For a server that grants leases; with any
    /// other this is close-to-open, and what is no regular file is with one that leases files alone.
    Lease,
}

impl Variant {
    /// How that is cached which the server grants no leases on.
    pub(crate) const fn by_time(self) -> Self {
        match self {
            Self::Lease => Self::CloseToOpen,
            Self::None | Self::BufferCache | Self::CloseToOpen => self,
        }
    }
}

/// What leases are asked for on, by calls for something else; the later includes the earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Asking {
    /// What is used.
    Used,
    /// The same; and a listing brings handles and attributes, which Not Quite NFS calls
    /// Readdir_and_Lookup.
    Listed,
    /// What names lead to as well, whether listed or looked up: its leases on attributes.
    #[default]
    Named,
}

/// How a client caches, and how it calls.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What is cached.
    pub variant: Variant,
    /// What leases are asked for on by the way.
    pub asking: Asking,
    /// For how long leases are asked for; zero for as long as the server likes.
    pub term: Duration,
    /// The bytes of all cached data.
    pub bytes_max: u64,
    /// The bytes of data that the server may lose: who writes more waits.
    pub unsaved_bytes_max: u64,
    /// The number of cached names.
    pub names_max: usize,
    /// The least and the longest time that attributes of what is no directory are trusted.
    pub file_trust: (Duration, Duration),
    /// The same of a directory.
    pub directory_trust: (Duration, Duration),
    /// The largest READ; the server may take less.
    pub read_bytes_max: u32,
    /// The largest WRITE; the server may take less.
    pub write_bytes_max: u32,
    /// How far a file that is read in order is read ahead.
    pub ahead_bytes: u64,
    /// How long written data stays here at most before it is sent.
    pub write_delay: Duration,
    /// Whether each WRITE is stable when it is answered, so that there is nothing to COMMIT.
    pub always_stable: bool,
    /// The number of READs, WRITEs and COMMITs on their way for one file.
    pub calls_of_file_max: usize,
    /// The same for the whole mount.
    pub calls_max: usize,
    /// The time of day.
    pub time_of_day: fn() -> FileTime,
    /// Where chance begins: the verifiers of exclusive creations, names of removed files. Not to be
    /// one that another client of the server has.
    pub seed: u64,
}

/// Longer than any mount.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

impl Options {
    /// Close-to-open, with sizes for a workstation. Times that attributes are trusted are those of
    /// other clients: 3 to 60 seconds, of directories from 30.
    #[must_use]
    pub const fn new(time_of_day: fn() -> FileTime, seed: u64) -> Self {
        Self {
            variant: Variant::CloseToOpen,
            asking: Asking::Named,
            term: Duration::ZERO,
            bytes_max: 256 << 20,
            unsaved_bytes_max: 64 << 20,
            names_max: 100_000,
            file_trust: (Duration::from_secs(3), Duration::from_secs(60)),
            directory_trust: (Duration::from_secs(30), Duration::from_secs(60)),
            read_bytes_max: 1 << 20,
            write_bytes_max: 1 << 20,
            ahead_bytes: 4 << 20,
            write_delay: Duration::from_secs(5),
            always_stable: false,
            calls_of_file_max: 32,
            calls_max: 64,
            time_of_day,
            seed,
        }
    }

    /// The largest READ.
    pub(crate) fn read_bytes(&self, bounds: &Bounds) -> u32 {
        bounds.read_bytes.min(self.read_bytes_max).max(1)
    }

    /// The largest WRITE.
    pub(crate) fn write_bytes(&self, bounds: &Bounds) -> u32 {
        bounds.write_bytes.min(self.write_bytes_max).max(1)
    }

    /// What the cache is to do, where the server leases names or not.
    pub(crate) fn of_cache(&self, bounds: &Bounds, leases_names: bool) -> cache::Options {
        let nothing = self.variant == Variant::None;
        let files = self.variant;
        let names = if leases_names { files } else { files.by_time() };
        // Or hears of others before they do anything.
        let is_alone = |variant: Variant| matches!(variant, Variant::BufferCache | Variant::Lease);
        let trust = |variant: Variant, times| match variant {
            Variant::None => (Duration::ZERO, Duration::ZERO),
            // As long as a lease is held, which is looked at besides.
            Variant::Lease => (FOREVER, FOREVER),
            Variant::BufferCache | Variant::CloseToOpen => times,
        };
        cache::Options {
            bytes_max: self.bytes_max,
            unsaved_bytes_max: self.unsaved_bytes_max,
            names_max: if nothing { 0 } else { self.names_max },
            names_of_new: is_alone(names),
            writes_gaps: is_alone(files),
            file_trust: trust(files, self.file_trust),
            directory_trust: trust(names, self.directory_trust),
            other_trust: trust(names, self.file_trust),
            read_bytes: self.read_bytes(bounds),
            ahead_bytes: self.ahead_bytes,
            write_bytes: self.write_bytes(bounds),
            write_delay: self.write_delay,
            always_stable: self.always_stable,
            calls_of_file_max: self.calls_of_file_max.max(1),
            calls_max: self.calls_max.max(1),
        }
    }
}
