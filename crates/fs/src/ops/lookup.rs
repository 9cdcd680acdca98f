//! From a name to an object.

use super::{Failed, directory as is_directory};
use crate::{Export, Found, FsError, ObjectId, Request, Step};

/// The object of a name (RFC 1813 3.3.3). `.` is the directory, `..` the one above it, and at the
/// export's root the root: nothing above can be reached.
///
/// # Errors
/// [`FsError::Access`] for a name that no directory can hold, [`FsError::NotFound`] and the
/// store's others; with the directory's attributes.
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
