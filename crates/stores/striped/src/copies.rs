//! Reads and changes of objects that have two copies on different iods, and the record of a copy
//! that misses a change.
//!
//! Rules:
//! 1. A change goes to all copies that are not out of date (`behind`), and succeeds if one copy has
//!    the change.
//! 2. If one copy misses a change that the other copy has, the first copy is out of date. The
//!    metafile records this on stable storage before the client receives the reply to the change.
//!    The store neither reads nor writes an out-of-date copy; the rebalancer replaces the copy when
//!    it migrates the file. The record changes no file data, so the store restores the modification
//!    time.
//! 3. At least one copy of each object is up to date. If a change would violate this rule, it
//!    fails.
//! 4. If the iod of one copy is full, the copy becomes out of date, provided that enough iods that
//!    the file may use are reachable and not full, so that the file can migrate to them. Otherwise
//!    the change fails for lack of space.

use futures_util::future::join_all;
use leasehold_base::units::FileTime;
use leasehold_fs::{FsError, MaybeReady, ObjectId, SetAttributes, SetTime, Stability};

use crate::Striped;
use crate::file::Objects;
use crate::full::lacks_space;
use crate::iod::{Iod, ObjectName};
use crate::metafile::BEHIND_OFFSET;
use crate::visible::superuser;

/// The result of each iod that carried out a change, with the number of the iod.
pub(crate) type Done<T> = Vec<(u16, T)>;

impl Striped {
    /// Makes a call that changes nothing at one up-to-date copy, and at the other copy if the first
    /// call fails.
    pub(crate) async fn ask<'a, T>(
        &'a self,
        file: &Objects,
        object: u16,
        ask: impl Fn(&'a dyn Iod, ObjectName) -> MaybeReady<'a, Result<T, FsError>>,
    ) -> Result<T, FsError> {
        if file.head.copies == 1 {
            let (iod, name) = file.head.copy(object, 0);
            return ask(self.iod(iod), name).await;
        }
        let mut copies = self.good_copies(file, object);
        // Try the copies on unreachable iods last.
        copies.sort_by_key(|&(_, iod, _)| self.iod(iod).is_away());
        let mut failed = FsError::Io;
        for (_, iod, name) in copies {
            match ask(self.iod(iod), name).await {
                // If any copy is only unreachable, report that the caller must retry, although the
                // other copy may be lost: the unreachable copy may return.
                Err(error) if failed != FsError::Delay => failed = error,
                Err(_) => {}
                done => return done,
            }
        }
        Err(failed)
    }

    /// Applies a change to all up-to-date copies. If `metafile` is present and one copy fails, the
    /// store records this copy as out of date in the metafile. If `metafile` is absent, the change
    /// must succeed on all copies.
    pub(crate) async fn change<'a, T>(
        &'a self,
        metafile: Option<&ObjectId>,
        file: &Objects,
        object: u16,
        work: impl Fn(&'a dyn Iod, ObjectName) -> MaybeReady<'a, Result<T, FsError>>,
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
            let done = if there { work(self.iod(iod), name).await } else { Err(FsError::Delay) };
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
        // Another task may have recorded one of these copies as out of date in the meantime. Ignore
        // the result of such a copy.
        let behind = file.behind();
        done.retain(|&(copy, ..)| !behind.has(object, copy));
        if done.is_empty() {
            Err(failed)
        } else {
            Ok(done.into_iter().map(|(_, iod, said)| (iod, said)).collect())
        }
    }

    /// Returns true if a change that failed with `failed` on one copy fails as a whole (rule 4).
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

    /// Records the error of a change at an iod, for the modules `full` and `health`.
    pub(crate) fn heard_error(&self, iod: u16, error: FsError) {
        self.full.heard(iod, error);
        // If the iod is unreachable now, the error is the result of a timeout and says nothing
        // about its disk.
        if !self.iod(iod).is_away() {
            self.health.heard(iod, error);
        }
    }

    /// Returns the up-to-date copies of an object: for each copy its number (0 or 1), the number of
    /// its iod, and its object name.
    fn good_copies(&self, file: &Objects, object: u16) -> Vec<(u16, u16, ObjectName)> {
        let behind = file.behind();
        let good = (0..file.head.copies).filter(|&copy| !behind.has(object, copy));
        good.map(|copy| {
            let (iod, name) = file.head.copy(object, copy);
            (copy, iod, name)
        })
        .collect()
    }

    /// Returns true if the up-to-date copies of some object are all on unreachable iods.
    pub(crate) fn lacks_one(&self, file: &Objects) -> bool {
        (0..file.head.layout.width()).any(|object| {
            self.good_copies(file, object).iter().all(|&(_, iod, _)| self.iod(iod).is_away())
        })
    }

    /// Records on stable storage that a copy is out of date.
    pub(crate) async fn note_behind(
        &self,
        metafile: &ObjectId,
        file: &Objects,
        object: u16,
        copy: u16,
    ) -> Result<(), FsError> {
        let _alone = file.times.write().await;
        let known = file.behind();
        let behind = known.with(object, copy).ok_or(FsError::Delay)?;
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

    /// Records internal maintenance: the store changed the metafile of a file but no file data.
    /// `before` and `after` are the change times; no other change ran in between.
    pub(crate) fn kept_up(&self, file: ObjectId, before: FileTime, after: FileTime) {
        self.put_off.follow(&file, before, after);
        // With several metaservers, another metaserver may have changed the file in between, so the
        // interval is not known to be maintenance only.
        if !self.options.shared {
            self.upkeep.note(file, before, after);
        }
    }
}

/// Returns true if the caller must receive this error of an iod (no space, file too large), because
/// the error is not a failure of the iod.
pub(crate) fn is_told(error: FsError) -> bool {
    lacks_space(error) || error == FsError::FileTooBig
}
