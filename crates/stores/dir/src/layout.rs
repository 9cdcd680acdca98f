//! The layout policy of a file or directory. The store keeps it for a store above this one in an
//! extended user attribute, which an administrator can also read and set with the system's own
//! tools.

use bytes::Bytes;
use leasehold_fs::FsError;
use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;

use crate::errors::meaning;
use crate::object::Object;
use crate::volume::Volume;

/// The user attribute with the layout policy.
pub const LAYOUT: &str = "user.leasehold.layout";

/// The maximum size of a layout policy in bytes; a longer value counts as absent.
const BYTES_MAX: usize = 1024;

impl Volume {
    /// Returns the layout policy of an object; `None` if it has no policy, or if the file system
    /// has no user attributes.
    pub(crate) fn layout(&self, object: &Object) -> Result<Option<Bytes>, FsError> {
        self.acting.as_server()?;
        let mut found = [0; BYTES_MAX];
        match getxattr(Self::own_path(&*object.descriptor()), LAYOUT, &mut found[..]) {
            Ok(length) => Ok(Some(Bytes::copy_from_slice(&found[..length]))),
            Err(Errno::NODATA | Errno::NOTSUP | Errno::RANGE | Errno::ACCESS) => Ok(None),
            Err(errno) => Err(meaning(errno)),
        }
    }

    pub(crate) fn set_layout(&self, object: &Object, layout: &[u8]) -> Result<(), FsError> {
        self.acting.as_server()?;
        let place = Self::own_path(&*object.descriptor());
        setxattr(place, LAYOUT, layout, XattrFlags::empty()).map_err(meaning)
    }
}
