//! How much a cache keeps, and for how long.

use core::time::Duration;

use leasehold_base::attributes::FileType;

/// How much is cached, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The bytes of all data; unsaved data and what somebody waits for may be above.
    pub bytes_max: u64,
    /// The bytes of data that the server may lose.
    pub unsaved_bytes_max: u64,
    /// The number of names, absent ones too.
    pub names_max: usize,
    /// Whether a name that was never asked for is known to be absent in a directory that was made
    /// here: where others may make names meanwhile, it is to be asked for.
    pub names_of_new: bool,
    /// Whether zeros in short gaps may be written along with what lies around them: where others may
    /// write at the same time, those bytes may be theirs.
    pub writes_gaps: bool,
    /// The least and the longest time that attributes of a regular file are trusted.
    pub file_trust: (Duration, Duration),
    /// The same of a directory.
    pub directory_trust: (Duration, Duration),
    /// The same of what is neither.
    pub other_trust: (Duration, Duration),
    /// The largest READ.
    pub read_bytes: u32,
    /// How far is read ahead at most.
    pub ahead_bytes: u64,
    /// The largest WRITE.
    pub write_bytes: u32,
    /// How long written data stays here at most before it is sent.
    pub write_delay: Duration,
    /// Whether each WRITE is to be stable when it is answered.
    pub always_stable: bool,
    /// The number of calls for one file's data on their way at once.
    pub calls_of_file_max: usize,
    /// The number of calls for data on their way at once.
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
