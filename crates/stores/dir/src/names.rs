//! LOOKUP, REMOVE, RMDIR, RENAME and LINK.

use std::os::fd::AsFd;
use std::sync::Arc;

use leasehold_base::units::FileId;
use leasehold_fs::{
    Attributes, Caller, Changed, FileType, Found, FsError, Linked, MaybeReady, Name, ObjectId,
    Renamed, Wcc,
};
use rustix::fs::{AtFlags, Mode, OFlags, linkat, openat, renameat, unlinkat};
use rustix::io::Errno;

use crate::change_detector::Trace;
use crate::errors::meaning;
use crate::inside::Believed;
use crate::object::{Descriptor, Object, Reach};
use crate::sync::{Change, Extent};
use crate::volume::{NAME, Volume};

/// The maximum number of attempts to read a name that changes concurrently.
pub(crate) const LOOK_TRIES: u32 = 4;

/// The size from which a file counts as large: the kernel needs longer to free its blocks than a
/// request should take.
pub(crate) const LARGE_BYTES: u64 = 64 << 20;

/// A name in an open directory.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'a> {
    pub(crate) directory: &'a Arc<Object>,
    pub(crate) name: Name<'a>,
}

/// An object after a successful rename.
#[derive(Clone, Copy)]
struct Moved {
    id: ObjectId,
    file_type: FileType,
    /// True if both names lead to the object, so that the rename has changed nothing.
    has_stayed: bool,
}

/// An object that is about to lose a name.
struct Doomed {
    id: Option<ObjectId>,
    file_id: FileId,
    object: Option<Arc<Object>>,
    /// True if the object had no other name when the store examined it.
    is_last: bool,
    /// True if the object was large when the store examined it, so that the release of its blocks
    /// takes long.
    is_large: bool,
}

impl Volume {
    /// Returns the object of a name.
    pub(crate) fn lookup(&self, caller: &Caller, spot: Spot<'_>) -> Result<Found, FsError> {
        let descriptor = must_be_directory(spot.directory)?;
        // Query the attributes of the directory before the search. If a name changes in between,
        // the attributes are older, and the client detects the change at its next query.
        let directory = self.attributes_of(&*descriptor)?;
        self.acting.as_caller(caller)?;
        let name = spot.name.as_bytes();
        let (object, attributes) = match self.look(&descriptor, name) {
            Err(FsError::Access) if self.leads_elsewhere(spot.directory, name) => {
                self.placeholder_of(spot.directory, name)?
            }
            found => {
                let found = found?;
                self.learn(&found.0, &spot.directory.id, name);
                found
            }
        };
        Ok(Found { object, attributes, directory: Some(directory) })
    }

    /// Returns the parent directory.
    pub(crate) fn parent(
        &self,
        caller: &Caller,
        directory: &Arc<Object>,
    ) -> Result<Found, FsError> {
        let descriptor = must_be_directory(directory)?;
        let attributes = self.attributes_of(&*descriptor)?;
        if directory.id == self.root.id {
            return Ok(Found { object: directory.id, attributes, directory: Some(attributes) });
        }
        self.acting.as_caller(caller)?;
        let above = openat(&*descriptor, c"..", NAME | OFlags::DIRECTORY, Mode::empty())
            .map_err(meaning)?;
        self.acting.as_server()?;
        let object = self
            .keep(self.handles.of(&above).map_err(meaning)?, Descriptor::new(above, Reach::Name))?;
        // Check without the result of an earlier period, because a local program may have moved the
        // directory out of the export just now.
        self.climb(&object, Believed::Nobody)?;
        let above = self.attributes(&object)?;
        Ok(Found { object: object.id, attributes: above, directory: Some(attributes) })
    }

    /// Returns the object of a name, by the cheapest method. Runs under the caller's identity.
    pub(crate) fn look(
        &self,
        directory: impl AsFd,
        name: &[u8],
    ) -> Result<(ObjectId, Attributes), FsError> {
        for _ in 0..LOOK_TRIES {
            let moment = self.descriptors.now();
            let attributes = self.attributes_at(&directory, name)?;
            let number = attributes.file_id.0;
            if let Some(object) = self.open_number(number, moment) {
                return Ok((object.id, attributes));
            }
            let id = self.handles.at(&directory, name).map_err(meaning)?;
            match self.handles.number(&id) {
                // The handle contains the inode number that the attributes have, so both calls saw
                // the same object.
                Some(same) if same == number => return Ok((id, attributes)),
                Some(_) => {}
                None => break,
            }
        }
        let file = openat(&directory, name, NAME, Mode::empty()).map_err(meaning)?;
        let id = self.handles.of(&file).map_err(meaning)?;
        let attributes = self.attributes_of(&file).map_err(gone_by_name)?;
        Ok((id, attributes))
    }

    /// Removes a name of any object other than a directory.
    pub(crate) fn remove(
        &self,
        caller: &Caller,
        spot: Spot<'_>,
    ) -> MaybeReady<'static, Changed<()>> {
        self.unlink(caller, spot, AtFlags::empty())
    }

    /// Removes an empty directory.
    pub(crate) fn rmdir(
        &self,
        caller: &Caller,
        spot: Spot<'_>,
    ) -> MaybeReady<'static, Changed<()>> {
        self.unlink(caller, spot, AtFlags::REMOVEDIR)
    }

    fn unlink(
        &self,
        caller: &Caller,
        spot: Spot<'_>,
        flags: AtFlags,
    ) -> MaybeReady<'static, Changed<()>> {
        let name = spot.name.as_bytes();
        let (changed, change) =
            self.change_names(caller, spot, Trace::Goes(name), |directory, _| {
                let doomed = self.doom(directory, name)?;
                unlinkat(directory, name, flags).map_err(meaning)?;
                self.bury(doomed);
                Ok(())
            });
        change.settle(changed)
    }

    /// Changes names in a directory under the caller's identity, within the directory's critical
    /// section. Returns the attributes from before the change only if the notifications match the
    /// trace and no other change occurred.
    pub(crate) fn change_names<T>(
        &self,
        caller: &Caller,
        spot: Spot<'_>,
        trace: Trace<'_>,
        operation: impl FnOnce(&Descriptor, &mut Change) -> Result<T, FsError>,
    ) -> (Changed<T>, Change) {
        let Spot { directory, name } = spot;
        let mut change = self.syncs.begin();
        let descriptor = match self.for_names(directory) {
            Ok(descriptor) => descriptor,
            Err(error) => {
                let wcc = self.unchanged(directory);
                return (Changed { result: Err(error), wcc }, change);
            }
        };
        let held = self.locks.one(&directory.id);
        let is_watched = self.watch(directory, &descriptor, &[trace]);
        let before = match self.attributes_of(&*descriptor) {
            Ok(before) => before.before(),
            Err(error) => return (Changed::failed(error), change),
        };
        let result =
            self.acting.as_caller(caller).and_then(|()| operation(&descriptor, &mut change));
        let wcc = match &result {
            Ok(_) => {
                self.join_names(directory, &descriptor, &mut change);
                let after = self.attributes_of(&*descriptor).ok();
                let alone = is_watched && self.was_alone(directory, &descriptor, name);
                Wcc { before: alone.then_some(before), after }
            }
            Err(_) => self.unchanged(directory),
        };
        drop(held);
        (Changed { result, wcc }, change)
    }

    /// Watches a directory before a change of its names; returns true if the kernel accepts the
    /// watch.
    fn watch(&self, directory: &Object, descriptor: &Descriptor, traces: &[Trace<'_>]) -> bool {
        self.change_detector.begin(&directory.id, traces)
            || self.acting.as_server().is_ok()
                && self.change_detector.watch(&directory.id, &Self::own_path(descriptor), traces)
    }

    /// Returns true if no other program changed a watched directory.
    fn was_alone(&self, directory: &Object, descriptor: &Descriptor, name: Name<'_>) -> bool {
        let name = name.as_bytes();
        // A rename of a name to itself changes nothing, but takes the kernel's lock of the
        // directory. After it, all notifications of earlier changes have arrived.
        match renameat(descriptor, name, descriptor, name) {
            Ok(()) | Err(Errno::NOENT) => {
                let alone = self.change_detector.was_alone(&directory.id);
                if self.change_detector.has_strangers() {
                    self.guards.ring();
                }
                alone
            }
            Err(_) => false,
        }
    }

    /// Returns a descriptor for changes of names in a directory. If syncs are on and the directory
    /// is readable, the descriptor can also sync the directory.
    fn for_names(&self, directory: &Object) -> Result<Arc<Descriptor>, FsError> {
        let present = must_be_directory(directory)?;
        if !self.syncs.are_wanted() {
            return Ok(present);
        }
        self.opened(directory, Reach::Read).or(Ok(present))
    }

    /// Joins the next sync of a directory, after a change of its names.
    fn join_names(&self, directory: &Object, descriptor: &Arc<Descriptor>, change: &mut Change) {
        if descriptor.reach() == Reach::Name {
            self.join_all(change);
        } else {
            change.join(&directory.id, descriptor, Extent::Object);
        }
    }

    /// Renames an object.
    pub(crate) fn rename(
        &self,
        caller: &Caller,
        from: Spot<'_>,
        to: Spot<'_>,
    ) -> MaybeReady<'static, Renamed> {
        let opened = self
            .for_names(from.directory)
            .and_then(|source| Ok((source, self.for_names(to.directory)?)));
        let (source, target) = match opened {
            Ok(both) => both,
            Err(error) => {
                let from = self.unchanged(from.directory);
                let to = self.unchanged(to.directory);
                return MaybeReady::now(Renamed { result: Err(error), from, to });
            }
        };
        let mut change = self.syncs.begin();
        let held = self.locks.two(&from.directory.id, &to.directory.id);
        let (away, here) =
            (Trace::MovesAway(from.name.as_bytes()), Trace::MovesHere(to.name.as_bytes()));
        let is_one = from.directory.id == to.directory.id;
        let are_watched = if is_one {
            self.watch(from.directory, &source, &[away, here])
        } else {
            self.watch(from.directory, &source, &[away])
                && self.watch(to.directory, &target, &[here])
        };
        let before = (self.attributes_of(&*source).ok(), self.attributes_of(&*target).ok());
        let renamed = self
            .acting
            .as_caller(caller)
            .and_then(|()| self.rename_as_caller((from, &source), (to, &target)));
        let moved = renamed.as_ref().ok().map(|moved| moved.id);
        let has_stayed = renamed.as_ref().is_ok_and(|moved| moved.has_stayed);
        let result = renamed.map(|moved| {
            self.join_names(to.directory, &target, &mut change);
            if !is_one {
                self.join_names(from.directory, &source, &mut change);
                self.join_moved(moved, &mut change);
            }
        });
        let wcc = |spot: Spot<'_>, descriptor: &Descriptor, before: Option<Attributes>| {
            if result.is_err() || has_stayed {
                return self.unchanged(spot.directory);
            }
            let after = self.attributes_of(descriptor).ok();
            let alone = are_watched && self.was_alone(spot.directory, descriptor, spot.name);
            Wcc { before: before.filter(|_| alone).map(|before| before.before()), after }
        };
        let mut arrived = wcc(to, &target, before.1);
        // If another program renames its object to the same name just after this rename, the kernel
        // merges the two equal notifications. So check that the name leads to the object that this
        // operation moved; if not, the attributes from before are uncertain.
        let leads_to = |moved| self.handles.at(&*target, to.name.as_bytes()) == Ok(moved);
        if arrived.before.is_some() && !moved.is_none_or(leads_to) {
            arrived.before = None;
        }
        let left = if is_one { arrived } else { wcc(from, &source, before.0) };
        drop(held);
        let settled = change.settle(Changed { result, wcc: Wcc::default() });
        settled.map(move |Changed { result, .. }| Renamed { result, from: left, to: arrived })
    }

    /// Renames under the caller's identity, and returns the moved object.
    fn rename_as_caller(
        &self,
        (from, source): (Spot<'_>, &Descriptor),
        (to, target): (Spot<'_>, &Descriptor),
    ) -> Result<Moved, FsError> {
        let (old, new) = (from.name.as_bytes(), to.name.as_bytes());
        let (moved, attributes) = self.look(source, old)?;
        let doomed = match self.doom(target, new) {
            Ok(doomed) => Some(doomed),
            Err(FsError::NotFound) => None,
            Err(error) => return Err(error),
        };
        renameat(source, old, target, new).map_err(meaning)?;
        let is_one = doomed.as_ref().is_some_and(|doomed| doomed.file_id == attributes.file_id);
        // A local program may have changed a name before the rename, so check the old name again.
        let has_stayed = is_one && self.handles.at(source, old) == Ok(moved);
        if let Some(doomed) = doomed.filter(|_| !has_stayed) {
            self.bury(doomed);
        }
        self.learn(&moved, &to.directory.id, new);
        Ok(Moved { id: moved, file_type: attributes.file_type, has_stayed })
    }

    /// Joins the next sync of a directory that has a new parent, if the syncs of the two parents do
    /// not include the directory.
    fn join_moved(&self, Moved { id, file_type, .. }: Moved, change: &mut Change) {
        if file_type != FileType::Directory || self.syncs_names || !self.syncs.are_wanted() {
            return;
        }
        match self.object(&id) {
            Ok(object) => self.join_object(&object, change),
            Err(_) => self.join_all(change),
        }
    }

    /// Gives an object one more name.
    pub(crate) fn link(
        &self,
        caller: &Caller,
        object: &Arc<Object>,
        spot: Spot<'_>,
    ) -> MaybeReady<'static, Linked> {
        let name = spot.name.as_bytes();
        let (changed, change) =
            self.change_names(caller, spot, Trace::Comes(name), |directory, change| {
                if object.file_type == FileType::Directory {
                    return Err(FsError::Invalid);
                }
                if self.attributes(object)?.link_count == 0 {
                    return Err(FsError::Stale);
                }
                let own = Self::own_name(&*object.descriptor());
                // Link by the path of the store's own descriptor, because a link by the descriptor
                // itself needs a privilege.
                linkat(&self.own_descriptors, own, directory, name, AtFlags::SYMLINK_FOLLOW)
                    .map_err(meaning)?;
                self.learn(&object.id, &spot.directory.id, name);
                if !self.syncs_names {
                    self.join_object(object, change);
                }
                Ok(())
            });
        let attributes = self.attributes(object).ok();
        let settled = change.settle(changed);
        settled.map(move |Changed { result, wcc }| Linked { result, attributes, directory: wcc })
    }

    /// Examines an object before it loses a name.
    fn doom(&self, directory: &Descriptor, name: &[u8]) -> Result<Doomed, FsError> {
        let moment = self.descriptors.now();
        let attributes = self.attributes_at(directory, name)?;
        let is_last = attributes.link_count == 1 || attributes.file_type == FileType::Directory;
        let is_large = attributes.size >= LARGE_BYTES && attributes.file_type == FileType::Regular;
        let file_id = attributes.file_id;
        let doomed = |id, object| Doomed { id, file_id, object, is_last, is_large };
        if let Some(object) = self.open_number(attributes.file_id.0, moment) {
            return Ok(doomed(Some(object.id), Some(object)));
        }
        if is_large {
            let file = openat(directory, name, NAME, Mode::empty()).map_err(meaning)?;
            let id = self.handles.of(&file).map_err(meaning)?;
            let object = self.keep(id, Descriptor::new(file, Reach::Name)).map_err(gone_by_name)?;
            return Ok(doomed(Some(id), Some(object)));
        }
        let id = match &self.index {
            Some(_) => self.handles.at(directory, name).ok(),
            None => None,
        };
        Ok(doomed(id.filter(|_| is_last), None))
    }

    /// Closes an object that has lost its last name.
    fn bury(&self, doomed: Doomed) {
        let Doomed { id, object, is_last, is_large, .. } = doomed;
        let is_gone = match (&object, &self.index) {
            // The object was examined as having no other name, and counts as removed. If it has got
            // another name since, the kernel opens it by its handle again.
            (Some(_), None) if is_last => true,
            (Some(object), _) => self.attributes(object) == Err(FsError::Stale),
            (None, _) => true,
        };
        if !is_gone {
            return;
        }
        if let (Some(index), Some(id)) = (&self.index, id) {
            index.remove(&id);
        }
        if let Some(id) = id {
            self.guard_gone(&id);
        }
        if let Some(object) = object {
            self.descriptors.remove(&object);
            // The drop of the last reference closes the object and frees its blocks, here or in the
            // thread pool.
            if is_large {
                self.blocking.run(Box::new(move || drop(object)));
            }
        }
    }
}

/// Maps the error for an object that lost its last name during its look-up. The client sent the
/// name and not the object's handle, so an error about a stale handle would make it drop the handle
/// of the directory.
fn gone_by_name(error: FsError) -> FsError {
    if error == FsError::Stale { FsError::NotFound } else { error }
}

/// Returns the descriptor of a directory.
pub(crate) fn must_be_directory(object: &Object) -> Result<Arc<Descriptor>, FsError> {
    if object.file_type == FileType::Directory {
        Ok(object.descriptor())
    } else {
        Err(FsError::NotDirectory)
    }
}
