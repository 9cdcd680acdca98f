//! The cache of directory listings that the client received under a lease on the directory. A
//! listing is valid while the directory has the same modrev and no local change of the directory is
//! in progress.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::units::{Cookie, FileId, Time};
use leasehold_wire::nfs3::Handle;

use crate::client::State;
use crate::listing::{Entry, Listing};
use crate::nodes::{Found, NodeId};

/// The maximum number of cached names. Beyond this number the cache drops its oldest listings.
const NAMES_MAX: usize = 100_000;

/// The key of a cached part: the directory, the cookie at which the part starts, and true if the
/// part includes attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Which {
    pub(crate) directory: NodeId,
    pub(crate) cookie: Cookie,
    pub(crate) with_attributes: bool,
}

/// A cached part of a listing.
#[derive(Clone)]
pub(crate) struct Part {
    /// The directory's modrev at the time of the listing.
    pub(crate) modrev: u64,
    pub(crate) rows: Arc<[Row]>,
    pub(crate) verifier: [u8; 8],
    pub(crate) end: bool,
}

/// One entry of a cached part.
pub(crate) struct Row {
    pub(crate) file_id: FileId,
    pub(crate) name: Bytes,
    pub(crate) cookie: Cookie,
    /// The object, if the listing contained its attributes.
    pub(crate) object: Option<Handle>,
}

/// The cached listings of a client.
#[derive(Default)]
pub(crate) struct Listings {
    /// The cached parts, each with its sequence number.
    parts: BTreeMap<Which, (u64, Part)>,
    /// The keys of the parts by sequence number, the oldest first.
    order: BTreeMap<u64, Which>,
    next: u64,
    names: usize,
}

impl Listings {
    pub(crate) fn keep(&mut self, which: Which, part: Part) {
        self.forget(&which);
        self.names += part.rows.len() + 1;
        self.parts.insert(which, (self.next, part));
        self.order.insert(self.next, which);
        self.next += 1;
        while self.names > NAMES_MAX {
            let Some((_, oldest)) = self.order.pop_first() else { return };
            self.forget(&oldest);
        }
    }

    /// Returns the cached part of a directory at this modrev. A part with attributes also serves a
    /// request without attributes.
    fn find(&self, which: Which, modrev: u64) -> Option<Part> {
        let more = Which { with_attributes: true, ..which };
        let (_, part) = self.parts.get(&which).or_else(|| self.parts.get(&more))?;
        (part.modrev == modrev).then(|| part.clone())
    }

    fn forget(&mut self, which: &Which) {
        if let Some((number, part)) = self.parts.remove(which) {
            self.names -= part.rows.len() + 1;
            self.order.remove(&number);
        }
    }
}

impl State {
    /// Returns the modrev of a directory if its cached names are usable now.
    pub(crate) fn names_as_of(&self, now: Time, directory: NodeId) -> Option<u64> {
        self.leases.as_ref()?;
        self.usable_until(now, directory)?;
        Some(self.base(directory)?.modrev)
    }

    /// Returns a cached part if the part is valid and the cache has the attributes of all its
    /// entries.
    pub(crate) fn relisted(&mut self, now: Time, which: Which) -> Option<(Listing, [u8; 8])> {
        let modrev = self.names_as_of(now, which.directory)?;
        let part = self.leases.as_ref()?.listings.find(which, modrev)?;
        let named_for = self.seen(now, which.directory)?.trusted_for;
        let found = |row: &Row| match row.object.filter(|_| which.with_attributes) {
            None => Some(None),
            Some(object) => {
                let node = self.nodes.by_handle(&object)?;
                let seen = self.seen(now, node).filter(|seen| !seen.trusted_for.is_zero())?;
                let attributes = seen.attributes;
                let trusted_for = self.shown_for(node, seen.trusted_for);
                Some(Some(Found { node, attributes, trusted_for, named_for }))
            }
        };
        let entry = |row: &Row| {
            let Row { file_id, cookie, .. } = *row;
            Some(Entry { file_id, name: row.name.clone(), cookie, found: found(row)? })
        };
        let entries = part.rows.iter().map(entry).collect::<Option<Vec<_>>>()?;
        for found in entries.iter().filter_map(|entry| entry.found) {
            self.nodes.refer(found.node);
        }
        Some((Listing { entries, end: part.end }, part.verifier))
    }
}
