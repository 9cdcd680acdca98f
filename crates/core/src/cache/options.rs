//! The limits and timeouts of a cache.

use core::time::Duration;

use leasehold_base::attributes::FileType;

/// The limits and timeouts of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The maximum number of cached bytes of data. Unsaved data, and data for which a request
    /// waits, may exceed this limit.
    pub bytes_max: u64,
    /// The maximum number of unsaved bytes, which the server lacks or may lose.
    pub unsaved_bytes_max: u64,
    /// The maximum number of cached names, including absent names.
    pub names_max: usize,
    /// True if a name without an entry is absent in a directory that was created here. False if
    /// other clients may create names there, so that the server must be asked.
    pub names_of_new: bool,
    /// True if zeros in short gaps may be written with the data around them. False if other clients
    /// may write at the same time, because they may have written the bytes of the gap.
    pub writes_gaps: bool,
    /// The shortest and the longest time for which attributes of a regular file are trusted.
    pub file_trust: (Duration, Duration),
    /// The shortest and the longest time for which attributes of a directory are trusted.
    pub directory_trust: (Duration, Duration),
    /// The shortest and the longest time for which attributes of other objects are trusted.
    pub other_trust: (Duration, Duration),
    /// The maximum number of bytes of a READ.
    pub read_bytes: u32,
    /// The maximum number of bytes that are read ahead, unless a file is striped over many servers.
    pub ahead_bytes: u64,
    /// The maximum number of bytes of a WRITE.
    pub write_bytes: u32,
    /// The longest time for which written data stays in the cache before it is sent.
    pub write_delay: Duration,
    /// True if each WRITE must be stable when it is answered.
    pub always_stable: bool,
    /// The maximum number of calls in transit for one file's data.
    pub calls_of_file_max: usize,
    /// The maximum number of calls in transit for the data of all files.
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
