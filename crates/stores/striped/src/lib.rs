//! A store that keeps names in one store, and file data in stripes on I/O daemons (iods).
//!
//! This is the metaserver of NFSP. A store of names contains one metafile for each file. The
//! metafile has the name, owner, mode and times of the file, and records the location of the data.
//! The data itself is on iods. The id of a file is the id of its metafile, so a handle is valid as
//! long as the metafile exists. See `docs/design/0013-stripes.md`.
//!
//! Rules:
//! 1. The data of a file of at most [`Options::inline_bytes_max`] bytes is inline: it is stored in
//!    the metafile. When the file grows larger, the store moves the data from the metafile to iods.
//!    The data is stable on the iods before the metafile records its new location.
//! 2. The size of a file on iods is the greatest end of its objects, translated to a file offset.
//!    The metafile does not store the size.
//! 3. A small write to the metafile follows every change of data. This write updates the file's
//!    times, checks the caller's permission, and has the stability of the change.
//! 4. The store removes a name before it removes the objects of the file.
//! 5. A new file or directory inherits the layout policy that an administrator set for its
//!    directory. See the module `layout_policy`.
//! 6. If a file has two copies of each stripe, a change succeeds if one copy has the change and the
//!    store has recorded that the other copy is out of date. See the module `copies`.
//! 7. The verifier is a function of the verifiers of the names' store and of all iods. The reply to
//!    a WRITE or COMMIT includes the verifiers that the iods of this call just returned, so a
//!    client detects lost data at its COMMIT at the latest.

mod allocation;
mod around;
mod copies;
mod data;
mod direct;
mod file;
mod file_iod;
mod files;
mod flow_controlled_iod;
mod full;
mod gone;
mod health;
mod held;
mod iod;
mod layout_policy;
mod leftovers;
mod local;
mod lost_iod;
mod maintenance;
mod metafile;
mod migrate;
mod objects;
mod pending_creates;
mod ranges;
mod rebalance;
mod remote;
mod removals;
mod retrying_iod;
mod rolled_back;
mod scrub;
mod search;
mod store;
#[cfg(test)]
mod tests;
mod verified_iod;
mod visible;
mod walk;
mod xattrs;

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
use crate::held::HeldFiles;
use crate::maintenance::Maintenance;
use crate::metafile::{Behind, Change, Head, WIDTH_MAX};
use crate::pending_creates::PendingCreates;
use crate::rebalance::Rebalance;
use crate::removals::Removals;
use crate::search::Search;

pub use around::Around;
pub use file_iod::{FileIod, MARK, Mark, MarkError, Member, probe};
pub use files::Files;
pub use flow_controlled_iod::{FlowControlledIod, Pace};
pub use iod::{Extent, Iod, ObjectName, Room, Step, Written};
pub use layout_policy::LayoutPolicy;
pub use leftovers::{LeftOf, Leftovers, Listed, list, remove};
pub use local::Local;
pub use lost_iod::LostIod;
pub use metafile::{Damaged, Placed};
pub use rebalance::RebalanceReport;
pub use remote::Remote;
pub use removals::{Kept, Ledger, Removal, Removed, Stamp, UnknownRecord};
pub use retrying_iod::{RetryingIod, Timeouts};
pub use rolled_back::RollbackReport;
pub use scrub::Scrub;
pub use search::{Found, SearchError};
pub use verified_iod::{TurnKeeper, TurnNotice, Turns, VerifiedIod};

/// The layout of files, and the parameters of this start of the metaserver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The identity of the volume to which all iods belong.
    pub volume: u64,
    /// The stripe unit in bytes.
    pub unit: u32,
    /// The maximum size of a file with inline data, in bytes.
    pub inline_bytes_max: u32,
    /// A random number for each start of the metaserver, which is a part of all object names.
    pub start: u64,
    /// The numbers of the iods for new data. The rebalancer migrates data away from all other iods.
    pub used: Vec<u16>,
    /// The number of copies of each stripe: one or two. The rebalancer migrates files with another
    /// number of copies.
    pub copies: u16,
    /// True if the rebalancer also migrates files that are striped over fewer iods than configured.
    pub rebalance: bool,
    /// True if other metaservers change the same files. The names' store then creates each metafile
    /// with a header from [`Options::new_file`], and all file data is on iods. A cached file size
    /// is valid only for the change time of the metafile at which the store read it.
    pub shared: bool,
    /// True if the names' store excludes other metaservers from conflicting access to files on
    /// which clients of this metaserver hold leases ([`Coherence::acquire`](leasehold_fs::Coherence::acquire)). Only then may the store
    /// give layouts to these clients.
    pub leased: bool,
    /// The key from which the store derives the credentials with which clients access objects. All
    /// metaservers and iods of a cluster have the same key.
    pub clients: ClientKey,
}

impl Options {
    /// Returns the content of the metafile of a new file, with the object name that has this
    /// number.
    #[must_use]
    pub fn new_file(&self, number: u64) -> Bytes {
        let head = self.head(&LayoutPolicy::default(), number, false, &BTreeSet::new()).encode();
        [head, Behind::default().encode(), Change::default().encode()].concat().into()
    }

    /// Returns a metafile header with a new object name. Unless `shape` sets another layout, the
    /// file uses all iods that are not full, and consecutive files start at different iods.
    fn head(&self, shape: &LayoutPolicy, number: u64, inline: bool, full: &BTreeSet<u16>) -> Head {
        let mut name = [0; 16];
        name[..8].copy_from_slice(&self.start.to_be_bytes());
        name[8..].copy_from_slice(&number.to_be_bytes());
        // Put the bytes that differ between object names first, because an iod chooses the
        // directory of an object by the first byte.
        name.reverse();
        // With several metaservers, start at a random iod, so that the first files of all
        // metaservers do not start at the same iod.
        let first = if self.shared { self.start } else { 0 };
        let iods = shape.iods(self, first.wrapping_add(number), full);
        let (layout, copies) = (shape.layout(self, iods.len()), shape.copies(self));
        Head { volume: self.volume, name: ObjectName(name), layout, iods, copies, inline }
    }

    /// Returns the number in an object name, if this start of the metaserver created the name.
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

/// The store of striped files.
pub struct Striped {
    names: Arc<dyn Store>,
    iods: Vec<Arc<dyn Iod>>,
    options: Options,
    files: FileTable,
    /// The last verifier of each iod.
    verifiers: Mutex<Vec<Verifier>>,
    made: AtomicU64,
    tending: Rebalance,
    search: Search,
    /// Files whose CREATE is pending: the client retries the call.
    put_off: PendingCreates,
    upkeep: Maintenance,
    /// The pending removals: objects of removed files that an iod has not removed yet.
    removals: Removals,
    held: Arc<HeldFiles>,
    full: Full,
    health: Health,
    /// The number of files that depend on each rolled-back iod, as the last walk counted them.
    needed: Mutex<BTreeMap<u16, u64>>,
}

/// The reason why a volume cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The number of copies is neither one nor two, or two copies have fewer than two iods.
    Copies,
    /// There are no iods to use, or more than 48.
    Count,
    /// The stripe unit is zero.
    Unit,
    /// The iod of this number failed.
    Iod(u16, FsError),
}

impl Striped {
    /// Opens a volume of metafiles and iods; `iods` is in the order of the iod numbers.
    ///
    /// # Errors
    /// See [`OpenError`].
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
        // Query all iods at once: each unreachable iod costs a timeout.
        let said = join_all(iods.iter().map(|iod| iod.verifier())).await;
        for (number, said) in (0..).zip(said) {
            verifiers.push(match said {
                Ok(verifier) => verifier,
                // The iod is unreachable. Any verifier that the iod returns later counts as a
                // change.
                Err(FsError::Delay) => Verifier::default(),
                Err(error) => return Err(OpenError::Iod(number, error)),
            });
        }
        let (verifiers, made) = (Mutex::new(verifiers), AtomicU64::new(0));
        // Files from earlier starts may need rebalancing, so the rebalancer must examine all files
        // once.
        let may_be_misplaced = options.copies > 1 || options.rebalance || used.len() < iods.len();
        // With several metaservers the rebalancer is off, because the other metaservers would not
        // learn that this metaserver has migrated a file.
        let may_be_misplaced = may_be_misplaced && !options.shared;
        let (files, tending) = (FileTable::default(), Rebalance::new(may_be_misplaced));
        let (search, put_off, upkeep) =
            (Search::default(), PendingCreates::default(), Maintenance::default());
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
            held: Arc::default(),
            full: Full::default(),
            health: Health::default(),
            needed: Mutex::default(),
        })
    }

    /// Returns the options of the volume.
    #[must_use]
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// Returns a metafile header with a new object name, for a new file or a new location of a
    /// file.
    fn new_head(&self, shape: &LayoutPolicy, inline: bool) -> Head {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        self.options.head(shape, number, inline, &self.full.all())
    }

    /// Returns the layout policy for the data of a file.
    async fn shape(&self, object: &ObjectId) -> Result<LayoutPolicy, FsError> {
        Ok(LayoutPolicy::of(self.names.layout_policy(object).await?))
    }

    /// Records the verifiers that iods returned, and computes the verifier for the client from the
    /// verifiers of the names' store and of all iods. For an iod that is not in `said`, the last
    /// known verifier is used.
    fn verifier(&self, names: Verifier, said: &[(u16, Verifier)]) -> Verifier {
        let known = self.heard(said);
        let mut hasher = SipHasher24::new();
        hasher.write(&names.0);
        for verifier in known.iter() {
            hasher.write(&verifier.0);
        }
        Verifier(hasher.finish().to_be_bytes())
    }

    /// Records the verifiers that iods returned; returns the last verifier of each iod.
    fn heard(&self, said: &[(u16, Verifier)]) -> MutexGuard<'_, Vec<Verifier>> {
        let mut known = self.verifiers.lock().unwrap_or_else(PoisonError::into_inner);
        for &(iod, verifier) in said {
            known[usize::from(iod)] = verifier;
        }
        known
    }

    /// Returns the last verifier of an iod.
    fn known_verifier(&self, iod: u16) -> Verifier {
        let known = self.verifiers.lock().unwrap_or_else(PoisonError::into_inner);
        known[usize::from(iod)]
    }

    fn iod(&self, number: u16) -> &dyn Iod {
        &*self.iods[usize::from(number)]
    }
}
