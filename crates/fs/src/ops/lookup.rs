//! Looking up names.

use super::{Failed, directory as is_directory};
use crate::{Export, Found, FsError, ObjectId, Request, Step};

/// Returns the object that a name identifies (RFC 1813 3.3.3). `.` is the directory and `..` its
/// parent. At the export's root `..` is the root: clients cannot reach anything above.
///
/// # Errors
/// [`FsError::Access`] for a name that no directory can contain, [`FsError::NotFound`], and the
/// other errors of the store; with the directory's attributes.
pub async fn lookup(
    request: &Request<'_>,
    directory: &ObjectId,
    name: &[u8],
) -> Result<Found, Failed> {
    let found = match Step::parse(name) {
        Ok(Step::Child(name)) => {
            request.export.store.lookup(&request.caller, directory, name).await
        }
        Ok(Step::Parent) => request.export.store.parent(&request.caller, directory).await,
        Ok(Step::This) => this(request.export, directory).await,
        Err(error) => Err(error),
    };
    match found {
        Ok(found) => Ok(found),
        Err(error) => Err(Failed::new(request.export, directory, error).await),
    }
}

async fn this(export: &Export, directory: &ObjectId) -> Result<Found, FsError> {
    let attributes = export.store.getattr(directory).await?;
    is_directory(&attributes)?;
    Ok(Found { object: *directory, attributes, directory: Some(attributes) })
}
