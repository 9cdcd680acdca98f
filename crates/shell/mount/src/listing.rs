//! Listings of directories.

use std::sync::PoisonError;

use leasehold_base::units::Cookie;
use leasehold_fuse::{Errno, Listing, ListingEntry, Reply};
use leasehold_session::nfs::{Entry, Listed, Place as From};

use crate::convert::{self, type_bits};
use crate::files::{Files, failed};
use crate::nodes::Place;
use crate::open::Open;

impl Files {
    /// A part of a directory: what is left of what the server sent last, else what it sends now.
    pub(crate) async fn readdir(
        &self,
        open: &Open,
        offset: u64,
        size: u32,
        plus: bool,
    ) -> Result<Reply, Errno> {
        let kept = open.listed.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (listed, with, start) = match kept {
            // A listing from the beginning is asked of the server.
            Some((listed, with)) if offset != 0 && with >= plus => {
                match position(&listed, offset) {
                    Some(start) => (listed, with, start),
                    None => (self.listed(open, &listed, offset, plus).await?, plus, 0),
                }
            }
            Some((listed, _)) if offset != 0 => {
                (self.listed(open, &listed, offset, plus).await?, plus, 0)
            }
            Some(_) | None => {
                let nothing =
                    Listed { attributes: None, verifier: [0; 8], entries: Vec::new(), end: false };
                (self.listed(open, &nothing, offset, plus).await?, plus, 0)
            }
        };
        let reply = self.fill(open, &listed.entries[start..], size, plus);
        *open.listed.lock().unwrap_or_else(PoisonError::into_inner) = Some((listed, with));
        Ok(reply)
    }

    /// The part of a directory behind a cookie; nothing behind the last entry.
    async fn listed(
        &self,
        open: &Open,
        before: &Listed,
        offset: u64,
        plus: bool,
    ) -> Result<Listed, Errno> {
        if before.end && before.entries.last().is_some_and(|last| last.cookie.0 == offset) {
            return Ok(Listed { entries: Vec::new(), ..before.clone() });
        }
        let verifier = if offset == 0 { [0; 8] } else { before.verifier };
        let from = From { cookie: Cookie(offset), verifier };
        let bytes = self.bounds.directory_bytes;
        let listed = self.nfs.list(&open.who, &open.node.handle, from, bytes, plus).await;
        listed.map_err(failed)?.done().map_err(convert::of_status)
    }

    /// As many entries as there is room for. The kernel is told only of what fits.
    fn fill(&self, open: &Open, entries: &[Entry], size: u32, plus: bool) -> Reply {
        let mut listing = Listing::new(size);
        for entry in entries {
            if !listing.fits(entry.name.len(), plus) {
                break;
            }
            let mode = entry.attributes.map_or(0, |attributes| type_bits(attributes.file_type));
            let row = ListingEntry {
                name: &entry.name,
                file: entry.file_id.0,
                next: entry.cookie.0,
                mode,
            };
            let is_dot = matches!(&entry.name[..], b"." | b"..");
            match (plus, entry.object, &entry.attributes) {
                (true, Some(object), Some(attributes)) if !is_dot => {
                    let name = entry.name.to_vec();
                    let place = Place { directory: open.node.id, name };
                    let found = self.entry(object, place, attributes);
                    listing.push(row, Some(Some(&found)));
                }
                (true, ..) => {
                    listing.push(row, Some(None));
                }
                (false, ..) => {
                    listing.push(row, None);
                }
            }
        }
        listing.reply()
    }
}

/// Where in a part of a directory it goes on behind a cookie.
fn position(listed: &Listed, offset: u64) -> Option<usize> {
    let at = listed.entries.iter().position(|entry| entry.cookie.0 == offset)? + 1;
    (at < listed.entries.len()).then_some(at)
}
