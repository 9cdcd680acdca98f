//! A disk that takes as long to sync as those of the paper.

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

/// How long a disk takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disk {
    /// Bytes a second that it writes.
    bytes_per_second: u32,
    /// What a sync costs beside its data: the writes of inode and block addresses.
    sync: Duration,
    /// How many times as fast it is played.
    pub(crate) haste: u32,
}

impl Disk {
    /// None at all.
    pub(crate) const NONE: Self =
        Self { bytes_per_second: u32::MAX, sync: Duration::ZERO, haste: 1 };

    /// One disk that writes 2.3 MB/s. What it wrote 8 KiB at a time, each synced, came to 320 KB/s,
    /// 25.6 ms for each, of which the data take 3.6.
    pub(crate) const ONE: Self =
        Self { bytes_per_second: 2_300_000, sync: Duration::from_millis(22), haste: 10 };

    /// Four of 4.8 MB/s side by side; a sync waits for one of them.
    pub(crate) const FOUR: Self =
        Self { bytes_per_second: 4 * 4_800_000, sync: Duration::from_millis(22), haste: 10 };

    fn time_for(self, bytes: u64) -> Duration {
        let data = Duration::from_secs_f64(bytes as f64 / f64::from(self.bytes_per_second));
        (self.sync + data) / self.haste
    }
}

/// The disk below a folder. It knows what was written by how files grew, so it is for files that
/// are written once.
pub(crate) struct SlowDisk {
    disk: Disk,
    folder: PathBuf,
    /// How much of each file it has, and the turn to use it.
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
    /// The disks of the seed's servers did nothing before they were asked to sync.
    fn begin(&self, _file: BorrowedFd<'_>, _end: u64) -> Result<(), Errno> {
        Ok(())
    }

    fn sync(&self, file: BorrowedFd<'_>, extent: Extent) -> Result<(), Errno> {
        // One after another, as the arm moves.
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
