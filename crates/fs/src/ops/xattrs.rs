//! Extended attributes (RFC 8276 8.4).

use bytes::Bytes;
use leasehold_base::units::Cookie;

use super::{Failed, refused, writable};
use crate::{Allowance, Changed, FsError, ObjectId, Request, SetXattr, XattrName, XattrPage};

/// Returns the value of an extended attribute.
///
/// # Errors
/// [`FsError::NoAttribute`] if the object has no attribute of this name.
pub async fn xattr(request: &Request<'_>, object: &ObjectId, name: &[u8]) -> Result<Bytes, Failed> {
    let Request { export, caller, .. } = request;
    let value = async { export.store.xattr(caller, object, XattrName::parse(name)?).await };
    match value.await {
        Ok(value) => Ok(value),
        Err(error) => Err(Failed::new(export, object, error).await),
    }
}

/// Sets an extended attribute.
pub async fn set_xattr(
    request: &Request<'_>,
    object: &ObjectId,
    name: &[u8],
    value: Bytes,
    how: SetXattr,
) -> Changed<()> {
    let Request { export, caller, .. } = request;
    match changeable(request, name) {
        Ok(name) => export.store.set_xattr(caller, object, name, value, how).await,
        Err(error) => refused(export, object, error).await,
    }
}

/// Returns the names of extended attributes, from a cookie on.
///
/// # Errors
/// [`FsError::TooSmall`] if the allowance is too small for the next name.
pub async fn list_xattrs(
    request: &Request<'_>,
    object: &ObjectId,
    cookie: Cookie,
    allowance: Allowance,
) -> Result<XattrPage, Failed> {
    let Request { export, caller, .. } = request;
    match export.store.list_xattrs(caller, object, cookie, allowance).await {
        Ok(page) => Ok(page),
        Err(error) => Err(Failed::new(export, object, error).await),
    }
}

/// Removes an extended attribute.
pub async fn remove_xattr(request: &Request<'_>, object: &ObjectId, name: &[u8]) -> Changed<()> {
    let Request { export, caller, .. } = request;
    match changeable(request, name) {
        Ok(name) => export.store.remove_xattr(caller, object, name).await,
        Err(error) => refused(export, object, error).await,
    }
}

fn changeable<'a>(request: &Request<'_>, name: &'a [u8]) -> Result<XattrName<'a>, FsError> {
    writable(request)?;
    XattrName::parse(name)
}
