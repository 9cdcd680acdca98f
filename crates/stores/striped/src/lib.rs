//! A store whose names lie in one store, and whose data lies in stripes on I/O daemons.
//!
//! This is the metaserver of NFSP: names, owners, modes and times are those of metafiles in a store
//! of names, data goes to iods. The ids of files are those of their metafiles, so handles live as
//! long as those do. See `docs/design/0013-stripes.md`.
//!
//! The rules:
//! 1. A file of at most [`Options::inline_bytes_max`] lies in its metafile. One that grows beyond
//!    is moved out: its data is stable on iods before the metafile says so.
//! 2. The size of a file on iods is where the last of its objects ends. Nothing keeps it twice.
//! 3. Every change of data is followed by a small write to the metafile, which gives the file its
//!    times, checks the caller, and is as stable as the change.
//! 4. A name is removed before the objects of its file are.
//! 5. What is made in a directory for which another layout was said has that, too. See `shape`.
//! 6. Where there are two copies of each stripe, a change counts when one has it, and what the other
//!    lacks is noted first. See `copies`.
//! 7. The verifier is a function of those of the names' store and of all iods. In the answer to a
//!    WRITE or COMMIT stands what the iods said that it went to, so that a client finds out at the
//!    latest by its COMMIT.

mod absent;
mod around;
mod copies;
mod data;
mod direct;
mod file;
mod files;
mod folder;
mod full;
mod gone;
mod health;
mod iod;
mod judged;
mod leftovers;
mod local;
mod look;
mod metafile;
mod moving;
mod objects;
mod older;
mod paced;
mod patient;
mod put_off;
mod remote;
mod removals;
mod room;
mod scrub;
mod search;
mod shape;
mod store;
mod tending;
#[cfg(test)]
mod tests;
mod upkeep;
mod walk;

use core::hash::Hasher as _;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::future::join_all;
use leasehold_fs::{ClientKey, FsError, ObjectId, Store, Verifier};
use siphasher::sip::SipHasher24;

use crate::file::FileTable;
use crate::full::Full;
use crate::health::Health;
use crate::metafile::{Behind, Change, Head, WIDTH_MAX};
use crate::put_off::PutOff;
use crate::removals::Removals;
use crate::search::Search;
use crate::tending::Tending;
use crate::upkeep::Upkeep;

pub use absent::Absent;
pub use around::Around;
pub use files::Files;
pub use folder::{Folder, MARK, Mark, MarkError, Member, probe};
pub use iod::{Extent, Iod, ObjectName, Room, Step, Written};
pub use judged::{Judged, TurnKeeper, TurnNotice, Turns};
pub use leftovers::{LeftOf, Leftovers, Listed, list, remove};
pub use local::Local;
pub use metafile::{Damaged, Placed};
pub use older::Mended;
pub use paced::{Pace, Paced};
pub use patient::{Patience, Patient};
pub use remote::Remote;
pub use removals::{Kept, Ledger, Removal, Removed, Stamp, UnknownRecord};
pub use scrub::Scrub;
pub use search::{Found, SearchError};
pub use shape::Shape;
pub use tending::Tended;

/// How files are laid out, and what this start of the metaserver is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The volume that all iods belong to.
    pub volume: u64,
    /// Bytes of a stripe.
    pub unit: u32,
    /// The largest file that lies in its metafile.
    pub inline_bytes_max: u32,
    /// Different for each start of the metaserver: names of objects begin with it.
    pub start: u64,
    /// The numbers of the iods that files are to be spread over; what lies on others is moved.
    pub used: Vec<u16>,
    /// How many iods have each stripe: one or two. What lies otherwise is moved.
    pub copies: u16,
    /// Whether files that are spread over fewer iods are moved, too.
    pub rebalance: bool,
    /// Whether other metaservers change the same files. The names' store then makes files with a
    /// head, as [`Options::new_file`] has it, and all of them on iods; what is known of a file's
    /// size is as new as its metafile.
    pub shared: bool,
    /// Whether the names' store keeps the others from what clients of this one hold leases on
    /// ([`Store::cover`]), so that these can be sent to the iods.
    pub leased: bool,
    /// The key of the numbers by which clients use objects, the same at all metaservers and iods of a
    /// cluster.
    pub clients: ClientKey,
}

impl Options {
    /// What stands in the metafile of a new file, the one of that number of this start.
    #[must_use]
    pub fn new_file(&self, number: u64) -> Bytes {
        let head = self.head(&Shape::default(), number, false, &BTreeSet::new()).encode();
        [head, Behind::default().encode(), Change::default().encode()].concat().into()
    }

    /// A head for a file without a head: unless `shape` says otherwise, over all iods that are not
    /// full, and each file begins at another iod.
    fn head(&self, shape: &Shape, number: u64, inline: bool, full: &BTreeSet<u16>) -> Head {
        let mut name = [0; 16];
        name[..8].copy_from_slice(&self.start.to_be_bytes());
        name[8..].copy_from_slice(&number.to_be_bytes());
        // What differs from name to name comes first, for iods keep objects by the first byte.
        name.reverse();
        // The first files of several metaservers need not begin at the same one.
        let first = if self.shared { self.start } else { 0 };
        let iods = shape.iods(self, first.wrapping_add(number), full);
        let (layout, copies) = (shape.layout(self, iods.len()), shape.copies(self));
        Head { volume: self.volume, name: ObjectName(name), layout, iods, copies, inline }
    }

    /// The number that a name of objects was given, if it was in this start.
    fn number_of(&self, object: ObjectName) -> Option<u64> {
        let is_of_this = |object: &ObjectName| {
            let mut start = self.start.to_be_bytes();
            start.reverse();
            object.0[8..] == start
        };
        let first = [object, object.second()].into_iter().find(is_of_this)?;
        let mut number = [0; 8];
        number.copy_from_slice(&first.0[..8]);
        number.reverse();
        Some(u64::from_be_bytes(number))
    }
}

/// The store.
pub struct Striped {
    names: Arc<dyn Store>,
    iods: Vec<Arc<dyn Iod>>,
    options: Options,
    files: FileTable,
    /// The last that each iod said.
    verifiers: Mutex<Vec<Verifier>>,
    made: AtomicU64,
    tending: Tending,
    search: Search,
    /// Files whose CREATE is to come again.
    put_off: PutOff,
    upkeep: Upkeep,
    /// Objects that no file has any more and that wait for their iod.
    removals: Removals,
    full: Full,
    health: Health,
    /// The files that depend on each older iod, as the last walk found them.
    needed: Mutex<BTreeMap<u16, u64>>,
}

/// Why a volume cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Of each stripe there is to be one copy or two, and two on two iods.
    Copies,
    /// There are no iods to use, or more than 48.
    Count,
    /// Stripes would have no bytes.
    Unit,
    /// An iod failed, by its number.
    Iod(u16, FsError),
}

impl Striped {
    /// A volume of metafiles and iods, in the order of their numbers.
    ///
    /// # Errors
    /// As [`OpenError`] says.
    pub async fn open(
        names: Arc<dyn Store>,
        iods: Vec<Arc<dyn Iod>>,
        options: Options,
    ) -> Result<Self, OpenError> {
        let count = u16::try_from(iods.len()).map_err(|_| OpenError::Count)?;
        let used = &options.used;
        if used.is_empty() || count > WIDTH_MAX || used.iter().any(|&iod| iod >= count) {
            return Err(OpenError::Count);
        }
        if !(1..=2).contains(&options.copies) || usize::from(options.copies) > used.len() {
            return Err(OpenError::Copies);
        }
        if options.unit == 0 {
            return Err(OpenError::Unit);
        }
        let mut verifiers = Vec::new();
        // The calls go to all iods at once, since the metaserver waits for each iod that is away.
        let said = join_all(iods.iter().map(|iod| iod.verifier())).await;
        for (number, said) in (0..).zip(said) {
            verifiers.push(match said {
                Ok(verifier) => verifier,
                // It is away: what it says when it is back is news.
                Err(FsError::Later) => Verifier::default(),
                Err(error) => return Err(OpenError::Iod(number, error)),
            });
        }
        let (verifiers, made) = (Mutex::new(verifiers), AtomicU64::new(0));
        // Of what was so before nobody knows yet.
        let may_be_misplaced = options.copies > 1 || options.rebalance || used.len() < iods.len();
        // Others would not hear of what is moved.
        let may_be_misplaced = may_be_misplaced && !options.shared;
        let (files, tending) = (FileTable::default(), Tending::new(may_be_misplaced));
        let (search, put_off, upkeep) = (Search::default(), PutOff::default(), Upkeep::default());
        let removals = Removals::default();
        Ok(Self {
            names,
            iods,
            options,
            files,
            verifiers,
            made,
            tending,
            search,
            put_off,
            upkeep,
            removals,
            full: Full::default(),
            health: Health::default(),
            needed: Mutex::default(),
        })
    }

    /// How files are to be laid out.
    #[must_use]
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// A head for a file that has none, or is to have another.
    fn new_head(&self, shape: &Shape, inline: bool) -> Head {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        self.options.head(shape, number, inline, &self.full.all())
    }

    /// What was said of where the data of a file is to lie.
    async fn shape(&self, object: &ObjectId) -> Result<Shape, FsError> {
        Ok(Shape::of(self.names.layout(object).await?))
    }

    /// Takes note of what an iod said, and gives what the client is told: of the others the last
    /// that is known.
    fn verifier(&self, names: Verifier, said: &[(u16, Verifier)]) -> Verifier {
        let known = self.heard(said);
        let mut hasher = SipHasher24::new();
        hasher.write(&names.0);
        for verifier in known.iter() {
            hasher.write(&verifier.0);
        }
        Verifier(hasher.finish().to_be_bytes())
    }

    /// Takes note of what iods said; gives the last of each.
    fn heard(&self, said: &[(u16, Verifier)]) -> MutexGuard<'_, Vec<Verifier>> {
        let mut known = self.verifiers.lock().unwrap_or_else(PoisonError::into_inner);
        for &(iod, verifier) in said {
            known[usize::from(iod)] = verifier;
        }
        known
    }

    /// The last that an iod said.
    fn known_verifier(&self, iod: u16) -> Verifier {
        let known = self.verifiers.lock().unwrap_or_else(PoisonError::into_inner);
        known[usize::from(iod)]
    }

    fn iod(&self, number: u16) -> &dyn Iod {
        &*self.iods[usize::from(number)]
    }
}
