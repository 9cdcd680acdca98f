//! Creation and removal of names.

use leasehold_base::units::{FileId, FileTime};
use leasehold_fs::permission::{SET_GROUP, may_set, sticky_forbids};
use leasehold_fs::{Caller, Changed, FileType, Found, FsError, Linked, Mode, NewFile, NewNode};
use leasehold_fs::{ObjectId, Place, SUPERUSER, SetAttributes, Wcc};

use crate::contents::Contents;
use crate::node::{Body, Directory};
use crate::tree::Tree;
use crate::{FILE_BYTES_MAX, LINK_MAX};

const FILE_MODE: Mode = Mode::from_bits(0o600);
const DIRECTORY_MODE: Mode = Mode::from_bits(0o700);
const SYMLINK_MODE: Mode = Mode::from_bits(0o777);

impl Tree {
    pub(crate) fn lookup(&self, caller: &Caller, place: Place<'_>) -> Result<Found, FsError> {
        let directory = self.resolve(&place.directory)?;
        let target = self.child(caller, directory, place.name)?.ok_or(FsError::NotFound)?;
        Ok(Found { directory: Some(self.attributes(directory)), ..self.found(target) })
    }

    pub(crate) fn parent(&self, caller: &Caller, object: &ObjectId) -> Result<Found, FsError> {
        let directory = self.resolve(object)?;
        let parent = self.searched(caller, directory)?.parent;
        Ok(Found { directory: Some(self.attributes(directory)), ..self.found(parent) })
    }

    fn found(&self, id: FileId) -> Found {
        Found { object: self.object(id), attributes: self.attributes(id), directory: None }
    }

    pub(crate) fn create(
        &mut self,
        caller: &Caller,
        place: Place<'_>,
        file: &NewFile,
    ) -> Changed<Found> {
        self.change(&place.directory, |tree, directory| {
            if let Some(target) = tree.child(caller, directory, place.name)? {
                tree.take_existing(caller, target, file)?;
                return Ok(tree.found(target));
            }
            let (attributes, verifier) = file.parts();
            let body = Body::Regular { contents: Contents::default(), verifier };
            let id = tree.enter(caller, directory, place, body, FILE_MODE, &attributes)?;
            Ok(tree.found(id))
        })
    }

    fn take_existing(
        &mut self,
        caller: &Caller,
        target: FileId,
        file: &NewFile,
    ) -> Result<(), FsError> {
        let Body::Regular { verifier, .. } = &self.node(target).body else {
            return Err(FsError::AlreadyExists);
        };
        match file {
            NewFile::Unchecked(attributes) => {
                let changes = SetAttributes { size: attributes.size, ..SetAttributes::default() };
                may_set(&self.attributes(target), caller, &changes, FILE_BYTES_MAX)?;
                if changes.size.is_some() {
                    let stamp = self.stamp();
                    self.apply(caller, target, &changes, stamp);
                }
                Ok(())
            }
            NewFile::Exclusive { verifier: wanted, .. } if *verifier == Some(*wanted) => Ok(()),
            NewFile::Guarded(_) | NewFile::Exclusive { .. } => Err(FsError::AlreadyExists),
        }
    }

    pub(crate) fn make(
        &mut self,
        caller: &Caller,
        place: Place<'_>,
        node: &NewNode<'_>,
        attributes: &SetAttributes,
    ) -> Changed<Found> {
        self.change(&place.directory, |tree, directory| {
            if tree.child(caller, directory, place.name)?.is_some() {
                return Err(FsError::AlreadyExists);
            }
            let special = |file_type, device| Body::Special { file_type, device };
            let mut attributes = SetAttributes { size: None, ..*attributes };
            let (body, mode) = match *node {
                NewNode::Directory => (Body::Directory(Directory::new(directory)), DIRECTORY_MODE),
                NewNode::Symlink(target) => {
                    attributes.mode = None;
                    (Body::Symlink(target.to_vec()), SYMLINK_MODE)
                }
                NewNode::BlockDevice(_) | NewNode::CharacterDevice(_)
                    if caller.uid != SUPERUSER =>
                {
                    return Err(FsError::NotOwner);
                }
                NewNode::BlockDevice(device) => (special(FileType::BlockDevice, device), FILE_MODE),
                NewNode::CharacterDevice(device) => {
                    (special(FileType::CharacterDevice, device), FILE_MODE)
                }
                NewNode::Socket => (special(FileType::Socket, <_>::default()), FILE_MODE),
                NewNode::Fifo => (special(FileType::Fifo, <_>::default()), FILE_MODE),
            };
            let id = tree.enter(caller, directory, place, body, mode, &attributes)?;
            Ok(tree.found(id))
        })
    }

    /// Adds an object under a free name. On an error nothing changes.
    fn enter(
        &mut self,
        caller: &Caller,
        directory: FileId,
        place: Place<'_>,
        body: Body,
        mode: Mode,
        attributes: &SetAttributes,
    ) -> Result<FileId, FsError> {
        self.may_change(caller, directory)?;
        let makes_directory = matches!(body, Body::Directory(_));
        if makes_directory && self.node(directory).link_count == LINK_MAX {
            return Err(FsError::TooManyLinks);
        }
        if self.nodes.len() as u64 >= self.config.capacity_files {
            return Err(FsError::NoSpace);
        }
        self.room_for(u64::from(makes_directory))?;
        let above = self.node(directory);
        let inherited = above.mode.bits() & SET_GROUP;
        let gid = if inherited != 0 { above.gid } else { caller.gid };
        let stamp = self.stamp();
        let id = self.add(&Caller { gid, ..caller.clone() }, mode, body, stamp);
        if let Err(error) = may_set(&self.attributes(id), caller, attributes, FILE_BYTES_MAX) {
            self.forget(id);
            return Err(error);
        }
        self.apply(caller, id, attributes, stamp);
        if makes_directory {
            let node = self.node_mut(id);
            node.mode = Mode::from_bits(node.mode.bits() | inherited);
            node.link_count = 1;
        }
        self.add_name(directory, place, id, stamp)?;
        Ok(id)
    }

    /// Adds a free name for an object.
    pub(crate) fn add_name(
        &mut self,
        directory: FileId,
        place: Place<'_>,
        target: FileId,
        stamp: FileTime,
    ) -> Result<(), FsError> {
        self.directory_mut(directory)?.insert(place.name.as_bytes(), target);
        self.node_mut(target).link_count += 1;
        if let Ok(below) = self.directory_mut(target) {
            below.parent = directory;
            self.node_mut(directory).link_count += 1;
        }
        self.touch(directory, stamp, true);
        self.touch(target, stamp, false);
        Ok(())
    }

    pub(crate) fn remove(&mut self, caller: &Caller, place: Place<'_>) -> Changed<()> {
        self.change(&place.directory, |tree, directory| {
            let target = tree.removable(caller, directory, place)?;
            if tree.is_directory(target) {
                return Err(FsError::IsDirectory);
            }
            let stamp = tree.stamp();
            tree.drop_name(directory, place, stamp)
        })
    }

    pub(crate) fn rmdir(&mut self, caller: &Caller, place: Place<'_>) -> Changed<()> {
        self.change(&place.directory, |tree, directory| {
            let target = tree.removable(caller, directory, place)?;
            if !tree.directory(target)?.is_empty() {
                return Err(FsError::NotEmpty);
            }
            let stamp = tree.stamp();
            tree.drop_name(directory, place, stamp)
        })
    }

    /// Returns the object of a name that the caller may remove from a directory.
    pub(crate) fn removable(
        &self,
        caller: &Caller,
        directory: FileId,
        place: Place<'_>,
    ) -> Result<FileId, FsError> {
        let target = self.child(caller, directory, place.name)?.ok_or(FsError::NotFound)?;
        self.may_change(caller, directory)?;
        if sticky_forbids(&self.attributes(directory), &self.attributes(target), caller) {
            return Err(FsError::Access);
        }
        Ok(target)
    }

    /// Removes a name, and its object with the last name.
    pub(crate) fn drop_name(
        &mut self,
        directory: FileId,
        place: Place<'_>,
        stamp: FileTime,
    ) -> Result<(), FsError> {
        let names = self.directory_mut(directory)?;
        let target = names.target(place.name.as_bytes()).ok_or(FsError::NotFound)?;
        names.remove(place.name.as_bytes());
        self.touch(directory, stamp, true);
        self.drop_link(directory, target, stamp);
        Ok(())
    }

    /// Reduces the link count of an object that had a name in a directory.
    pub(crate) fn drop_link(&mut self, directory: FileId, target: FileId, stamp: FileTime) {
        if self.is_directory(target) {
            self.node_mut(directory).link_count -= 1;
            self.forget(target);
            return;
        }
        self.node_mut(target).link_count -= 1;
        let node = self.node(target);
        if node.link_count == 0 && node.holds == 0 {
            self.forget(target);
        } else {
            self.touch(target, stamp, false);
        }
    }

    pub(crate) fn link(&mut self, caller: &Caller, object: &ObjectId, place: Place<'_>) -> Linked {
        let target = match self.resolve(object) {
            Ok(target) => target,
            Err(error) => {
                let attributes = |id| self.attributes(id);
                let after = self.resolve(&place.directory).ok().map(attributes);
                let before = after.map(|after| after.before());
                let directory = Wcc { before, after };
                return Linked { result: Err(error), attributes: None, directory };
            }
        };
        let Changed { result, wcc } = self.change(&place.directory, |tree, directory| {
            if tree.child(caller, directory, place.name)?.is_some() {
                return Err(FsError::AlreadyExists);
            }
            tree.may_change(caller, directory)?;
            if tree.is_directory(target) {
                return Err(FsError::Invalid);
            }
            let link_count = tree.node(target).link_count;
            if link_count == 0 {
                return Err(FsError::Stale);
            }
            if link_count == LINK_MAX {
                return Err(FsError::TooManyLinks);
            }
            let stamp = tree.stamp();
            tree.add_name(directory, place, target, stamp)
        });
        Linked { result, attributes: Some(self.attributes(target)), directory: wcc }
    }
}
