//! Files whose data clients read and write on the iods themselves.
//!
//! Rules:
//! 1. Objects that clients were sent to belong to a number of ours: an odd one while a client may
//!    write them, an even one otherwise. Each change takes the next, which iods keep on stable
//!    storage and let nobody else write by; so who was sent there before is refused, whatever the
//!    metaserver has forgotten. The metaserver tells a client a caller that follows from the number
//!    by a key (`leasehold_fs::ClientKey`), and not the number itself: without the key no client
//!    derives the caller of a later number, and no client that reads derives the caller that
//!    writes.
//! 2. While a client may write, sizes are asked of the iods each time, and COMMIT has the metafile
//!    show that data was changed. At the end it shows what came after that: the client is refused
//!    first, then the metafile is changed on stable storage, then the number is even.
//! 3. Whoever finds an odd number that nobody knows of, as after a restart, ends it so. Where an iod
//!    failed while numbers were given, nobody was sent there, and there is nothing to show.
//! 4. Nobody is sent to an object that lacks something, or that is about to move. Of two copies the
//!    first can be read; both are only written here, since one that misses a change has to be noted.
//!    What lies in the first is stable before anybody is sent there: else its iod may lose that, and
//!    be away when COMMIT finds it behind, which ends no lease to read. Who changes the file under
//!    the lease that it reads by, as by a WRITE here, asks anew where to read.
//! 5. SETATTR ends it: permissions are others then, and times that were set are not changed later.
//! 6. Where several metaservers change the same files, one gives a number only while no other may
//!    write the file, and asks the iods for the last before; and it has given nothing out that others
//!    do not know of when they may. The metafile is changed before a client is told of an odd number,
//!    so that whoever comes to the file next asks the iods, also one that only reads and has looked
//!    at them before, should this one be gone or be started anew meanwhile.
//! 7. Who only reads is refused where that can be had, and nobody waits for it: when other users may
//!    use the file, and when it moves. What was read counts under a lease, and no data is changed,
//!    here or where it moved to, before that is over.
//! 8. While a client may write, nobody is told that a WRITE by the metaserver was done in part where
//!    an iod did not answer: that may do the rest later, and the client would not wait for it before
//!    it writes something newer there. Asked for again, the same waits for it.

use bytes::Bytes;
use futures_util::future::join_all;
use leasehold_fs::permission::without_set_ids;
use leasehold_fs::{
    Alone, Attributes, Caller, FsError, LaidOut, Layout, ObjectId, Owner, Purpose, SetAttributes,
    SetTime, Spot, Stability, Verifier,
};

use crate::Striped as Volume;
use crate::file::{Data, Objects};
use crate::look::superuser;

const OWNERS: core::ops::Range<u32> = Layout::OWNERS;

/// True if clients may write an object that belongs to this user.
pub(crate) fn is_given_out(user: u32) -> bool {
    Owner { user, group: user }.is_given_out()
}

/// The next number after one, even or odd.
fn next(owner: u32, is_odd: bool) -> u32 {
    // Whoever reads is the user before.
    let least = owner.saturating_add(1).max(OWNERS.start + 2);
    let next = if (least % 2 == 1) == is_odd { least } else { least.saturating_add(1) };
    if next < OWNERS.end { next } else { OWNERS.start + 2 + u32::from(is_odd) }
}

/// The number of the owner that the objects of a file get for a client.
fn number(objects: &Objects, writes: bool) -> u32 {
    // Clients that read may share a number. Not all objects belong to the number yet while another
    // metaserver is giving it: a new number would have the clients of that metaserver refused.
    let greatest = objects.greatest_owner();
    let is_readers = OWNERS.contains(&greatest) && !is_given_out(greatest);
    if is_readers && !writes { greatest } else { next(greatest, writes) }
}

impl Volume {
    /// Where a client finds the data of a file.
    pub(crate) async fn tell_layout(
        &self,
        caller: &Caller,
        object: &ObjectId,
        purpose: Purpose,
    ) -> Result<Option<Layout>, FsError> {
        let writes = purpose == Purpose::Write;
        // Whether the caller may is seen by reading or writing nothing.
        let names = if writes {
            let none = Bytes::new();
            let done = self.names.write(caller, object, 0, none, Stability::Unstable).await;
            let verifier = done.result?.verifier;
            // Whoever may write an object may read it.
            if self.names.read(caller, object, 0, 0).await.is_err() {
                return Ok(None);
            }
            // A write by the caller takes those away.
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
            // Whose number is the last the iods know.
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
            // Of such a file other metaservers would not ask the iods.
            let (all, stability) = (superuser(), Stability::FileSync);
            self.touch(&all, object, objects, None, stability).await.result?;
        }
        let Some(spots) = self.give(objects, owner).await? else { return Ok(None) };
        if writes {
            // What is written there may be stable at once, so where it lies must be.
            self.names.commit(caller, object, 0, 0).await.result?;
            self.give_out(object, objects).await?;
            objects.alone_by(alone.number);
        }
        let verifier = self.verifier(names, &[]);
        let (unit, caller) = (objects.head.layout.unit(), self.caller(owner, purpose));
        Ok(Some(Layout { unit, owner, caller, verifier, objects: self.laid_out(spots) }))
    }

    /// The caller as which a client is to call the iods.
    fn caller(&self, owner: Owner, purpose: Purpose) -> Owner {
        match purpose {
            Purpose::Read => self.options.clients.reader(owner),
            Purpose::Write => self.options.clients.writer(owner),
        }
    }

    /// The owner of a file's objects for this number.
    fn owner(&self, objects: &Objects, number: u32) -> Owner {
        self.options.clients.owner(objects.head.name.0, number)
    }

    /// Has what the first copies have on stable storage; whether all of them do. Of one that does not
    /// answer nothing is noted, since nothing is asked for.
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
        // What one has lost before shows to who wrote it.
        drop(self.heard(&said));
        true
    }

    /// A client may write the objects from now on. Others see by the change time of the metafile that
    /// the iods are to be asked; no data is changed yet.
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

    /// Has the first copies of a file's objects belong to a number, and says where they are, each
    /// with its iod; nothing where one of them cannot.
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
            // What some of them did is found out by who comes next.
            if given.iter().any(|given| !matches!(given, Ok(None))) {
                objects.doubt();
            }
            return Ok(None);
        }
        (0..objects.head.layout.width()).for_each(|number| objects.owned_by(number, owner.user));
        let spots = given.into_iter().filter_map(|given| given.ok().flatten());
        Ok(Some(copies.iter().map(|&(iod, _)| iod).zip(spots).collect()))
    }

    /// Ends what a client was told of where to write a file.
    pub(crate) async fn end_layout(&self, object: &ObjectId) -> Result<(), FsError> {
        let file = self.file(object);
        let data = match self.alone(object, &file).await {
            // It is gone, and its objects with it.
            Err(FsError::Stale) => return Ok(()),
            data => data?,
        };
        match &*data {
            Data::OnIods(objects) => self.take_back(object, objects).await,
            Data::Nowhere | Data::Inline(_) | Data::Unknown | Data::Gone => Ok(()),
        }
    }

    /// The same, where there is one.
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
                // The first look ends one of before a restart; who cannot look knows of none.
                let _ = self.shared(object, &file).await;
                Ok(())
            }
        }
    }

    /// The same, with nobody else at the file.
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
                // Another has ended it when this one was away for so long that its leases were over.
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

    /// Has clients that were sent to the objects of a file refused: whatever they were to write,
    /// and to read where the iods answer.
    pub(crate) async fn refuse_clients(
        &self,
        object: &ObjectId,
        objects: &Objects,
    ) -> Result<(), FsError> {
        self.take_back(object, objects).await?;
        if OWNERS.contains(&objects.greatest_owner()) {
            // Nobody writes by an even number, and what is read counts under a lease only.
            let _ = self.have_owner(objects, false).await;
        }
        Ok(())
    }

    /// The same, where other users may use a file from now on.
    pub(crate) async fn refuse_others(&self, object: &ObjectId) {
        let file = self.file(object);
        if let Ok(data) = self.alone(object, &file).await
            && let Data::OnIods(objects) = &*data
        {
            // Who writes was refused before.
            let _ = self.refuse_clients(object, objects).await;
        }
    }

    async fn have_owner(&self, objects: &Objects, is_odd: bool) -> Result<(), FsError> {
        let owner = self.owner(objects, next(objects.greatest_owner(), is_odd));
        let numbers = 0..objects.head.layout.width();
        let given = numbers.map(async |number| {
            let (iod, name) = objects.head.copy(number, 0);
            let iod = self.iod(iod);
            // Only who writes is waited for.
            let is_asked = objects.is_given_out() || !iod.is_away();
            if is_asked { iod.give(name, owner).await } else { Err(FsError::Later) }
        });
        let mut result = Ok(());
        for (number, given) in (0..).zip(join_all(given).await) {
            match given {
                Ok(Some(_)) => objects.owned_by(number, owner.user),
                // It once could, so a client may still write it there.
                Ok(None) if OWNERS.contains(&objects.owner_of(number)) => {
                    result = Err(FsError::Later);
                }
                Ok(None) => {}
                Err(error) => result = Err(error),
            }
        }
        result
    }

    /// Has the metafile show that clients have changed data since it last did, on stable storage.
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
    fn numbers_go_up_and_stay_among_ours() {
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
