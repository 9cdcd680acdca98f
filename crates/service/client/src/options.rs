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
    /// Caches all objects until their trust times expire, regardless of open and close. This
    /// variant is for a directory that no other client changes. Only fsync saves data; close does
    /// not.
    BufferCache,
    /// Caches all objects. Each open requests the attributes of the file from the server, and each
    /// close saves the written data. A client that opens a file after another client has closed the
    /// file reads the data that the other client wrote.
    #[default]
    CloseToOpen,
    /// Caches each object while the client holds a lease on the object, and never uses stale data:
    /// changes of other clients are visible at once. Only fsync saves data; close does not. If the
    /// server grants no leases, the client uses close-to-open instead. If the server leases regular
    /// files only, the client uses close-to-open for all other objects.
    Lease,
}

impl Variant {
    /// Returns the policy for objects on which the server grants no leases.
    pub(crate) const fn by_time(self) -> Self {
        match self {
            Self::Lease => Self::CloseToOpen,
            Self::None | Self::BufferCache | Self::CloseToOpen => self,
        }
    }
}

/// The objects on which calls with another main purpose (such as LOOKUP and READ) request leases;
/// each value includes the objects of the earlier values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Asking {
    /// The objects that an operation uses.
    Used,
    /// As `Used`; in addition, listings return handles and attributes (Readdir_and_Lookup in Not
    /// Quite NFS).
    Listed,
    /// In addition, the targets of names that are looked up or listed, so that leases cover the
    /// attributes of the targets.
    #[default]
    Named,
}

/// Options of the cache and of calls.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The consistency policy.
    pub variant: Variant,
    /// The objects on which calls with another main purpose request leases.
    pub asking: Asking,
    /// The term of requested leases; zero for the server's choice.
    pub term: Duration,
    /// The maximum number of bytes of cached data.
    pub bytes_max: u64,
    /// The maximum number of written bytes that are not on the server's stable storage yet. Beyond
    /// this number further writes wait.
    pub unsaved_bytes_max: u64,
    /// The maximum number of cached names.
    pub names_max: usize,
    /// The shortest and longest time for which attributes of objects other than directories are
    /// trusted.
    pub file_trust: (Duration, Duration),
    /// The shortest and longest time for which attributes of directories are trusted.
    pub directory_trust: (Duration, Duration),
    /// The maximum size of a READ, in bytes. The server may set a lower limit.
    pub read_bytes_max: u32,
    /// The maximum size of a WRITE, in bytes. The server may set a lower limit.
    pub write_bytes_max: u32,
    /// The number of bytes to read ahead in a sequential read.
    pub ahead_bytes: u64,
    /// The maximum time for which the client delays a write.
    pub write_delay: Duration,
    /// True if each WRITE is stable, so that there is no COMMIT.
    pub always_stable: bool,
    /// The maximum number of READs, WRITEs and COMMITs in progress for one file.
    pub calls_of_file_max: usize,
    /// The maximum number of READs, WRITEs and COMMITs in progress for the whole mount.
    pub calls_max: usize,
    /// Returns the time of day.
    pub time_of_day: fn() -> FileTime,
    /// The seed of the random generator for the verifiers of exclusive creations and for hidden
    /// names. The seed must differ between the clients of a server.
    pub seed: u64,
}

/// A time that is longer than the lifetime of any mount.
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

    /// Returns the size of the largest READ, in bytes.
    pub(crate) fn read_bytes(&self, bounds: &Bounds) -> u32 {
        bounds.read_bytes.min(self.read_bytes_max).max(1)
    }

    /// Returns the size of the largest WRITE, in bytes.
    pub(crate) fn write_bytes(&self, bounds: &Bounds) -> u32 {
        bounds.write_bytes.min(self.write_bytes_max).max(1)
    }

    /// Returns the options of the cache. `leases_names` is true if the server leases other objects
    /// than regular files as well.
    pub(crate) fn of_cache(&self, bounds: &Bounds, leases_names: bool) -> cache::Options {
        let nothing = self.variant == Variant::None;
        let files = self.variant;
        let names = if leases_names { files } else { files.by_time() };
        // With these variants no other client changes an object without notice: either there is no
        // other client, or the server first recalls this client's lease.
        let is_alone = |variant: Variant| matches!(variant, Variant::BufferCache | Variant::Lease);
        let trust = |variant: Variant, times| match variant {
            Variant::None => (Duration::ZERO, Duration::ZERO),
            // The time has no bound here, because the cache is usable only until the lease expires.
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
