//! Copies of objects: what is asked of which, and what becomes of one that misses a change.
//!
//! Rules:
//! 1. A change goes to all copies that are not behind, and counts when one has it.
//! 2. One that did not do what another did is behind from then on: that is on stable storage in the
//!    metafile before anybody is told of the change. It is neither read nor written any more, until
//!    the file is moved. No data was changed by that, so the modification time stays.
//! 3. One of an object is never behind: where that cannot be had, nothing can.
//! 4. One of two copies that finds no room is behind, like a copy whose iod fails, if other iods
//!    that the file may use are there and have room for the file: the file moves to these iods.
//!    Otherwise the change fails for lack of room.

use futures_util::future::join_all;
use leasehold_base::units::FileTime;
use leasehold_fs::{Answer, FsError, ObjectId, SetAttributes, SetTime, Stability};

use crate::Striped as Volume;
use crate::file::Objects;
use crate::full::lacks_space;
use crate::iod::{Iod, ObjectName};
use crate::look::superuser;
use crate::metafile::BEHIND_OFFSET;

/// What each iod said that did a change, by its number.
pub(crate) type Done<T> = Vec<(u16, T)>;

impl Volume {
    /// Asks a copy that is good, and another where that fails.
    pub(crate) async fn ask<'a, T>(
        &'a self,
        file: &Objects,
        object: u16,
        ask: impl Fn(&'a dyn Iod, ObjectName) -> Answer<'a, Result<T, FsError>>,
    ) -> Result<T, FsError> {
        if file.head.copies == 1 {
            let (iod, name) = file.head.copy(object, 0);
            return ask(self.iod(iod), name).await;
        }
        let mut copies = self.good_copies(file, object);
        // Who is away comes last.
        copies.sort_by_key(|&(_, iod, _)| self.iod(iod).is_away());
        let mut failed = FsError::Io;
        for (_, iod, name) in copies {
            match ask(self.iod(iod), name).await {
                // A copy that is away may be back, and the other may be lost.
                Err(error) if failed != FsError::Later => failed = error,
                Err(_) => {}
                done => return done,
            }
        }
        Err(failed)
    }

    /// Has all copies that are good do something. Those that cannot are behind from then on, where
    /// `metafile` is the file's; without one, all must.
    pub(crate) async fn change<'a, T>(
        &'a self,
        metafile: Option<&ObjectId>,
        file: &Objects,
        object: u16,
        work: impl Fn(&'a dyn Iod, ObjectName) -> Answer<'a, Result<T, FsError>>,
    ) -> Result<Done<T>, FsError> {
        if file.head.copies == 1 {
            let (iod, name) = file.head.copy(object, 0);
            let done = work(self.iod(iod), name).await;
            let done = done.inspect_err(|error| self.heard_error(iod, *error))?;
            return Ok(vec![(iod, done)]);
        }
        let copies = self.good_copies(file, object);
        let some_are_there = copies.iter().any(|&(_, iod, _)| !self.iod(iod).is_away());
        let asked = copies.iter().map(async |&(copy, iod, name)| {
            let there = metafile.is_none() || !some_are_there || !self.iod(iod).is_away();
            let done = if there { work(self.iod(iod), name).await } else { Err(FsError::Later) };
            (copy, iod, done)
        });
        let (mut done, mut lost, mut failed) = (Vec::new(), None, FsError::Io);
        for (copy, iod, result) in join_all(asked).await {
            match result {
                Ok(said) => done.push((copy, iod, said)),
                Err(error) => {
                    self.heard_error(iod, error);
                    lost = Some(copy);
                    failed = if is_told(failed) { failed } else { error };
                }
            }
        }
        if let Some(lost) = lost {
            let Some(metafile) = metafile else { return Err(failed) };
            if self.is_refused(metafile, file, failed).await? {
                return Err(failed);
            }
            if !done.is_empty() {
                self.note_behind(metafile, file, object, lost).await?;
            }
        }
        // One that was found behind meanwhile counts for nothing.
        let behind = file.behind();
        done.retain(|&(copy, ..)| !behind.has(object, copy));
        if done.is_empty() {
            Err(failed)
        } else {
            Ok(done.into_iter().map(|(_, iod, said)| (iod, said)).collect())
        }
    }

    /// Returns true if a change that a copy answered with `failed` fails as a whole (rule 4).
    async fn is_refused(
        &self,
        metafile: &ObjectId,
        file: &Objects,
        failed: FsError,
    ) -> Result<bool, FsError> {
        if !lacks_space(failed) {
            return Ok(is_told(failed));
        }
        let shape = self.shape(metafile).await?;
        Ok(!self.others_have_room(&shape, file.head.copies))
    }

    /// Takes note of the error of a change at an iod.
    pub(crate) fn heard_error(&self, iod: u16, error: FsError) {
        self.full.heard(iod, error);
        // The call may have waited for an iod that is away meanwhile.
        if !self.iod(iod).is_away() {
            self.health.heard(iod, error);
        }
    }

    /// The copies that are not behind: which, on what iod, by what name.
    fn good_copies(&self, file: &Objects, object: u16) -> Vec<(u16, u16, ObjectName)> {
        let behind = file.behind();
        let good = (0..file.head.copies).filter(|&copy| !behind.has(object, copy));
        good.map(|copy| {
            let (iod, name) = file.head.copy(object, copy);
            (copy, iod, name)
        })
        .collect()
    }

    /// Whether an object has no good copy but on iods that are away.
    pub(crate) fn lacks_one(&self, file: &Objects) -> bool {
        (0..file.head.layout.width()).any(|object| {
            self.good_copies(file, object).iter().all(|&(_, iod, _)| self.iod(iod).is_away())
        })
    }

    /// Notes on stable storage that a copy lacks something.
    pub(crate) async fn note_behind(
        &self,
        metafile: &ObjectId,
        file: &Objects,
        object: u16,
        copy: u16,
    ) -> Result<(), FsError> {
        let _alone = file.times.write().await;
        let known = file.behind();
        let behind = known.with(object, copy).ok_or(FsError::Later)?;
        if behind == known {
            return Ok(());
        }
        let before = self.names.getattr(metafile).await?;
        let note = behind.encode();
        let length = note.len();
        let caller = superuser();
        let at = BEHIND_OFFSET;
        let done = self.names.write(&caller, metafile, at, note, Stability::FileSync).await;
        if done.result?.count as usize != length {
            return Err(FsError::NoSpace);
        }
        file.set_behind(behind);
        let identity = self.names.identity(metafile);
        self.tending.lacks_a_copy(identity);
        let modified = SetTime::To(before.modified);
        let times = SetAttributes { modified, ..SetAttributes::default() };
        let done = self.names.setattr(&caller, metafile, &times, None).await;
        if let Some(after) = done.wcc.after {
            self.kept_up(identity, before.changed, after.changed);
        }
        Ok(())
    }

    /// The metafile of a file was changed, though no data was, and nobody else was at it.
    pub(crate) fn kept_up(&self, file: ObjectId, before: FileTime, after: FileTime) {
        self.put_off.follow(&file, before, after);
        // What another metaserver did in between is not known here.
        if !self.options.shared {
            self.upkeep.note(file, before, after);
        }
    }
}

/// Whether an error is the answer to the caller, rather than that of an iod that is not well.
pub(crate) fn is_told(error: FsError) -> bool {
    lacks_space(error) || error == FsError::FileTooBig
}
