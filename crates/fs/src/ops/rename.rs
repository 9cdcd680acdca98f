//! Giving an object another name.

use super::{place, refused, writable};
use crate::{Caller, Export, FsError, ObjectId, Place, Renamed};

/// Gives an object another name, over what had that name before, in one step (RFC 1813 3.3.14).
/// Neither name may be `.` or `..`.
pub async fn rename(
    export: &Export,
    caller: &Caller,
    from: (&ObjectId, &[u8]),
    to: (&ObjectId, &[u8]),
) -> Renamed {
    let error = match check(export, from, to) {
        Ok((from, to)) => return export.store.rename(caller, from, to).await,
        Err(error) => error,
    };
    let from = refused::<()>(export, from.0, error).await.wcc;
    let to = refused::<()>(export, to.0, error).await.wcc;
    Renamed { result: Err(error), from, to }
}

fn check<'a>(
    export: &Export,
    from: (&ObjectId, &'a [u8]),
    to: (&ObjectId, &'a [u8]),
) -> Result<(Place<'a>, Place<'a>), FsError> {
    writable(export)?;
    Ok((
        place(export, from.0, from.1, FsError::Invalid)?,
        place(export, to.0, to.1, FsError::Invalid)?,
    ))
}
