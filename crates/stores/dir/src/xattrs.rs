//! Extended attributes: the user attributes of the local file system, without the attributes that
//! stores keep there.
//!
//! The kernel checks the permission of the caller, except for a listing.

use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::units::Cookie;
use leasehold_fs::{
    Allowance, Caller, Changed, ExtendedAttributes, FileType, FsError, MaybeReady, ObjectId,
    SetXattr, XATTR_BYTES_MAX, XattrName, XattrPage,
};
use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
use rustix::io::Errno;

use crate::DirStore;
use crate::errors::meaning;
use crate::object::Object;
use crate::volume::Volume;

/// The first bytes of the names of user attributes in the local file system.
const PREFIX: &[u8] = b"user.";

/// The maximum size of the kernel's list of names, in bytes (`XATTR_LIST_MAX`).
const LIST_BYTES_MAX: usize = 64 << 10;

/// Returns true if objects of a type can have user attributes.
const fn has_xattrs(file_type: FileType) -> bool {
    matches!(file_type, FileType::Regular | FileType::Directory)
}

fn local_name(name: XattrName<'_>) -> Vec<u8> {
    [PREFIX, name.as_bytes()].concat()
}

/// Maps an error of the kernel's calls for extended attributes.
fn meaning_of_xattr(errno: Errno) -> FsError {
    match errno {
        Errno::NODATA => FsError::NoAttribute,
        // The buffers have the maximum size, so only the name can be too long.
        Errno::RANGE => FsError::NameTooLong,
        Errno::TOOBIG => FsError::AttributeTooBig,
        other => meaning(other),
    }
}

impl Volume {
    fn xattr(
        &self,
        caller: &Caller,
        object: &Object,
        name: XattrName<'_>,
    ) -> Result<Bytes, FsError> {
        self.attributes(object)?;
        if !has_xattrs(object.file_type) {
            return Err(FsError::NoAttribute);
        }
        self.acting.as_caller(caller)?;
        let path = Self::own_path(&*object.descriptor());
        let mut value = vec![0; XATTR_BYTES_MAX];
        let length = getxattr(path, local_name(name), &mut value[..]).map_err(meaning_of_xattr)?;
        Ok(Bytes::copy_from_slice(&value[..length]))
    }

    fn list_xattrs(
        &self,
        caller: &Caller,
        object: &Object,
        cookie: Cookie,
        allowance: Allowance,
    ) -> Result<XattrPage, FsError> {
        let attributes = self.attributes(object)?;
        if !self.rights(caller, object, &attributes)?.read {
            return Err(FsError::Access);
        }
        if !has_xattrs(object.file_type) {
            return XattrPage::of(Vec::new(), cookie, allowance);
        }
        self.acting.as_caller(caller)?;
        let path = Self::own_path(&*object.descriptor());
        let mut list = vec![0; LIST_BYTES_MAX];
        let length = listxattr(path, &mut list[..]).map_err(meaning_of_xattr)?;
        let names = list[..length].split(|byte| *byte == 0);
        let names = names.filter_map(|name| name.strip_prefix(PREFIX));
        let names =
            names.filter(|name| XattrName::parse(name).is_ok_and(|name| !name.is_private()));
        let mut names: Vec<Vec<u8>> = names.map(<[u8]>::to_vec).collect();
        names.sort_unstable();
        XattrPage::of(names, cookie, allowance)
    }

    /// Changes an extended attribute, and syncs the change.
    fn change_xattr(
        &self,
        caller: &Caller,
        object: &Object,
        change: impl FnOnce(&str) -> Result<(), Errno>,
    ) -> MaybeReady<'static, Changed<()>> {
        let mut syncing = self.syncs.begin();
        let locked = self.locks.one(&object.id);
        let result = self.attributes(object).and_then(|_| {
            if !has_xattrs(object.file_type) {
                return Err(FsError::WrongType);
            }
            self.acting.as_caller(caller)?;
            change(&Self::own_path(&*object.descriptor())).map_err(meaning_of_xattr)
        });
        let wcc = self.changed(object, &result);
        if result.is_ok() {
            self.join_object(object, &mut syncing);
        }
        drop(locked);
        syncing.settle(Changed { result, wcc })
    }
}

impl ExtendedAttributes for DirStore {
    fn xattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        name: XattrName<'a>,
    ) -> MaybeReady<'a, Result<Bytes, FsError>> {
        let get =
            move |object: Arc<Object>| MaybeReady::now(self.volume.xattr(caller, &object, name));
        self.on_each(*object, get, |_| Err(FsError::NoAttribute))
    }

    fn set_xattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        name: XattrName<'a>,
        value: Bytes,
        how: SetXattr,
    ) -> MaybeReady<'a, Changed<()>> {
        let flags = match how {
            SetXattr::Either => XattrFlags::empty(),
            SetXattr::Create => XattrFlags::CREATE,
            SetXattr::Replace => XattrFlags::REPLACE,
        };
        self.on(*object, move |object| {
            let set = |path: &str| setxattr(path, local_name(name), &value, flags);
            self.volume.change_xattr(caller, &object, set)
        })
    }

    fn list_xattrs<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        cookie: Cookie,
        allowance: Allowance,
    ) -> MaybeReady<'a, Result<XattrPage, FsError>> {
        let list = move |object: Arc<Object>| {
            MaybeReady::now(self.volume.list_xattrs(caller, &object, cookie, allowance))
        };
        self.on_each(*object, list, move |_| XattrPage::of(Vec::new(), cookie, allowance))
    }

    fn remove_xattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        name: XattrName<'a>,
    ) -> MaybeReady<'a, Changed<()>> {
        self.on(*object, move |object| {
            let remove = |path: &str| removexattr(path, local_name(name));
            self.volume.change_xattr(caller, &object, remove)
        })
    }
}
