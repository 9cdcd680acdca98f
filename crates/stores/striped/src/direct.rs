//! Direct data access: clients read and write the data of a file at the iods themselves.
//!
//! Rules:
//! 1. Objects to which the store has sent clients belong to a user number of ours: an odd number
//!    while a client may write them, an even number otherwise. Each change takes the next number.
//!    The iods keep the number on stable storage and accept writes under no other number, so they
//!    refuse a client with an earlier layout even if the metaserver has lost all its memory. The
//!    metaserver does not give a client the number itself, but a caller (credential) that follows
//!    from the number by a key (`leasehold_fs::ClientKey`): without the key no client derives the
//!    caller of a later number, and no client that reads derives the caller that writes.
//! 2. While a client may write, the store queries the iods for sizes each time, and COMMIT updates
//!    the metafile to record the change of data. At the end of the layout the store first has the
//!    iods refuse the client, then records any later change of data in the metafile on stable
//!    storage, and then makes the number even.
//! 3. A store that finds an odd number which it does not know, as after a restart, ends the layout
//!    in this way. If an iod failed while the store assigned numbers, no client has received the
//!    layout, and there is no change to record.
//! 4. The store sends no client to an object that is out of date, or that is about to move. With
//!    two copies, clients can read the first; the metaserver alone writes both, since it must
//!    record a copy that misses a change. The data in the first copy is stable before the store
//!    sends a client there: otherwise its iod might lose the data, and be away when COMMIT finds
//!    the copy out of date, which ends no read lease. A client that changes the file under its own
//!    read lease, for example by a WRITE here, requests the layout again.
//! 5. SETATTR ends the layout: the permissions may differ afterwards, and later updates must not
//!    change the times that SETATTR set.
//! 6. If several metaservers change the same files, one assigns a number only while no other may
//!    write the file, and first queries the iods for the last number; it has no layout unknown to
//!    the others when they may write the file. The metafile changes before a client receives an odd
//!    number. So a metaserver that uses the file next queries the iods, even if it only reads and
//!    has queried them before, in case the first metaserver has failed or restarted in the
//!    meantime.
//! 7. Refusal of a client that only reads is best effort, without waiting: when other users may use
//!    the file, and when the file moves. Data that a client read is valid under its lease only, and
//!    no data changes, here or at a new location, before the lease is over.
//! 8. While a client may write, the metaserver never reports a WRITE of its own as partly done if
//!    an iod did not answer: the iod may do the rest later, and the client would not wait for this
//!    before it writes newer data there. A retry of the WRITE waits for the iod.

use bytes::Bytes;
use futures_util::future::join_all;
use leasehold_fs::permission::without_set_ids;
use leasehold_fs::{
    Alone, Attributes, Caller, FsError, LaidOut, Layout, ObjectId, Owner, Purpose, SetAttributes,
    SetTime, Spot, Stability, Verifier,
};

use crate::Striped;
use crate::file::{Data, Objects};
use crate::visible::superuser;

const OWNERS: core::ops::Range<u32> = Layout::OWNERS;

/// Returns true if clients may write an object that belongs to this user number.
pub(crate) fn is_given_out(user: u32) -> bool {
    Owner { user, group: user }.is_given_out()
}

/// Returns the next even or odd number after `owner`.
fn next(owner: u32, is_odd: bool) -> u32 {
    // The two smallest numbers own no object: a client that reads may have `OWNERS.start` as its
    // user (`ClientKey::reader`).
    let least = owner.saturating_add(1).max(OWNERS.start + 2);
    let next = if (least % 2 == 1) == is_odd { least } else { least.saturating_add(1) };
    if next < OWNERS.end { next } else { OWNERS.start + 2 + u32::from(is_odd) }
}

/// Returns the user number that the objects of a file get for a client.
fn number(objects: &Objects, writes: bool) -> u32 {
    // Clients that read may share a number. While another metaserver assigns the number, some
    // objects do not have it yet: with a new number the iods would refuse that metaserver's
    // clients.
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
        // A read or write of zero bytes checks the caller's permission.
        let names = if writes {
            let none = Bytes::new();
            let done = self.names.write(caller, object, 0, none, Stability::Unstable).await;
            let verifier = done.result?.verifier;
            // A client that may write an object may also read it.
            if self.names.read(caller, object, 0, 0).await.is_err() {
                return Ok(None);
            }
            // A write by the caller clears the set-user-ID and set-group-ID bits.
            let has_set_ids = |after: Attributes| without_set_ids(after.mode) != after.mode;
            if done.wcc.after.is_some_and(has_set_ids) {
                return Ok(None);
            }
            verifier
        } else {
            self.names.read(caller, object, 0, 0).await?;
            Verifier::default()
        };
        if self.options.shared && !self.options.leased {
            return Ok(None);
        }
        let file = self.file(object);
        let alone = if writes { self.names.alone(object).await? } else { Alone::default() };
        if let (true, Data::OnIods(objects)) = (self.options.shared, &*file.read().await) {
            // Another metaserver may have assigned the last number; only the iods know it.
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
            // Other metaservers would not query the iods for a file without a recorded change.
            let (all, stability) = (superuser(), Stability::FileSync);
            self.touch(&all, object, objects, None, stability).await.result?;
        }
        let Some(spots) = self.give(objects, owner).await? else { return Ok(None) };
        if writes {
            // Data that the client writes may be stable at once, so its location must be stable
            // before.
            self.names.commit(caller, object, 0, 0).await.result?;
            self.give_out(object, objects).await?;
            objects.alone_by(alone.number);
        }
        let verifier = self.verifier(names, &[]);
        let (unit, caller) = (objects.head.layout.unit(), self.caller(owner, purpose));
        Ok(Some(Layout { unit, owner, caller, verifier, objects: self.laid_out(spots) }))
    }

    /// Returns the caller under which a client calls the iods.
    fn caller(&self, owner: Owner, purpose: Purpose) -> Owner {
        match purpose {
            Purpose::Read => self.options.clients.reader(owner),
            Purpose::Write => self.options.clients.writer(owner),
        }
    }

    /// Returns the owner of a file's objects for this number.
    fn owner(&self, objects: &Objects, number: u32) -> Owner {
        self.options.clients.owner(objects.head.name.0, number)
    }

    /// Commits the first copies to stable storage; returns true if all of them succeeded. The store
    /// records nothing about a copy that does not answer, since this is no change of data.
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
        // A writer must detect data that an iod has lost before.
        drop(self.heard(&said));
        true
    }

    /// Records that a client may write the objects from now on. By the change time of the metafile
    /// other metaservers detect that they must query the iods; no data is changed yet.
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

    /// Gives the first copies of a file's objects to an owner. Returns the place of each with its
    /// iod; `None` if one of the copies is not available for this.
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
            // The next call to use the file finds out which of the iods carried out the change.
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
            // The file no longer exists, and its objects neither.
            Err(FsError::Stale) => return Ok(()),
            data => data?,
        };
        match &*data {
            Data::OnIods(objects) => self.take_back(object, objects).await,
            Data::Nowhere | Data::Inline(_) | Data::Unknown | Data::Gone => Ok(()),
        }
    }

    /// Like `end_layout`, if the store knows of a layout.
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
                // The first query ends a layout from before a restart. If it fails, no layout is
                // known.
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
                // Another metaserver has ended the layout while this one was unreachable for longer
                // than its leases lasted.
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

    /// Makes the iods refuse clients that have a layout of the file: writes always, reads at the
    /// iods that answer.
    pub(crate) async fn refuse_clients(
        &self,
        object: &ObjectId,
        objects: &Objects,
    ) -> Result<(), FsError> {
        self.take_back(object, objects).await?;
        if OWNERS.contains(&objects.greatest_owner()) {
            // No client writes under an even number, and data that a client read is valid under a
            // lease only.
            let _ = self.have_owner(objects, false).await;
        }
        Ok(())
    }

    /// Like `refuse_clients`, before other users may use a file.
    pub(crate) async fn refuse_others(&self, object: &ObjectId) {
        let file = self.file(object);
        if let Ok(data) = self.alone(object, &file).await
            && let Data::OnIods(objects) = &*data
        {
            // The iods refused clients that write before this.
            let _ = self.refuse_clients(object, objects).await;
        }
    }

    async fn have_owner(&self, objects: &Objects, is_odd: bool) -> Result<(), FsError> {
        let owner = self.owner(objects, next(objects.greatest_owner(), is_odd));
        let numbers = 0..objects.head.layout.width();
        let given = numbers.map(async |number| {
            let (iod, name) = objects.head.copy(number, 0);
            let iod = self.iod(iod);
            // Only the refusal of clients that write waits for iods.
            let is_asked = objects.is_given_out() || !iod.is_away();
            if is_asked { iod.give(name, owner).await } else { Err(FsError::Delay) }
        });
        let mut result = Ok(());
        for (number, given) in (0..).zip(join_all(given).await) {
            match given {
                Ok(Some(_)) => objects.owned_by(number, owner.user),
                // Clients had direct access to the object before, so a client may still write it
                // there.
                Ok(None) if OWNERS.contains(&objects.owner_of(number)) => {
                    result = Err(FsError::Delay);
                }
                Ok(None) => {}
                Err(error) => result = Err(error),
            }
        }
        result
    }

    /// Updates the metafile on stable storage if clients have changed data since it last reflected
    /// the objects.
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
