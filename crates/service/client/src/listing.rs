//! Directory listings.

use core::time::Duration;

use bytes::Bytes;
use leasehold_base::units::{Cookie, FileId, Time};
use leasehold_core::cache::{Asked, Source};
use leasehold_core::leases::Kind;
use leasehold_session::leases::messages;
use leasehold_session::nfs::{self, Place};
use leasehold_session::{Credential, Error};
use leasehold_wire::nfs3;

use crate::client::Client;
use crate::listed::{Part, Row, Which};
use crate::nodes::{Found, NodeId, Seen};
use crate::open::{Open, OpenId};
use crate::options::Asking;
use crate::piggyback::{ENTRIES, FIRST};

/// A directory entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The file id of the object.
    pub file_id: FileId,
    /// The name.
    pub name: Bytes,
    /// The cookie from which the listing continues after this entry.
    pub cookie: Cookie,
    /// The object, if attributes were requested and the server returned them. The entries `.` and
    /// `..` have no object. For each object the caller receives one reference.
    pub found: Option<Found>,
}

/// A part of a directory listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The entries, including `.` and `..` if the server returns them.
    pub entries: Vec<Entry>,
    /// True if the directory has no more entries.
    pub end: bool,
}

impl Client {
    /// Lists a part of an open directory after a cookie of an earlier part; zero starts at the
    /// beginning. With attributes, the server must read each object, so a caller should request
    /// them only if it needs them.
    ///
    /// # Errors
    /// [`nfs3::Status::BadCookie`] if the cookie became invalid by a change of the directory, and
    /// as [`Client::getattr`].
    pub async fn readdir(
        &self,
        open: OpenId,
        cookie: Cookie,
        with_attributes: bool,
    ) -> Result<Listing, Error> {
        let Open { node: directory, who, verifier, .. } = self.get_open(open)?;
        let handle = self.handle(directory)?;
        let with_attributes = with_attributes && self.lists_attributes();
        let which = Which { directory, cookie, with_attributes };
        if let Some(listing) = self.relisted(&who, open, which).await {
            return Ok(listing);
        }
        let made_from = self.with(|state, now, _| state.names_as_of(now, directory));
        let verifier = if cookie == Cookie(0) { [0; 8] } else { verifier };
        let bytes = self.shared.bounds.directory_bytes;
        let (asked, from) = (self.ask(), Place { cookie, verifier });
        let piggyback = self.ride_to_names(directory, ENTRIES);
        let reply = piggyback.nfs.list(&who, &handle, from, bytes, with_attributes).await?;
        let listed = match reply {
            nfs3::Reply::Done(listed) => listed,
            nfs3::Reply::Failed(status, seen) => {
                self.observe(directory, asked, seen.as_ref());
                return Err(self.failed(directory, status));
            }
        };
        self.observe(directory, asked, listed.attributes.as_ref());
        let seen = listed.attributes.as_ref();
        let named = self.take_grant_of_names(&who, (directory, asked), &piggyback, seen);
        self.with(|state, _, _| {
            if let Some(open) = state.opens.get_mut(open) {
                open.verifier = listed.verifier;
            }
        });
        // If the reply contains a lease, the modrev in the lease belongs to the listed names,
        // unless a local operation changed the directory during the call.
        let granted =
            piggyback.grant(FIRST).filter(|_| named != asked).map(|(_, grant)| grant.modrev);
        self.keep_listing(which, made_from.or(granted), &listed);
        let grants = piggyback.grants();
        let entry = |(place, entry): (u32, nfs::Entry)| Entry {
            found: self.listed((&who, directory), (asked, named), &entry, grants.at(place)),
            file_id: entry.file_id,
            name: entry.name,
            cookie: entry.cookie,
        };
        let entries = (ENTRIES..).zip(listed.entries).map(entry).collect();
        Ok(Listing { entries, end: listed.end })
    }

    /// Returns true if READDIRPLUS is used for a caller that requests attributes.
    fn lists_attributes(&self) -> bool {
        !self.is_leased() || self.shared.options.asking >= Asking::Listed
    }

    /// Returns a cached part of a listing, if the client still holds a lease on the directory.
    async fn relisted(&self, who: &Credential, open: OpenId, which: Which) -> Option<Listing> {
        self.with(|state, now, _| state.names_as_of(now, which.directory))?;
        // The use of a cached listing must renew the lease, as a call to the server would.
        self.lease(who, which.directory, Kind::Read, 0).await;
        self.with(|state, now, _| {
            let (listing, verifier) = state.relisted(now, which)?;
            if let Some(open) = state.opens.get_mut(open) {
                open.verifier = verifier;
            }
            Some(listing)
        })
    }

    /// Caches a part of a listing if the client held a lease on the directory from the request to
    /// the reply, and no local operation has changed the names of the directory.
    fn keep_listing(&self, which: Which, made_from: Option<u64>, listed: &nfs::Listed) {
        let Some(modrev) = made_from else { return };
        let row = |entry: &nfs::Entry| Row {
            file_id: entry.file_id,
            name: entry.name.clone(),
            cookie: entry.cookie,
            object: entry
                .object
                .filter(|_| entry.attributes.is_some() && !matches!(&entry.name[..], b"." | b"..")),
        };
        let rows = listed.entries.iter().map(row).collect();
        let part = Part { modrev, rows, verifier: listed.verifier, end: listed.end };
        self.with(|state, now, _| {
            if state.names_as_of(now, which.directory) == made_from
                && let Some(leased) = &mut state.leases
            {
                leased.listings.keep(which, part);
            }
        });
    }

    /// Records the object of an entry in the cache, if the listing contains the attributes of the
    /// object.
    fn listed(
        &self,
        (who, directory): (&Credential, NodeId),
        (asked, named): (Asked, Asked),
        entry: &nfs::Entry,
        grant: Option<(Time, messages::Grant)>,
    ) -> Option<Found> {
        let (object, attributes) = (entry.object.as_ref()?, entry.attributes.as_ref()?);
        if matches!(&entry.name[..], b"." | b"..") {
            return None;
        }
        let told = (Source::Listed, asked, named);
        let node = self.learn((directory, &entry.name), (object, Some(attributes)), told);
        if let Some(grant) = grant {
            self.take_grant((who, node), grant, (asked, Some(attributes)));
        }
        let Seen { attributes, trusted_for } = self.with(|state, now, _| state.shown(now, node))?;
        Some(Found {
            node,
            attributes,
            trusted_for,
            named_for: self.seen(directory).map_or(Duration::ZERO, |seen| seen.trusted_for),
        })
    }
}
