//! Listing of directories.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "an answer of any other kind is no result of the request"
)]

use futures_util::future::join_all;
use leasehold_base::units::{Cookie, FileId};
use leasehold_core::replica::Place;
use leasehold_fs::permission::rights;
use leasehold_fs::{Budget, Caller, Entries, Entry, FsError, ObjectId, Page, Wanted};

use crate::Metaserver;
use crate::disk::{PARENT, THIS};
use crate::lookup::{id, object};
use crate::message::{Answer, Ask, Listed};
use crate::metafile::Metafile;

/// The maximum number of names in the reply to one LIST call.
const NAMES_AT_ONCE: u32 = 64;

impl Metaserver {
    pub(crate) async fn list(
        &self,
        caller: &Caller,
        directory: &ObjectId,
        cookie: Cookie,
        mut budget: Budget,
        wanted: Wanted,
    ) -> Result<Page, FsError> {
        let directory = object(directory)?;
        let metafile = self.good(directory).await?;
        if !metafile.is_directory() {
            return Err(FsError::NotDirectory);
        }
        let attributes = metafile.seen();
        let has = rights(&attributes, caller);
        if !has.read {
            return Err(FsError::Access);
        }
        // A caller without search permission receives names only, and no attributes or handles.
        let everything = wanted == Wanted::Everything && has.execute;
        let mut entries = Entries::default();
        let above = metafile.parent();
        let dots = [(THIS, &b"."[..], directory), (PARENT, &b".."[..], above)];
        for (dot, name, file_id) in dots.into_iter().filter(|(dot, ..)| *dot > cookie.0) {
            if !budget.take(name) {
                return full(entries, attributes);
            }
            // The entry `..` has no attributes, which would need a call to the parent's home. A
            // client that needs them requests them separately.
            let this = (everything && file_id == directory).then_some(attributes);
            let object = this.map(|_| id(directory));
            let cookie = Cookie(dot);
            entries.push(&Entry { name, file_id, cookie, attributes: this, object });
        }
        let mut behind = cookie.0.max(PARENT);
        loop {
            let ask = Ask::List { directory, behind, count: NAMES_AT_ONCE };
            let (listed, end) = match self.ask_home(directory, ask).await {
                Answer::Listed(listed, end) => (listed, end),
                Answer::Gone => return Err(FsError::Stale),
                _ => return Err(self.not_yet(&[directory])),
            };
            let standing = listed.iter().map(|one| self.standing(directory, one));
            for (one, found) in listed.iter().zip(join_all(standing).await) {
                let Some(found) = found? else { continue };
                if !budget.take(&one.name) {
                    return full(entries, attributes);
                }
                let attributes = everything.then(|| found.seen());
                let (cookie, object) = (Cookie(one.cookie), everything.then(|| id(found.object)));
                let name = &*one.name;
                let file_id = found.object;
                entries.push(&Entry { name, file_id, cookie, attributes, object });
            }
            match listed.last() {
                Some(last) if !end => behind = last.cookie,
                Some(_) | None => return Ok(Page { entries, end: true, attributes }),
            }
        }
    }

    /// Returns the metafile of the object that has a listed name; `None` if no object has the name
    /// any more.
    async fn standing(
        &self,
        directory: FileId,
        listed: &Listed,
    ) -> Result<Option<Metafile>, FsError> {
        let place = Place { directory, name: listed.name.clone() };
        let found = match self.good(listed.object).await {
            // The cached copy of the object does not contain the listed name, so the copy may be
            // old: fetch the metafile from its home.
            Ok(found) if !found.stands_at(&place) => self.fresh(listed.object).await,
            found => found,
        };
        match found {
            Ok(found) if found.stands_at(&place) => Ok(Some(found)),
            // The object does not have the name. Another object of the same home may have the name,
            // so search at that home.
            Ok(_) | Err(FsError::Stale) => self.find_by(listed.object, &place).await,
            Err(error) => Err(error),
        }
    }
}

/// Returns the entries that fit into the budget; fails if not even one entry fits.
fn full(entries: Entries, attributes: leasehold_fs::Attributes) -> Result<Page, FsError> {
    if entries.is_empty() {
        return Err(FsError::TooSmall);
    }
    Ok(Page { entries, end: false, attributes })
}
