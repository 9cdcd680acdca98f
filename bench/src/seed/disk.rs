//! A simulated disk with the sync times of the paper's disks.

use std::collections::HashMap;
use std::fs;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use leasehold_store_dir::{Extent, Syncer};
use rustix::io::Errno;

/// The speed of a disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disk {
    /// Bytes per second.
    bytes_per_second: u32,
    /// The time of a sync in addition to its data: the writes of inode and block addresses.
    sync: Duration,
    /// The factor by which the simulation is faster.
    pub(crate) haste: u32,
}

impl Disk {
    /// A disk without delays.
    pub(crate) const NONE: Self =
        Self { bytes_per_second: u32::MAX, sync: Duration::ZERO, haste: 1 };

    /// One disk with 2.3 MB/s. Synced writes of 8 KiB reached 320 KB/s, 25.6 ms for each, of which
    /// the data takes 3.6.
    pub(crate) const ONE: Self =
        Self { bytes_per_second: 2_300_000, sync: Duration::from_millis(22), haste: 10 };

    /// Four disks of 4.8 MB/s in parallel; a sync waits for one of them.
    pub(crate) const FOUR: Self =
        Self { bytes_per_second: 4 * 4_800_000, sync: Duration::from_millis(22), haste: 10 };

    fn time_for(self, bytes: u64) -> Duration {
        let data = Duration::from_secs_f64(bytes as f64 / f64::from(self.bytes_per_second));
        (self.sync + data) / self.haste
    }
}

/// The disk of a folder. It derives the written data from the growth of files, so it supports only
/// files that are written once.
pub(crate) struct SlowDisk {
    disk: Disk,
    folder: PathBuf,
    /// The stored size of each file; the lock serializes the syncs.
    has: Mutex<HashMap<u64, u64>>,
}

impl SlowDisk {
    pub(crate) fn new(disk: Disk, folder: PathBuf) -> Self {
        Self { disk, folder, has: Mutex::default() }
    }

    fn sizes(&self) -> Vec<(u64, u64)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let seen = entries.filter_map(|entry| entry.metadata().ok());
        seen.filter(fs::Metadata::is_file).map(|seen| (seen.ino(), seen.size())).collect()
    }
}

impl Syncer for SlowDisk {
    /// The disks of the paper's servers were idle before a sync.
    fn begin(&self, _file: BorrowedFd<'_>, _end: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn sync(&self, file: BorrowedFd<'_>, extent: Extent) -> Result<(), Errno> {
        // Syncs run one after another, because the disk has one arm.
        let mut has = self.has.lock().unwrap_or_else(PoisonError::into_inner);
        let sizes = match extent {
            Extent::Data | Extent::Object => {
                let seen = rustix::fs::fstat(file)?;
                let is_file = rustix::fs::FileType::from_raw_mode(seen.st_mode).is_file();
                let size = if is_file { u64::try_from(seen.st_size).unwrap_or(0) } else { 0 };
                vec![(seen.st_ino, size)]
            }
            Extent::FileSystem => self.sizes(),
        };
        let mut bytes = 0;
        for (number, size) in sizes {
            bytes += size.saturating_sub(has.insert(number, size).unwrap_or(0));
        }
        thread::sleep(self.disk.time_for(bytes));
        Ok(())
    }
}
