//! Listings that were asked for under a lease on their directory: they are good for as long as it
//! has the modrev that it had then, and is not changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::units::{Cookie, FileId, Time};
use leasehold_wire::nfs3::Handle;

use crate::client::State;
use crate::listing::{Entry, Listing};
use crate::nodes::{Found, NodeId};

/// How many names are kept at most; with more, the oldest listings go.
const NAMES_MAX: usize = 100_000;

/// A part of a directory: where it begins, and whether its objects are looked at as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Which {
    pub(crate) directory: NodeId,
    pub(crate) cookie: Cookie,
    pub(crate) with_attributes: bool,
}

/// What was listed.
#[derive(Clone)]
pub(crate) struct Part {
    /// The directory's modrev.
    pub(crate) modrev: u64,
    pub(crate) rows: Arc<[Row]>,
    pub(crate) verifier: [u8; 8],
    pub(crate) end: bool,
}

/// One name.
pub(crate) struct Row {
    pub(crate) file_id: FileId,
    pub(crate) name: Bytes,
    pub(crate) cookie: Cookie,
    /// The object, where the listing told its attributes.
    pub(crate) object: Option<Handle>,
}

/// The listings of a client.
#[derive(Default)]
pub(crate) struct Listings {
    /// Each with its number.
    parts: BTreeMap<Which, (u64, Part)>,
    /// By their numbers, the oldest first.
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

    /// A part that was listed of a directory with this modrev; one with attributes has all that one
    /// without has.
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
    /// The modrev of a directory, while its names may be used.
    pub(crate) fn names_as_of(&self, now: Time, directory: NodeId) -> Option<u64> {
        self.leases.as_ref()?;
        self.usable_until(now, directory)?;
        Some(self.base(directory)?.modrev)
    }

    /// A part that was listed before, if it is good and all that it is to tell is known.
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
