//! A store wrapper with a write-ahead log on a small fast device, like Prestoserve with its
//! battery-backed memory.
//!
//! The wrapper executes each change in the store below without a sync, and answers the change when
//! the log has a record of its outcome on stable storage. The log consists of two halves. Every few
//! seconds, or when one half is full, the wrapper syncs the whole file system, and that half can be
//! overwritten. After a crash the wrapper replays the records before it serves requests. See
//! `docs/design/0012-stable-log.md`.

mod format;
mod journal;
mod media;
mod outcome;
mod record;
mod replay;
mod scan;
mod stand_ins;
mod store;
#[cfg(test)]
mod tests;
mod turn;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;

use leasehold_fs::suite::block_on;
use leasehold_fs::{Blocking, FsError, Store};

pub use format::SIZE_MIN;
pub use media::{FileMedia, Media};
pub use replay::Replayed;

use crate::format::{BLOCK, Found, Head, Layout, Owner};
use crate::journal::Journal;
use crate::replay::{Failure, Replay};
use crate::scan::{Scanned, scan};
use crate::stand_ins::StandIns;
use crate::turn::Turns;

/// A store that answers a change once the write-ahead log contains its record.
pub struct Logged {
    below: Arc<StandIns>,
    journal: Arc<Journal>,
    turns: Arc<Turns>,
    blocking: Arc<dyn Blocking>,
    commits_names: bool,
}

/// The parameters of a [`Logged`].
pub struct Options {
    /// The store below, with the files. The store must make changes stable only for a COMMIT.
    pub store: Arc<dyn Store>,
    /// The log's device.
    pub media: Box<dyn Media>,
    /// The size of a new log, in bytes. An existing log keeps its size.
    pub size: u64,
    /// The UUID of the store's volume, if the volume has one.
    pub volume: Option<[u8; 16]>,
    /// The state of the log according to the server's state directory.
    pub standing: Standing,
    /// The boot id of the machine.
    pub boot: u128,
    /// Unpredictable bytes for the id of a new log.
    pub random: [u8; 16],
    /// The executor for blocking work.
    pub blocking: Arc<dyn Blocking>,
    /// Puts all changes of the store on stable storage (syncs the file system). The call may block.
    /// After a failure, all changes since the last sync may be lost.
    pub sync_all: Box<dyn Fn() -> Result<(), FsError> + Send + Sync>,
    /// Records in the state directory, on stable storage, that the log must never be replayed:
    /// later starts receive [`Standing::Void`]. The call may block. The journal repeats a failed
    /// call at the next change.
    pub make_void: Box<dyn Fn() -> io::Result<()> + Send + Sync>,
    /// True if a COMMIT of a new file also makes the name of the file stable. Otherwise the wrapper
    /// syncs the whole file system for a COMMIT.
    pub commits_names: bool,
    /// The callback that receives the events for the administrator.
    pub report: Box<dyn Fn(Event) + Send + Sync>,
}

/// The state of a log according to the state directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The state directory has no record of the log.
    Unknown,
    /// The log is the last log that this export used. Then a changed device number of the volume is
    /// permitted.
    Last,
    /// The log is the last log that this export used, and is out of date because its device has
    /// failed.
    Void,
}

/// An event for the administrator.
#[derive(Debug)]
pub enum Event {
    /// The log was replayed.
    Replayed(Replayed),
    /// The log's device failed. From now on the server syncs the file system for each change
    /// instead.
    LogFailed(io::Error),
    /// The log's device failed, and neither the log header nor the state directory could record
    /// that the log is out of date. A start would replay the old records over newer changes, so
    /// every change fails until the record succeeds.
    NotVoid(io::Error),
    /// The file system failed to sync. The log contains the changes that may be lost, and every
    /// change fails until a start replays the log.
    DiskFailed,
}

/// The reason why a log cannot be used.
#[derive(Debug)]
pub enum OpenError {
    /// The log's device failed.
    Device(io::Error),
    /// The device is too small.
    TooSmall,
    /// The device contains other data, or a log of another version.
    NoLog,
    /// The log belongs to another export.
    OtherExport,
    /// The device is empty, although it contained the last log of this export. Answered changes may
    /// be lost.
    Emptied,
    /// The table of surrogate objects cannot be decoded.
    Damaged,
    /// The file system failed during the replay of the records.
    Disk(FsError),
}

/// The callbacks of the owner, which the journal and the start use.
struct Owned {
    sync_all: Box<dyn Fn() -> Result<(), FsError> + Send + Sync>,
    make_void: Box<dyn Fn() -> io::Result<()> + Send + Sync>,
    report: Box<dyn Fn(Event) + Send + Sync>,
}

impl Logged {
    /// Opens or creates the log, and replays it if the machine has crashed since the last use of
    /// the log.
    ///
    /// # Errors
    /// Fails as [`OpenError`] describes. The log is then unchanged.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        let Options { store, media, size, boot, random, blocking, .. } = options;
        let Options { sync_all, make_void, commits_names, report, standing, .. } = options;
        let file_system = file_system(&*store)?;
        let owner = Owner { root: store.root(), file_system, volume: options.volume };
        let below = Arc::new(StandIns::new(store));
        let owned = Owned { sync_all, make_void, report };
        let (mut head, layout) = match Head::read(&*media)? {
            Found::Nothing if standing == Standing::Last => return Err(OpenError::Emptied),
            Found::Nothing => make(&*media, size, random, owner)?,
            Found::Other => return Err(OpenError::NoLog),
            Found::Head(head) if !head.owner.is(&owner, standing) => {
                return Err(OpenError::OtherExport);
            }
            Found::Head(head) => {
                let layout = Layout::of(head.size).ok_or(OpenError::NoLog)?;
                (*head, layout)
            }
        };
        let names = head.read_names(&*media, &layout)?.ok_or(OpenError::Damaged)?;
        if !below.decode(&names) {
            return Err(OpenError::Damaged);
        }
        if !head.is_clean && standing != Standing::Void {
            recover(&below, &*media, &mut head, &layout, boot, &owned)?;
        }
        // The disk has the changes of both halves now, so start with a generation after them.
        head.oldest += 2;
        (head.is_clean, head.is_owed, head.boot, head.owner) = (false, false, boot, owner);
        head.write_names(&*media, &layout, &below.encode())?;
        let journal = Journal::new(media, head, layout, Arc::clone(&blocking), owned);
        let (journal, turns) = (Arc::new(journal), Arc::default());
        Ok(Self { below, journal, turns, blocking, commits_names })
    }

    /// Syncs the file system, so that half of the log can be overwritten. The owner must call this
    /// function every few seconds, on a thread that may block.
    pub fn checkpoint(&self) {
        self.journal.checkpoint();
    }

    /// Syncs all answered changes at a clean shutdown, after the last request. Returns false on
    /// failure.
    #[must_use]
    pub fn close(&self) -> bool {
        self.journal.close(&self.below.encode())
    }
}

impl Owner {
    /// Returns true if both values describe the same directory. The root's object id alone is not
    /// sufficient, because it is equal for all file systems of one type.
    fn is(&self, other: &Self, standing: Standing) -> bool {
        let has_one_number = self.file_system == other.file_system;
        let is_one_volume = match (self.volume, other.volume) {
            // A copy of a volume has an equal UUID but another device number. So an equal UUID
            // suffices only if the state directory confirms the log.
            (Some(one), Some(other)) => {
                one == other && (has_one_number || standing != Standing::Unknown)
            }
            (None, _) | (_, None) => has_one_number,
        };
        self.root == other.root && is_one_volume
    }
}

/// Returns the file-system id (device number) of a store.
fn file_system(store: &dyn Store) -> Result<leasehold_base::units::FileSystemId, OpenError> {
    let root = store.root();
    let seen = aside(|| block_on(store.getattr(&root)));
    seen.map(|seen| seen.file_system).map_err(OpenError::Disk)
}

/// Runs work of a store on a temporary thread. The store sets the credentials of callers for its
/// thread, and the thread that opens the log must keep its own credentials.
fn aside<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join().expect("a store does not panic"))
}

/// Creates an empty log.
fn make(
    media: &dyn Media,
    size: u64,
    id: [u8; 16],
    owner: Owner,
) -> Result<(Head, Layout), OpenError> {
    media.prepare(size)?;
    let layout = Layout::of(media.size()?.min(size)).ok_or(OpenError::TooSmall)?;
    // Write zeros to allocate the blocks now, so that later syncs need not update the allocation.
    let zeros = vec![0; 1 << 20];
    let mut offset = 0;
    while offset < layout.size {
        let rest = usize::try_from(layout.size - offset).unwrap_or(usize::MAX);
        let piece = &zeros[..rest.min(zeros.len())];
        media.write(offset, piece)?;
        offset += piece.len() as u64;
    }
    media.sync()?;
    let head = Head::new(id, owner, layout.size);
    Ok((head, layout))
}

/// Makes sure that the file system has all changes of a log that was not closed: by a sync, or by a
/// replay.
fn recover(
    below: &StandIns,
    media: &dyn Media,
    head: &mut Head,
    layout: &Layout,
    boot: u128,
    owned: &Owned,
) -> Result<(), OpenError> {
    // If only the server has crashed and not the machine, the kernel has all changes: a sync
    // suffices. A replay would undo later changes of local programs.
    if head.boot == boot && !head.is_owed && (owned.sync_all)().is_ok() {
        return Ok(());
    }
    let Scanned { outcome, damaged } = scan(media, head, layout)?;
    let mut replay = Replay::new(below, media, head, layout);
    let done = aside(|| block_on(replay.run(&outcome)));
    done.map_err(|failure| match failure {
        Failure::Log(error) => OpenError::Device(error),
        Failure::Disk(error) => OpenError::Disk(error),
    })?;
    let replayed = Replayed { damaged, ..replay.report };
    (owned.sync_all)().map_err(OpenError::Disk)?;
    (owned.report)(Event::Replayed(replayed));
    Ok(())
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Device(error)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => write!(f, "it cannot be used: {error}"),
            Self::TooSmall => write!(f, "it must have at least {} MiB", SIZE_MIN >> 20),
            Self::NoLog => {
                f.write_str("it contains other data, or a log of another version of this program")
            }
            Self::OtherExport => f.write_str("it is the log of another directory or volume"),
            Self::Emptied => {
                f.write_str("acknowledged changes may be lost with its earlier contents")
            }
            Self::Damaged => f.write_str("its table of recreated objects is damaged"),
            Self::Disk(error) => {
                write!(f, "the exported file system rejects its records: {error}")
            }
        }
    }
}

impl std::error::Error for OpenError {}

const _: () = assert!(SIZE_MIN.is_multiple_of(BLOCK));
