//! Permission checks for operations that the kernel does not check itself. READ and WRITE use
//! descriptors that the server opened, and the kernel checks permissions only at the open.

use std::os::fd::AsFd;

use leasehold_fs::permission::{self, Rights};
use leasehold_fs::{Access, Attributes, Caller, FileType, FsError, SUPERUSER};
use rustix::io::Errno;

use crate::identity::Acting;
use crate::object::{Object, Reach};
use crate::sys;
use crate::volume::Volume;

/// The extended attribute that holds an access control list.
const ACCESS_LIST: &str = "system.posix_acl_access";

impl Volume {
    /// Returns the kinds of access that the caller has.
    pub(crate) fn access(
        &self,
        caller: &Caller,
        object: &Object,
        wanted: Access,
    ) -> Result<(Access, Attributes), FsError> {
        let attributes = self.attributes(object)?;
        let has = permission::access(&attributes, self.rights(caller, object, &attributes)?);
        Ok((has.and(wanted), attributes))
    }

    /// Checks that the caller may read a file. The owner always may, because the client has checked
    /// the owner's permission when it opened the file. A caller with execute permission also may,
    /// because a client executes a file by reading it.
    pub(crate) fn permit_read(
        &self,
        caller: &Caller,
        object: &Object,
        attributes: &Attributes,
    ) -> Result<(), FsError> {
        if self.is_settled(caller, attributes) {
            return Ok(());
        }
        let rights = self.rights(caller, object, attributes)?;
        if rights.read || rights.execute { Ok(()) } else { Err(FsError::Access) }
    }

    /// Checks that the caller may write a file. The owner always may, because the client has
    /// checked the owner's permission when it opened the file.
    pub(crate) fn permit_write(
        &self,
        caller: &Caller,
        object: &Object,
        attributes: &Attributes,
    ) -> Result<(), FsError> {
        if self.is_settled(caller, attributes) || self.rights(caller, object, attributes)?.write {
            Ok(())
        } else {
            Err(FsError::Access)
        }
    }

    /// Returns true if no check is necessary: the caller owns the file or is the superuser, or the
    /// server's user acts for all callers and the kernel checked its permission when the file was
    /// opened.
    fn is_settled(&self, caller: &Caller, attributes: &Attributes) -> bool {
        self.acting == Acting::Server || [SUPERUSER, attributes.uid].contains(&caller.uid)
    }

    /// Returns the caller's rights: from the mode bits if they are sufficient, otherwise from the
    /// kernel.
    pub(crate) fn rights(
        &self,
        caller: &Caller,
        object: &Object,
        attributes: &Attributes,
    ) -> Result<Rights, FsError> {
        // An access control list does not change the meaning of the owner's bits, so the mode bits
        // are sufficient for the owner.
        let bits_tell_all = self.acting == Acting::Caller
            && ([SUPERUSER, attributes.uid].contains(&caller.uid)
                || !has_access_list(object, attributes));
        if bits_tell_all {
            return Ok(permission::rights(attributes, caller));
        }
        self.acting.as_caller(caller)?;
        let descriptor = object.descriptor();
        let has = |mode| sys::access(descriptor.as_fd(), mode).is_ok();
        Ok(Rights { read: has(libc::R_OK), write: has(libc::W_OK), execute: has(libc::X_OK) })
    }
}

/// Returns true if an object has an access control list. Queries the list again after the object's
/// change time has changed.
fn has_access_list(object: &Object, attributes: &Attributes) -> bool {
    if attributes.file_type == FileType::Symlink {
        return false;
    }
    if let Some(known) = object.has_access_list(attributes.changed) {
        return known;
    }
    let descriptor = object.descriptor();
    let size = if descriptor.reach() == Reach::Name {
        rustix::fs::getxattr_query(Volume::own_path(&*descriptor), ACCESS_LIST)
    } else {
        rustix::fs::fgetxattr_query(&*descriptor, ACCESS_LIST)
    };
    // If the query fails, assume that there is a list: the kernel then checks each access.
    let there = !matches!(size, Err(Errno::NODATA | Errno::OPNOTSUPP));
    object.note_access_list(attributes.changed, there);
    there
}
