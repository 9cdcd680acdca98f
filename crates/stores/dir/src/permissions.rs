//! Permission checks for operations that the kernel does not check itself: READ and WRITE use
//! descriptors that the server opened.

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

    /// Checks that the caller may read a file. The owner always may: the client checked when the
    /// file was opened. A caller with execute permission may also read, because a client executes a
    /// file by reading it.
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

    /// Checks that the caller may write a file. The owner always may.
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
    /// kernel checked the server's user, which acts for all callers, when the file was opened.
    fn is_settled(&self, caller: &Caller, attributes: &Attributes) -> bool {
        self.acting == Acting::Server || [SUPERUSER, attributes.uid].contains(&caller.uid)
    }

    /// Returns the caller's rights: from the mode bits if they are sufficient, otherwise from the
    /// kernel.
    fn rights(
        &self,
        caller: &Caller,
        object: &Object,
        attributes: &Attributes,
    ) -> Result<Rights, FsError> {
        // The bits of the owner have the same meaning with and without an access control list.
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

/// Returns true if an object has an access control list; queried again after a change of its change
/// time.
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
    // If the query fails, the kernel checks each access.
    let there = !matches!(size, Err(Errno::NODATA | Errno::OPNOTSUPP));
    object.note_access_list(attributes.changed, there);
    there
}
