//! A search for leftover objects, which a metaserver repeats in the background.
//!
//! No administrator checks the result before a removal in the background. So the scrub releases an
//! object for removal only if two searches, separated by a minimum time, found that the object
//! belongs to no file, and if the object did not change in between. If an administrator has moved
//! metafiles out of the directory of names by mistake, or has started the metaserver with an old
//! copy of the directory, the time between the two searches remains to restore the metafiles.

use core::time::Duration;
use std::collections::BTreeMap;

use leasehold_base::units::{FileTime, Time};

use crate::iod::{Extent, ObjectName};
use crate::search::Found;

/// The maximum number of objects that the scrub remembers from one search to the next, about 64
/// bytes each. Further objects wait for a later search.
const SEEN_MAX: usize = 65_536;

/// The size, owner and modification time of an object, which reveal a change of the object.
type Marks = (u64, u32, FileTime);

/// The leftover objects of the last search, each with the time of the first search that found the
/// object in its current state.
#[derive(Debug, Default)]
pub struct Scrub {
    seen: BTreeMap<(u16, ObjectName), (Marks, Time)>,
}

const fn marks(extent: &Extent) -> Marks {
    (extent.size, extent.owner, extent.modified)
}

impl Scrub {
    /// Records the result of a search that began at `now`. Returns the objects of this result that
    /// a search at least `keep` earlier has found in the same state.
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
