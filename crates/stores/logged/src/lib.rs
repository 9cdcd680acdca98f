//! A store before which a log on a small fast device answers for what is stable, as Prestoserve
//! did with memory that kept its contents.
//!
//! Each change is made in the store beneath, which puts nothing on stable storage for it, and is
//! answered when the log has a record of how it came out. Every few seconds, or when half of the
//! log is full, the whole file system is synced and that half is free again. After a crash the
//! records are replayed before anything is served: `docs/design/0012-stable-log.md`.

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

/// A store whose changes are answered when a log has them.
pub struct Logged {
    below: Arc<StandIns>,
    journal: Arc<Journal>,
    turns: Arc<Turns>,
    blocking: Arc<dyn Blocking>,
    commits_names: bool,
}

/// What a [`Logged`] is given.
pub struct Options {
    /// Where files lie. It need sync for a COMMIT only.
    pub store: Arc<dyn Store>,
    /// What the log is written on.
    pub media: Box<dyn Media>,
    /// How long a log is made, in bytes; one that is there keeps its length.
    pub size: u64,
    /// What tells the store's volume from every other, where the system knows that: its UUID.
    pub volume: Option<[u8; 16]>,
    /// What is known of the log from elsewhere.
    pub standing: Standing,
    /// Tells this boot of the machine from every other.
    pub boot: u128,
    /// Bytes that nobody can guess, for a log that is made.
    pub random: [u8; 16],
    /// Where work goes that blocks.
    pub blocking: Arc<dyn Blocking>,
    /// Puts on stable storage all that was done in the store; may sleep. Once it has failed, what
    /// the store has not put there is not to be relied upon.
    pub sync_all: Box<dyn Fn() -> Result<(), FsError> + Send + Sync>,
    /// Notes on stable storage, and not on the log's device, that the log must never be replayed
    /// ([`Standing::Void`] from then on); may sleep. The journal calls it until it succeeds.
    pub make_void: Box<dyn Fn() -> io::Result<()> + Send + Sync>,
    /// Whether a COMMIT of a new file takes its name along; where not, everything is synced.
    pub commits_names: bool,
    /// Is told what an administrator should know.
    pub report: Box<dyn Fn(Event) + Send + Sync>,
}

/// What is known of a log from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    Unknown,
    /// It is the last one of this directory, whose volume may have got another number.
    Last,
    /// So it is, and its device failed: what it says is out of date.
    Void,
}

/// What an administrator should know.
#[derive(Debug)]
pub enum Event {
    /// The log was replayed.
    Replayed(Replayed),
    /// The log's device failed; the file system is synced instead from now on.
    LogFailed(io::Error),
    /// Neither the head of a log whose device failed nor a note elsewhere could be written to say
    /// that the log is out of date: a start would replay the log. Every change fails until the head
    /// or the note is written.
    NotVoid(io::Error),
    /// The file system failed to sync; what it may have lost is in the log, and every change
    /// fails until a start replays it.
    DiskFailed,
}

/// Why a log cannot be used.
#[derive(Debug)]
pub enum OpenError {
    /// Its device failed.
    Device(io::Error),
    /// It is too small.
    TooSmall,
    /// Something else is there, or a log of another version.
    NoLog,
    /// It is the log of another export.
    OtherExport,
    /// It is empty, and was the last one of this directory.
    Emptied,
    /// What stands in for lost objects cannot be read.
    Damaged,
    /// The file system does not take what it says.
    Disk(FsError),
}

/// What the parts of a store share.
struct Owned {
    sync_all: Box<dyn Fn() -> Result<(), FsError> + Send + Sync>,
    make_void: Box<dyn Fn() -> io::Result<()> + Send + Sync>,
    report: Box<dyn Fn(Event) + Send + Sync>,
}

impl Logged {
    /// Opens the log, or makes it, and replays it where the machine has crashed since.
    ///
    /// # Errors
    /// As [`OpenError`] says; the log is then as it was.
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
        // Both halves hold what is on the disk.
        head.oldest += 2;
        (head.is_clean, head.is_owed, head.boot, head.owner) = (false, false, boot, owner);
        head.write_names(&*media, &layout, &below.encode())?;
        let journal = Journal::new(media, head, layout, Arc::clone(&blocking), owned);
        let (journal, turns) = (Arc::new(journal), Arc::default());
        Ok(Self { below, journal, turns, blocking, commits_names })
    }

    /// Has the file system hold what the log has, so that half of it is free again; to be called
    /// every few seconds, where it may sleep.
    pub fn checkpoint(&self) {
        self.journal.checkpoint();
    }

    /// Has the file system hold all that was answered, at a clean end, when nothing is served
    /// any more. False where it does not.
    #[must_use]
    pub fn close(&self) -> bool {
        self.journal.close(&self.below.encode())
    }
}

impl Owner {
    /// Whether both are one directory. Its id alone does not say so: all roots of one kind of file
    /// system have the same.
    fn is(&self, other: &Self, standing: Standing) -> bool {
        let has_one_number = self.file_system == other.file_system;
        let is_one_volume = match (self.volume, other.volume) {
            // A copy of a volume has its UUID too, and another number.
            (Some(one), Some(other)) => {
                one == other && (has_one_number || standing != Standing::Unknown)
            }
            (None, _) | (_, None) => has_one_number,
        };
        self.root == other.root && is_one_volume
    }
}

/// The number of a store's file system.
fn file_system(store: &dyn Store) -> Result<leasehold_base::units::FileSystemId, OpenError> {
    let root = store.root();
    let seen = aside(|| block_on(store.getattr(&root)));
    seen.map(|seen| seen.file_system).map_err(OpenError::Disk)
}

/// Does work of a store on a thread that ends with the work: a store acts as callers, and the
/// thread that opens the log keeps its identity.
fn aside<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join().expect("a store does not panic"))
}

/// Makes a log where there is none.
fn make(
    media: &dyn Media,
    size: u64,
    id: [u8; 16],
    owner: Owner,
) -> Result<(Head, Layout), OpenError> {
    media.prepare(size)?;
    let layout = Layout::of(media.size()?.min(size)).ok_or(OpenError::TooSmall)?;
    // So that no sync has to give the file its blocks.
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

/// Has the file system hold what a log says that was not closed.
fn recover(
    below: &StandIns,
    media: &dyn Media,
    head: &mut Head,
    layout: &Layout,
    boot: u128,
    owned: &Owned,
) -> Result<(), OpenError> {
    // Where only the server ended, the kernel has all that it did, and what local programs did
    // since.
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
            Self::TooSmall => write!(f, "it must have {} MiB at least", SIZE_MIN >> 20),
            Self::NoLog => {
                f.write_str("it holds something else, or a log of another version of this program")
            }
            Self::OtherExport => f.write_str("it is the log of another directory or volume"),
            Self::Emptied => {
                f.write_str("changes that were answered may be lost with what it held")
            }
            Self::Damaged => f.write_str("its table of objects that were made anew is damaged"),
            Self::Disk(error) => {
                write!(f, "the exported file system does not take what it holds: {error}")
            }
        }
    }
}

impl std::error::Error for OpenError {}

const _: () = assert!(SIZE_MIN.is_multiple_of(BLOCK));
