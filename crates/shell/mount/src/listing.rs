//! Listings of directories.

use std::time::Duration;

use leasehold_base::units::Cookie;
use leasehold_client::{FileType, Found, Seen};
use leasehold_fuse::{Errno, Listing, ListingEntry, Reply};

use crate::convert::{self, errno, type_bits};
use crate::files::Files;
use crate::open::{Listed, Open};

impl Files {
    /// Reads a part of a directory. Uses the rest of the last part that the server returned, or
    /// else requests a new part.
    pub(crate) async fn readdir(
        &self,
        open: &Open,
        offset: u64,
        size: u32,
        plus: bool,
    ) -> Result<Reply, Errno> {
        let offset = open.positions().cookie(offset).ok_or(Errno::INVAL)?;
        let kept = open.take_listed();
        let (mut listed, start) = match kept {
            // A listing from the beginning must show the current names, so it does not use the
            // stored part.
            Some(kept) if offset != 0 && kept.plus >= plus => match kept.position(offset) {
                Some(start) => (kept, start),
                None => (self.listed(open, Some(kept), offset, plus).await?, 0),
            },
            kept => (self.listed(open, kept, offset, plus).await?, 0),
        };
        let reply = self.fill(open, (&mut listed, start), size, plus);
        open.keep_listed(&self.client, Some(listed));
        Ok(reply)
    }

    /// Requests the part of a directory after a cookie. The part is empty at the end of the
    /// directory.
    async fn listed(
        &self,
        open: &Open,
        before: Option<Listed>,
        offset: u64,
        plus: bool,
    ) -> Result<Listed, Errno> {
        let at_end = before.as_ref().is_some_and(|before| {
            before.end && before.entries.last().is_some_and(|last| last.cookie.0 == offset)
        });
        if let Some(before) = before {
            before.give_back(&self.client);
        }
        if at_end && offset != 0 {
            return Ok(Listed { entries: Vec::new(), end: true, plus });
        }
        let listing = self.client.readdir(open.id, Cookie(offset), plus).await.map_err(errno)?;
        Ok(Listed { entries: listing.entries, end: listing.end, plus })
    }

    /// Fills the reply with as many entries as fit. The kernel receives references only to the
    /// objects of these entries.
    fn fill(
        &self,
        open: &Open,
        (listed, start): (&mut Listed, usize),
        size: u32,
        plus: bool,
    ) -> Reply {
        let mut listing = Listing::new(size);
        let mut positions = open.positions();
        for entry in &mut listed.entries[start..] {
            if !listing.fits(entry.name.len(), plus) {
                break;
            }
            let mode =
                entry.found.as_ref().map_or(0, |found| type_bits(found.attributes.file_type));
            let row = ListingEntry {
                name: &entry.name,
                file: entry.found.as_ref().map_or(entry.file_id.0, |found| {
                    convert::number(&found.attributes, self.home())
                }),
                next: positions.of(entry.cookie.0),
                mode,
            };
            // An object in the reply passes its reference to the kernel. If names are leased, the
            // reply contains no objects, because the kernel could not cache them and would look up
            // every name again.
            let tells = plus && !self.client.leases_names();
            let found = if tells { entry.found.take() } else { None };
            let told = found.map(|found| self.entry(open.node, &self.as_now(found)));
            listing.push(row, plus.then_some(told.as_ref()));
        }
        listing.reply()
    }

    /// Returns the current cached state of a listed object, because the stored part of the listing
    /// may be old. For attributes under a lease the validity is zero: a recall may arrive while the
    /// listing is in transit, and the kernel ignores an invalidation of an object that it does not
    /// know yet.
    fn as_now(&self, found: Found) -> Found {
        match self.client.seen(found.node) {
            Some(Seen { attributes, trusted_for }) => {
                let by_lease = self.is_leased() && attributes.file_type == FileType::Regular;
                let trusted_for = if by_lease { Duration::ZERO } else { trusted_for };
                Found { attributes, trusted_for, ..found }
            }
            None => Found { trusted_for: Duration::ZERO, ..found },
        }
    }
}

impl Listed {
    /// Returns the index of the entry in this part at which the listing continues after a cookie.
    fn position(&self, offset: u64) -> Option<usize> {
        let at = self.entries.iter().position(|entry| entry.cookie.0 == offset)? + 1;
        (at < self.entries.len()).then_some(at)
    }
}
