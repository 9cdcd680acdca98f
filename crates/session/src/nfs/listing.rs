//! Listing directories, with or without attributes, in either version.

use core::sync::atomic::Ordering;

use bytes::Bytes;
use leasehold_base::units::{Cookie, FileId};
use leasehold_core::calls::Weight;
use leasehold_wire::nfs3::{self, Attributes, Handle, Status, readdir, readdirplus};
use leasehold_wire::rpc::ReplyStatus;

use super::{Nfs, Version, reply, v2};
use crate::credential::Credential;
use crate::error::Error;

/// A position in a directory listing; the default is the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The cookie of the preceding entry.
    pub cookie: Cookie,
    /// The verifier that the server sent with the cookie.
    pub verifier: [u8; 8],
}

/// A page of a directory listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The directory's attributes.
    pub attributes: Option<Attributes>,
    /// The verifier to send back with any of the cookies.
    pub verifier: [u8; 8],
    /// The entries.
    pub entries: Vec<Entry>,
    /// True if the page reaches the end of the directory.
    pub end: bool,
}

impl Listed {
    /// Returns the position after the page; None at the end.
    #[must_use]
    pub fn next(&self) -> Option<Place> {
        let last = self.entries.last().filter(|_| !self.end)?;
        Some(Place { cookie: last.cookie, verifier: self.verifier })
    }
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The file id of its object.
    pub file_id: FileId,
    /// The name.
    pub name: Bytes,
    /// The cookie from which the listing continues after this entry.
    pub cookie: Cookie,
    /// The object's attributes, if requested and sent by the server.
    pub attributes: Option<Attributes>,
    /// The object, if requested and sent by the server.
    pub object: Option<Handle>,
}

/// A page of a directory listing, or only the directory's attributes.
pub type Listing = nfs3::Reply<Listed, Option<Attributes>>;

impl Nfs {
    /// Returns a page of about `bytes` bytes; [`Bounds`](super::Bounds) has the best size. The page
    /// contains attributes and handles if requested and available; a server without READDIRPLUS
    /// sends only names.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn list(
        &self,
        who: &Credential,
        directory: &Handle,
        from: Place,
        bytes: u32,
        with_attributes: bool,
    ) -> Result<Listing, Error> {
        if self.version == Version::V2 {
            return v2::readdir(self, who, directory, from, bytes).await;
        }
        if with_attributes && !self.lists_names_only.load(Ordering::Relaxed) {
            match self.list_with_attributes(who, directory, from, bytes).await {
                Ok(nfs3::Reply::Failed(Status::NotSupported, _))
                | Err(Error::Denied(ReplyStatus::ProcedureUnavailable)) => {
                    self.lists_names_only.store(true, Ordering::Relaxed);
                }
                listing => return listing,
            }
        }
        let Place { cookie, verifier } = from;
        let args = readdir::Args { directory: *directory, cookie, verifier, count: bytes };
        let results = self.run(who, readdir::NUMBER, Weight::Heavy, &args).await?;
        let read: readdir::Listing<'_> = reply(&results)?;
        Ok(read.map(|done| {
            listed(done, |entry| Entry {
                file_id: entry.file_id,
                name: results.bytes().slice_ref(entry.name.0),
                cookie: entry.cookie,
                attributes: None,
                object: None,
            })
        }))
    }

    async fn list_with_attributes(
        &self,
        who: &Credential,
        directory: &Handle,
        from: Place,
        bytes: u32,
    ) -> Result<Listing, Error> {
        let Place { cookie, verifier } = from;
        let args = readdirplus::Args {
            directory: *directory,
            cookie,
            verifier,
            names_count: bytes,
            count: bytes,
        };
        let results = self.run(who, readdirplus::NUMBER, Weight::Heavy, &args).await?;
        let read: readdirplus::Listing<'_> = reply(&results)?;
        Ok(read.map(|done| {
            listed(done, |entry| Entry {
                file_id: entry.file_id,
                name: results.bytes().slice_ref(entry.name.0),
                cookie: entry.cookie,
                attributes: entry.attributes,
                object: entry.object,
            })
        }))
    }
}

fn listed<'a, From>(
    done: readdir::Done<leasehold_wire::list::List<From>>,
    entry: impl Fn(From) -> Entry + 'a,
) -> Listed {
    Listed {
        attributes: done.attributes,
        verifier: done.verifier,
        entries: done.entries.0.into_iter().map(entry).collect(),
        end: done.end,
    }
}
