//! SETATTR.

use std::sync::Arc;

use leasehold_base::units::FileTime;
use leasehold_fs::permission::must_be_file;
use leasehold_fs::{
    Attributes, Caller, Changed, FileType, FsError, MaybeReady, Mode, NO_USER, SUPERUSER,
    SetAttributes, SetTime, offload,
};
use rustix::fs::{AtFlags, Gid, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};
use rustix::io::retry_on_intr;

use crate::errors::meaning;
use crate::identity::Acting;
use crate::names::LARGE_BYTES;
use crate::object::{Descriptor, Object, Reach};
use crate::sync::{Change, Extent};
use crate::volume::Volume;

impl Volume {
    /// Changes attributes, and syncs the changes. Truncates large files on the thread pool.
    pub(crate) fn setattr(
        self: &Arc<Self>,
        caller: &Caller,
        object: &Arc<Object>,
        changes: &SetAttributes,
        guard: Option<FileTime>,
    ) -> MaybeReady<'static, Changed<()>> {
        let frees_much = changes.size.is_some_and(|size| {
            let now = self.attributes(object).map_or(0, |now| now.size);
            now.saturating_sub(size) >= LARGE_BYTES
        });
        if !frees_much {
            return self.set(caller, object, changes, guard);
        }
        let (volume, caller, object) = (Arc::clone(self), caller.clone(), Arc::clone(object));
        let changes = *changes;
        let set = offload(&*self.blocking, move || volume.set(&caller, &object, &changes, guard));
        MaybeReady::later(async move { set.await.await })
    }

    fn set(
        &self,
        caller: &Caller,
        object: &Object,
        changes: &SetAttributes,
        guard: Option<FileTime>,
    ) -> MaybeReady<'static, Changed<()>> {
        let prepared = self.prepare(object, changes);
        let mut change = self.syncs.begin();
        let held = self.locks.one(&object.id);
        let before = match self.attributes(object) {
            Ok(before) => before,
            Err(error) => return MaybeReady::now(Changed::failed(error)),
        };
        let result = prepared.and_then(|descriptor| {
            if guard.is_some_and(|guard| guard != before.changed) {
                return Err(FsError::NotSynchronized);
            }
            self.check(caller, object, &before, changes)?;
            self.forget_exclusive(object);
            self.apply(caller, &descriptor, &before, changes)
        });
        let wcc = self.changed(object, &result);
        if result.is_ok() {
            self.join_object(object, &mut change);
        }
        drop(held);
        change.settle(Changed { result, wcc })
    }

    /// Returns a descriptor with the access mode that the change needs.
    fn prepare(
        &self,
        object: &Object,
        changes: &SetAttributes,
    ) -> Result<Arc<Descriptor>, FsError> {
        const OWNER_WRITES: u32 = 0o200;
        if changes.size.is_some() {
            must_be_file(object.file_type)?;
            return self.opened(object, Reach::Write);
        }
        let locks_out = changes.mode.is_some_and(|mode| mode.bits() & OWNER_WRITES == 0);
        if self.acting == Acting::Server && locks_out && object.file_type == FileType::Regular {
            // This change removes the owner's write permission. The client may have the file open,
            // and its owner may then continue to write. The server's user can open the file for
            // writing only before the change, so open it now and keep the descriptor.
            return self.opened(object, Reach::Write).or_else(|_| Ok(object.descriptor()));
        }
        Ok(object.descriptor())
    }

    /// Checks the permissions for all changes before the first change, so that no partial change
    /// occurs.
    fn check(
        &self,
        caller: &Caller,
        object: &Object,
        before: &Attributes,
        changes: &SetAttributes,
    ) -> Result<(), FsError> {
        let uid = match self.acting {
            Acting::Caller => caller.uid,
            Acting::Server => rustix::process::geteuid().as_raw(),
        };
        let gives_away = changes.uid.is_some_and(|uid| uid != before.uid);
        let owns = [SUPERUSER, before.uid].contains(&uid);
        let sets_time = |time| matches!(time, SetTime::To(_));
        let needs_owner = changes.mode.is_some()
            || changes.uid.is_some()
            || changes.gid.is_some()
            || sets_time(changes.accessed)
            || sets_time(changes.modified);
        if gives_away && uid != SUPERUSER || needs_owner && !owns {
            return Err(FsError::NotOwner);
        }
        let touches = changes.size.is_some()
            || changes.accessed == SetTime::Now
            || changes.modified == SetTime::Now;
        if touches { self.permit_write(caller, object, before) } else { Ok(()) }
    }

    /// Makes the changes. Makes changes that can still fail before the others.
    pub(crate) fn apply(
        &self,
        caller: &Caller,
        descriptor: &Descriptor,
        before: &Attributes,
        changes: &SetAttributes,
    ) -> Result<(), FsError> {
        self.acting.as_caller(caller)?;
        let ours = self.acting == Acting::Server;
        let uid = changes.uid.filter(|&uid| !ours || uid != before.uid);
        let gid = changes.gid.filter(|&gid| !ours || gid != before.gid);
        if uid.is_some() || gid.is_some() {
            change_owner(descriptor, uid, gid)?;
        }
        if let Some(size) = changes.size
            && let Err(error) = truncate(descriptor, size)
        {
            if uid.is_some() || gid.is_some() {
                change_owner(descriptor, Some(before.uid), Some(before.gid))?;
            }
            return Err(error);
        }
        // A symbolic link has no mode of its own, so a requested mode is ignored.
        if let Some(mode) = changes.mode
            && before.file_type != FileType::Symlink
        {
            self.change_mode(descriptor, mode)?;
        }
        self.change_times(caller, descriptor, before, changes)
    }

    pub(crate) fn change_mode(&self, descriptor: &Descriptor, mode: Mode) -> Result<(), FsError> {
        let mode = rustix::fs::Mode::from_raw_mode(mode.bits());
        let name = Self::own_name(descriptor);
        rustix::fs::chmodat(&self.own_descriptors, name, mode, AtFlags::empty()).map_err(meaning)
    }

    fn change_times(
        &self,
        caller: &Caller,
        descriptor: &Descriptor,
        before: &Attributes,
        changes: &SetAttributes,
    ) -> Result<(), FsError> {
        let SetAttributes { accessed, mut modified, .. } = *changes;
        if changes.size.is_some() && modified == SetTime::Now {
            // The truncation has already set this time to the current time.
            modified = SetTime::Keep;
        }
        if accessed == SetTime::Keep && modified == SetTime::Keep {
            return Ok(());
        }
        let is_now = [accessed, modified].iter().all(|time| !matches!(time, SetTime::To(_)));
        if is_now && caller.uid != before.uid && self.acting == Acting::Caller {
            // For this request the kernel requires write permission if both times are set, but
            // ownership if only one time is set. NFS requires write permission in both cases, which
            // `check` has verified, so set the times as the server.
            self.acting.as_server()?;
        }
        let times =
            Timestamps { last_access: timespec(accessed), last_modification: timespec(modified) };
        let flags = AtFlags::EMPTY_PATH;
        rustix::fs::utimensat(descriptor, c"", &times, flags).map_err(meaning)
    }

    /// Joins the next sync of a new object, or of an object with changed attributes.
    pub(crate) fn join_object(&self, object: &Object, change: &mut Change) {
        let can_be_opened = matches!(object.file_type, FileType::Regular | FileType::Directory);
        if self.syncs.are_wanted() {
            let descriptor = can_be_opened.then(|| self.opened(object, Reach::Read).ok());
            match descriptor.flatten() {
                Some(descriptor) => change.join(&object.id, &descriptor, Extent::Object),
                None => self.join_all(change),
            }
        }
    }

    /// Joins the next sync of the whole file system.
    pub(crate) fn join_all(&self, change: &mut Change) {
        change.join(&self.root.id, &self.root.descriptor(), Extent::FileSystem);
    }
}

fn change_owner(
    descriptor: &Descriptor,
    uid: Option<u32>,
    gid: Option<u32>,
) -> Result<(), FsError> {
    if [uid, gid].contains(&Some(NO_USER)) {
        // For the kernel, this id means that the owner or group stays unchanged, so the request
        // cannot be executed.
        return Err(FsError::Invalid);
    }
    let uid = uid.map(Uid::from_raw);
    let gid = gid.map(Gid::from_raw);
    rustix::fs::chownat(descriptor, c"", uid, gid, AtFlags::EMPTY_PATH).map_err(meaning)
}

fn truncate(descriptor: &Descriptor, size: u64) -> Result<(), FsError> {
    if i64::try_from(size).is_err() {
        return Err(FsError::FileTooBig);
    }
    retry_on_intr(|| rustix::fs::ftruncate(descriptor, size)).map_err(meaning)
}

fn timespec(time: SetTime) -> Timespec {
    let (tv_sec, tv_nsec) = match time {
        SetTime::Keep => (0, UTIME_OMIT),
        SetTime::Now => (0, UTIME_NOW),
        SetTime::To(time) => (time.seconds, time.nanoseconds.into()),
    };
    Timespec { tv_sec, tv_nsec }
}
