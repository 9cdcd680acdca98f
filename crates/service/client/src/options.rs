//! Options of the cache and of calls.

use core::time::Duration;

use leasehold_base::units::FileTime;
use leasehold_core::cache;
use leasehold_session::nfs::Bounds;

/// The consistency policy of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// No caching: each read and write is a call, and each write is stable when it returns.
    None,
    /// Caches all objects until their trust times expire, regardless of open and close: for a
    /// directory that no other client changes. Only fsync saves data, close does not.
    BufferCache,
    /// Caches all objects; an open asks the server whether the file has changed, and a close saves
    /// the written data. A client that opens a file after another has closed it reads the data
    /// written there.
    #[default]
    CloseToOpen,
    /// Caches objects while it holds a lease on them, and never uses stale data: changes of other
    /// clients are visible at once. Only fsync saves data, close does not. The server must grant
    /// leases; with any other server this is close-to-open, as it is for objects other than regular
    /// files if the server leases files only.
    Lease,
}

impl Variant {
    /// Returns the policy for objects without leases.
    pub(crate) const fn by_time(self) -> Self {
        match self {
            Self::Lease => Self::CloseToOpen,
            Self::None | Self::BufferCache | Self::CloseToOpen => self,
        }
    }
}

/// The objects on which other calls request leases; each value includes the earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Asking {
    /// Objects in use.
    Used,
    /// As `Used`; in addition, listings return handles and attributes (Readdir_and_Lookup in Not
    /// Quite NFS).
    Listed,
    /// In addition, the targets of looked up or listed names, so that leases cover their
    /// attributes.
    #[default]
    Named,
}

/// Options of the cache and of calls.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The consistency policy.
    pub variant: Variant,
    /// The objects on which other calls request leases.
    pub asking: Asking,
    /// The term of requested leases; zero for the server's choice.
    pub term: Duration,
    /// The maximum number of bytes of cached data.
    pub bytes_max: u64,
    /// The maximum number of bytes that are not on the server's stable storage; further writes
    /// wait.
    pub unsaved_bytes_max: u64,
    /// The number of cached names.
    pub names_max: usize,
    /// The shortest and longest time for which attributes of objects other than directories are
    /// trusted.
    pub file_trust: (Duration, Duration),
    /// The shortest and longest time for which attributes of directories are trusted.
    pub directory_trust: (Duration, Duration),
    /// The largest READ; the server may set a lower limit.
    pub read_bytes_max: u32,
    /// The largest WRITE; the server may set a lower limit.
    pub write_bytes_max: u32,
    /// The number of bytes to read ahead in a sequential read.
    pub ahead_bytes: u64,
    /// The longest time for which the client delays a write.
    pub write_delay: Duration,
    /// True if each WRITE is stable, so that there is no COMMIT.
    pub always_stable: bool,
    /// The maximum number of READs, WRITEs and COMMITs in progress for one file.
    pub calls_of_file_max: usize,
    /// The maximum number of READs, WRITEs and COMMITs in progress for the whole mount.
    pub calls_max: usize,
    /// Returns the time of day.
    pub time_of_day: fn() -> FileTime,
    /// The seed of the random generator, for verifiers of exclusive creations and names of removed
    /// files. It must differ between the clients of a server.
    pub seed: u64,
}

/// Longer than any mount.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

impl Options {
    /// Returns the options for close-to-open, with sizes for a workstation. The trust times equal
    /// the defaults of other clients: 3 to 60 seconds, for directories 30 to 60.
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

    /// Returns the largest READ.
    pub(crate) fn read_bytes(&self, bounds: &Bounds) -> u32 {
        bounds.read_bytes.min(self.read_bytes_max).max(1)
    }

    /// Returns the largest WRITE.
    pub(crate) fn write_bytes(&self, bounds: &Bounds) -> u32 {
        bounds.write_bytes.min(self.write_bytes_max).max(1)
    }

    /// Returns the options of the cache, for a server that leases names or does not.
    pub(crate) fn of_cache(&self, bounds: &Bounds, leases_names: bool) -> cache::Options {
        let nothing = self.variant == Variant::None;
        let files = self.variant;
        let names = if leases_names { files } else { files.by_time() };
        // True if no other client makes a change without earlier notice to this one.
        let is_alone = |variant: Variant| matches!(variant, Variant::BufferCache | Variant::Lease);
        let trust = |variant: Variant, times| match variant {
            Variant::None => (Duration::ZERO, Duration::ZERO),
            // The expiry of the lease bounds this time elsewhere.
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
