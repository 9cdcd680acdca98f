//! Direct data access: clients read and write the data of a file at the iods themselves.
//!
//! Rules:
//! 1. The stripe objects to which the store sends clients belong to a reserved user id, the owner
//!    number. The owner number is odd while a client may write the objects, and even otherwise.
//!    Each change of access takes the next owner number. The iods keep the owner number on stable
//!    storage and accept writes under no other one, so they refuse a client with an earlier layout
//!    even if the metaserver has lost all its memory. The metaserver does not give a client the
//!    owner number itself, but a credential that it derives from the owner number with a key
//!    (`leasehold_fs::ClientKey`). Without the key, no client can derive the credential of a later
//!    owner number, and no reader can derive the credential of a writer.
//! 2. While a client may write, the store queries the iods for sizes each time, and COMMIT updates
//!    the metafile to record the change of data. To end the layout, the store first makes the iods
//!    refuse the client (by the next odd owner number). It then records any change of data since
//!    then in the metafile on stable storage, and at last makes the owner number even.
//! 3. If a store finds objects with an odd owner number that it has no layout for, as after a
//!    restart, it ends the unknown layout by the steps of rule 2. If an iod failed while the store
//!    assigned owner numbers, no client has received the layout, and the metafile lacks no change.
//! 4. The store sends no client to an object that is out of date, or whose data is about to migrate
//!    to other iods. If a file has two copies, clients can read the first copy. Only the metaserver
//!    writes the copies, since it must record a copy that misses a change. The data in the first
//!    copy is stable before the store sends a client to this copy. Otherwise the iod of the copy
//!    might lose the data and then be unreachable when COMMIT marks the copy as out of date; the
//!    mark does not recall the clients' read leases. A client that changes the file under its own
//!    read lease, for example by a WRITE here, requests the layout again.
//! 5. SETATTR ends the layout: the permissions may differ afterwards, and later updates must not
//!    change the times that SETATTR set.
//! 6. If several metaservers change the same files, a metaserver assigns an owner number only while
//!    no other metaserver may write the file, and first queries the iods for the last owner number.
//!    It ends its layouts of a file before another metaserver may write the file. The change time
//!    of the metafile changes before a client receives a layout with an odd owner number. The next
//!    metaserver that uses the file sees the new change time and queries the iods, even if it only
//!    reads and has queried them before. So it detects a layout of a metaserver that has failed or
//!    restarted in the meantime.
//! 7. The revocation of read layouts is best effort: the store waits for no unreachable iod. It
//!    revokes read layouts after a change of the file's mode or owner, and when the data migrates.
//!    This suffices because a client may use data that it read only under its read lease, and no
//!    data changes, at the old or the new location, before the lease ends.
//! 8. While a client may write the objects directly, the metaserver fails a WRITE of its own as a
//!    whole if an iod did not answer, and does not report a part as done. The iod may execute the
//!    missing part later; a client that received a partial result could write newer data to the
//!    same range first, and the late part would overwrite it. A retry of the failed WRITE waits for
//!    the iod.

use bytes::Bytes;
use futures_util::future::join_all;
use leasehold_fs::permission::without_set_ids;
use leasehold_fs::{
    Attributes, Caller, ExclusiveAccess, FsError, LaidOut, Layout, ObjectId, Owner, Purpose,
    SetAttributes, SetTime, Spot, Stability, Verifier,
};

use crate::Striped;
use crate::file::{Data, Objects};
use crate::visible::superuser;

const OWNERS: core::ops::Range<u32> = Layout::OWNERS;

/// Returns true if clients may write an object with this owner number.
pub(crate) fn is_given_out(user: u32) -> bool {
    Owner { user, group: user }.is_given_out()
}

/// Returns the next even or odd owner number after `owner`.
fn next(owner: u32, is_odd: bool) -> u32 {
    // The two smallest owner numbers own no object: a client that reads may have `OWNERS.start` as
    // its user (`ClientKey::reader`).
    let least = owner.saturating_add(1).max(OWNERS.start + 2);
    let next = if (least % 2 == 1) == is_odd { least } else { least.saturating_add(1) };
    if next < OWNERS.end { next } else { OWNERS.start + 2 + u32::from(is_odd) }
}

/// Returns the owner number that the objects of a file get for a client.
fn number(objects: &Objects, writes: bool) -> u32 {
    // Readers may share one even owner number, so reuse the greatest one. Another metaserver may be
    // assigning this owner number right now, so that some objects do not have it yet. A new owner
    // number would make the iods refuse the readers of the other metaserver.
    let greatest = objects.greatest_owner();
    let is_readers = OWNERS.contains(&greatest) && !is_given_out(greatest);
    if is_readers && !writes { greatest } else { next(greatest, writes) }
}

impl Striped {
    /// Returns the layout under which a client finds the data of a file.
    pub(crate) async fn tell_layout(
        &self,
        caller: &Caller,
        object: &ObjectId,
        purpose: Purpose,
    ) -> Result<Option<Layout>, FsError> {
        let writes = purpose == Purpose::Write;
        let Some(names) = self.permitted(caller, object, writes).await? else { return Ok(None) };
        if self.options.shared && !self.options.leased {
            return Ok(None);
        }
        let file = self.file(object);
        let alone =
            if writes { self.names.exclusive(object).await? } else { ExclusiveAccess::default() };
        if let (true, Data::OnIods(objects)) = (self.options.shared, &*file.read().await) {
            // Another metaserver may have assigned the last owner number: query the iods again.
            objects.doubt();
        }
        let mut data = self.alone(object, &file).await?;
        if writes {
            let end = u64::from(self.options.inline_bytes_max) + 1;
            self.make_room(caller, object, &mut data, end, Stability::FileSync).await?;
        }
        let Data::OnIods(objects) = &*data else { return Ok(None) };
        let is_whole = !objects.behind().any() && objects.moving().is_none();
        let has_two = objects.head.copies > 1;
        if !is_whole || (writes && has_two) {
            return Ok(None);
        }
        self.take_back(object, objects).await?;
        if has_two && !self.commit_first_copies(objects).await {
            return Ok(None);
        }
        let owner = self.owner(objects, number(objects, writes));
        if writes && self.options.shared && objects.is_unwritten() {
            // A metaserver does not query the iods for a file whose metafile has no recorded
            // change, so it would not see the client's data. Record a first change now.
            let (all, stability) = (superuser(), Stability::FileSync);
            self.touch(&all, object, objects, None, stability).await.result?;
        }
        let Some(spots) = self.give(objects, owner).await? else { return Ok(None) };
        if writes {
            // A client's WRITE may be stable at once. So the metafile, which states the location of
            // the data, must be stable before the client receives the layout.
            self.names.commit(caller, object, 0, 0).await.result?;
            self.give_out(object, objects).await?;
            objects.alone_by(alone.number);
        }
        let verifier = self.verifier(names, &[]);
        let (unit, caller) = (objects.head.layout.unit(), self.caller(owner, purpose));
        Ok(Some(Layout { unit, owner, caller, verifier, objects: self.laid_out(spots) }))
    }

    /// Checks the caller's permission by a read or a write of zero bytes. Returns the write verifier
    /// of the metafile, or None if the client cannot have a layout.
    async fn permitted(
        &self,
        caller: &Caller,
        object: &ObjectId,
        writes: bool,
    ) -> Result<Option<Verifier>, FsError> {
        if !writes {
            self.names.read(caller, object, 0, 0).await?;
            return Ok(Some(Verifier::default()));
        }
        let none = Bytes::new();
        let done = self.names.write(caller, object, 0, none, Stability::Unstable).await;
        let verifier = done.result?.verifier;
        // A client with a write layout can also read the objects.
        if self.names.read(caller, object, 0, 0).await.is_err() {
            return Ok(None);
        }
        // A write by the caller must clear the set-user-ID and set-group-ID bits of the file. An iod
        // cannot clear them, so give no layout.
        let has_set_ids = |after: Attributes| without_set_ids(after.mode) != after.mode;
        Ok((!done.wcc.after.is_some_and(has_set_ids)).then_some(verifier))
    }

    /// Returns the credential with which a client calls the iods.
    fn caller(&self, owner: Owner, purpose: Purpose) -> Owner {
        match purpose {
            Purpose::Read => self.options.clients.reader(owner),
            Purpose::Write => self.options.clients.writer(owner),
        }
    }

    /// Returns the owner (user and group) of a file's objects for this owner number.
    fn owner(&self, objects: &Objects, number: u32) -> Owner {
        self.options.clients.owner(objects.head.name.0, number)
    }

    /// Commits the first copies of a file's objects to stable storage; returns true if all commits
    /// succeeded. A failed commit does not make a copy out of date, since a commit changes no data;
    /// so the store records nothing about it.
    async fn commit_first_copies(&self, objects: &Objects) -> bool {
        let copies: Vec<_> =
            (0..objects.head.layout.width()).map(|number| objects.head.copy(number, 0)).collect();
        if copies.iter().any(|&(iod, _)| self.iod(iod).is_away()) {
            return false;
        }
        let commits = copies.iter().map(async |&(iod, name)| {
            let said = self.iod(iod).commit(name).await;
            said.map(|verifier| (iod, verifier))
        });
        let Ok(said) = join_all(commits).await.into_iter().collect::<Result<Vec<_>, _>>() else {
            return false;
        };
        // Record the new verifiers: a changed verifier shows a writer that an iod has lost unstable
        // data.
        drop(self.heard(&said));
        true
    }

    /// Records that a client may write the objects from now on. If other metaservers change the
    /// same files, also updates the change time of the metafile, by which the other metaservers
    /// detect that they must query the iods. The modification time stays equal, since no data has
    /// changed yet.
    async fn give_out(&self, object: &ObjectId, objects: &Objects) -> Result<(), FsError> {
        self.ask_size(objects).await?;
        if self.options.shared {
            let _times = objects.times.write().await;
            let caller = superuser();
            let modified = SetTime::To(self.names.getattr(object).await?.modified);
            let times = SetAttributes { modified, ..SetAttributes::default() };
            let done = self.names.setattr(&caller, object, &times, None).await;
            done.result?;
            if let Some(after) = done.wcc.after {
                objects.saw(after.changed);
            }
        }
        objects.give_out();
        Ok(())
    }

    fn laid_out(&self, spots: Vec<(u16, Spot)>) -> Vec<LaidOut> {
        let with_verifier = |(iod, spot)| LaidOut { spot, verifier: self.known_verifier(iod) };
        spots.into_iter().map(with_verifier).collect()
    }

    /// Sets the owner of the first copies of a file's objects. Returns the iod of each copy, and
    /// the handle and address at which clients find the copy. Returns `None` if one of the iods is
    /// unreachable, or does not set the owner.
    async fn give(
        &self,
        objects: &Objects,
        owner: Owner,
    ) -> Result<Option<Vec<(u16, Spot)>>, FsError> {
        let copies: Vec<_> =
            (0..objects.head.layout.width()).map(|number| objects.head.copy(number, 0)).collect();
        if copies.iter().any(|&(iod, _)| self.iod(iod).is_away()) {
            return Ok(None);
        }
        let given = copies.iter().map(|&(iod, name)| self.iod(iod).give(name, owner));
        let given = join_all(given).await;
        if given.iter().any(|given| !matches!(given, Ok(Some(_)))) {
            // Some iods may have set the owner, and others not. So the next operation on the file
            // queries the owner numbers from the iods again.
            if given.iter().any(|given| !matches!(given, Ok(None))) {
                objects.doubt();
            }
            return Ok(None);
        }
        (0..objects.head.layout.width()).for_each(|number| objects.owned_by(number, owner.user));
        let spots = given.into_iter().filter_map(|given| given.ok().flatten());
        Ok(Some(copies.iter().map(|&(iod, _)| iod).zip(spots).collect()))
    }

    /// Ends the layout under which a client may write a file.
    pub(crate) async fn end_layout(&self, object: &ObjectId) -> Result<(), FsError> {
        let file = self.file(object);
        let data = match self.alone(object, &file).await {
            // The file and its objects no longer exist, so there is no layout to end.
            Err(FsError::Stale) => return Ok(()),
            data => data?,
        };
        match &*data {
            Data::OnIods(objects) => self.take_back(object, objects).await,
            Data::Nowhere | Data::Inline(_) | Data::Unknown | Data::Gone => Ok(()),
        }
    }

    /// Like `end_layout`, but does nothing if the store knows that the file has no layout for
    /// writing.
    pub(crate) async fn end_known_layout(&self, object: &ObjectId) -> Result<(), FsError> {
        let file = self.file(object);
        let is_out = match &*file.read().await {
            Data::OnIods(objects) => Some(objects.is_given_out()),
            Data::Nowhere | Data::Inline(_) | Data::Gone => Some(false),
            Data::Unknown => None,
        };
        match is_out {
            Some(true) => self.end_layout(object).await,
            Some(false) => Ok(()),
            None => {
                // The first query of the iods ends a layout from before a restart of the
                // metaserver. If the query fails, the store does not know of a layout, so ignore
                // the error.
                let _ = self.shared(object, &file).await;
                Ok(())
            }
        }
    }

    /// Like `end_layout`; the caller has exclusive access to the file.
    pub(crate) async fn take_back(
        &self,
        object: &ObjectId,
        objects: &Objects,
    ) -> Result<(), FsError> {
        if !objects.is_given_out() {
            return Ok(());
        }
        if self.options.shared {
            for (number, extent) in (0..).zip(self.extents(objects).await?) {
                objects.owned_by(number, extent.owner);
            }
            if !is_given_out(objects.greatest_owner()) {
                // This metaserver was unreachable for longer than the term of its leases, and
                // another metaserver has ended the layout in the meantime. So there is nothing left
                // to end here; only the cached sizes are out of date.
                objects.taken_back();
                objects.doubt();
                return Ok(());
            }
        }
        self.have_owner(objects, true).await?;
        self.show(object, objects).await?;
        self.have_owner(objects, false).await?;
        objects.taken_back();
        Ok(())
    }

    /// Makes the iods refuse clients that have a layout of the file. An error means that an iod may
    /// still accept writes. Reads are refused only by the iods that answer.
    pub(crate) async fn refuse_clients(
        &self,
        object: &ObjectId,
        objects: &Objects,
    ) -> Result<(), FsError> {
        self.take_back(object, objects).await?;
        if OWNERS.contains(&objects.greatest_owner()) {
            // Under an even owner number clients only read, and they may use the data only under
            // their leases. So an iod that keeps the old owner number does no harm: ignore the
            // error.
            let _ = self.have_owner(objects, false).await;
        }
        Ok(())
    }

    /// Makes the iods refuse the clients that have a layout of a file, after a SETATTR of the mode
    /// or owner that may have withdrawn a permission. Best effort: errors are ignored.
    pub(crate) async fn refuse_others(&self, object: &ObjectId) {
        let file = self.file(object);
        if let Ok(data) = self.alone(object, &file).await
            && let Data::OnIods(objects) = &*data
        {
            // SETATTR has ended any layout for writing before this call. So an error concerns
            // readers only: ignore it.
            let _ = self.refuse_clients(object, objects).await;
        }
    }

    async fn have_owner(&self, objects: &Objects, is_odd: bool) -> Result<(), FsError> {
        let owner = self.owner(objects, next(objects.greatest_owner(), is_odd));
        let numbers = 0..objects.head.layout.width();
        let given = numbers.map(async |number| {
            let (iod, name) = objects.head.copy(number, 0);
            let iod = self.iod(iod);
            // If a client may write the objects, every iod must set the new owner, so wait for all
            // iods. If clients only read, skip the unreachable iods.
            let is_asked = objects.is_given_out() || !iod.is_away();
            if is_asked { iod.give(name, owner).await } else { Err(FsError::Delay) }
        });
        let mut result = Ok(());
        for (number, given) in (0..).zip(join_all(given).await) {
            match given {
                Ok(Some(_)) => objects.owned_by(number, owner.user),
                // The iod refuses to set the owner, although clients had direct access to the
                // object before. A client may still write the object, so the layout has not ended.
                Ok(None) if OWNERS.contains(&objects.owner_of(number)) => {
                    result = Err(FsError::Delay);
                }
                Ok(None) => {}
                Err(error) => result = Err(error),
            }
        }
        result
    }

    /// Updates the times of the metafile on stable storage if clients have written data at the iods
    /// since the last update.
    pub(crate) async fn show(&self, object: &ObjectId, objects: &Objects) -> Result<(), FsError> {
        if !objects.is_given_out() {
            return Ok(());
        }
        self.ask_size(objects).await?;
        let Some(shown) = objects.unshown() else { return Ok(()) };
        self.touch_unasked(object, objects).await?;
        objects.shown(shown);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_increase_and_stay_in_range() {
        let first = OWNERS.start + 2;
        assert_eq!(
            [next(0, false), next(0, true), next(1000, true)],
            [first, first + 1, first + 1]
        );
        assert_eq!([next(first, false), next(first, true)], [first + 2, first + 1]);
        assert_eq!([next(first + 1, false), next(first + 1, true)], [first + 2, first + 3]);
        let last = OWNERS.end - 1;
        assert_eq!([next(last, false), next(last, true)], [first, first + 1]);
        assert_eq!([next(u32::MAX, false), next(u32::MAX, true)], [first, first + 1]);
        assert!(is_given_out(first + 1) && is_given_out(last));
        assert!(!is_given_out(first) && !is_given_out(1001) && !is_given_out(OWNERS.end + 1));
    }
}
