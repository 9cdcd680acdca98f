//! A search for leftover objects, which a metaserver repeats in the background.
//!
//! No person checks the result before a removal in the background. Such a removal therefore takes
//! an object only if two searches, far enough apart, found that no file has the object and that the
//! object did not change. An administrator who moves metafiles out of the directory of names, or
//! starts with an old copy of the directory, has the time between the two searches to put the
//! metafiles back.

use core::time::Duration;
use std::collections::BTreeMap;

use leasehold_base::units::{FileTime, Time};

use crate::iod::{Extent, ObjectName};
use crate::search::Found;

/// The number of objects that the scrub remembers from one search to the next, about 64 bytes each.
/// Objects beyond the bound wait for a later search.
const SEEN_MAX: usize = 65_536;

/// The state of an object that shows a change.
type Marks = (u64, u32, FileTime);

/// The leftover objects, each with the time of the search that first found its state.
#[derive(Debug, Default)]
pub struct Scrub {
    seen: BTreeMap<(u16, ObjectName), (Marks, Time)>,
}

const fn marks(extent: &Extent) -> Marks {
    (extent.size, extent.owner, extent.modified)
}

impl Scrub {
    /// Takes the result of a search that began at `now`. Returns the part of the result that a
    /// search at least `keep` ago found, too.
    pub fn ripe(&mut self, mut found: Found, now: Time, keep: Duration) -> Found {
        let mut seen = BTreeMap::new();
        for (number, left) in (0..).zip(&found.leftovers.iods) {
            for (object, extent) in left.iter().flat_map(|left| &left.objects) {
                let (place, marks) = ((number, *object), marks(extent));
                let before = self.seen.get(&place).filter(|(known, _)| *known == marks);
                let since = before.map_or(now, |(_, since)| *since);
                if seen.len() < SEEN_MAX || before.is_some() {
                    seen.insert(place, (marks, since));
                }
            }
        }
        self.seen = seen;
        found.retain(|number, (object, _)| {
            let known = self.seen.get(&(number, *object));
            known.is_some_and(|(_, since)| *since < now && now.since(*since) >= keep)
        });
        found
    }
}
