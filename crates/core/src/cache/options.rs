//! The limits and timeouts of a cache.

use core::time::Duration;

use leasehold_base::attributes::FileType;

/// The limits and timeouts of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The bytes of all data; unsaved data, and data that a request waits for, may exceed it.
    pub bytes_max: u64,
    /// The bytes of data that the server may lose.
    pub unsaved_bytes_max: u64,
    /// The number of names, including absent names.
    pub names_max: usize,
    /// True if a name without an entry is absent in a directory that was created here. False where
    /// others may create names meanwhile, so that the server must be asked.
    pub names_of_new: bool,
    /// True if zeros in short gaps may be written with the data around them. False where others may
    /// write at the same time, because they may have written these bytes.
    pub writes_gaps: bool,
    /// The shortest and the longest time for which attributes of a regular file are trusted.
    pub file_trust: (Duration, Duration),
    /// The same for a directory.
    pub directory_trust: (Duration, Duration),
    /// The same for other objects.
    pub other_trust: (Duration, Duration),
    /// The largest READ.
    pub read_bytes: u32,
    /// The longest read-ahead.
    pub ahead_bytes: u64,
    /// The largest WRITE.
    pub write_bytes: u32,
    /// The longest time for which written data stays here before it is sent.
    pub write_delay: Duration,
    /// True if each WRITE must be stable when it is answered.
    pub always_stable: bool,
    /// The number of calls in transit for one file's data.
    pub calls_of_file_max: usize,
    /// The number of calls in transit for data.
    pub calls_max: usize,
}

impl Options {
    pub(super) const fn trust(&self, file_type: FileType) -> (Duration, Duration) {
        match file_type {
            FileType::Regular => self.file_trust,
            FileType::Directory => self.directory_trust,
            FileType::BlockDevice
            | FileType::CharacterDevice
            | FileType::Symlink
            | FileType::Socket
            | FileType::Fifo => self.other_trust,
        }
    }
}
