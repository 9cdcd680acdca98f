//! What a procedure knows of its call.

use std::sync::Arc;

use leasehold_fs::{Caller, Export, FsError, ObjectId, Request};

use crate::{Arrival, Service};

/// What a procedure knows of its call beside the arguments.
pub(crate) struct Context {
    pub(crate) service: Arc<Service>,
    /// Who asks, as far as we believe it.
    pub(crate) caller: Caller,
    pub(crate) arrival: Arrival,
}

/// An object, the export that it was reached by, and who asks there.
pub(crate) struct Target<'a> {
    pub(crate) request: Request<'a>,
    pub(crate) object: ObjectId,
}

impl Target<'_> {
    /// The other object of an operation on two, which must lie in the same export.
    ///
    /// # Errors
    /// [`FsError::CrossDevice`].
    pub(crate) fn same_export(&self, other: &Target<'_>) -> Result<(), FsError> {
        if self.request.export.id == other.request.export.id {
            Ok(())
        } else {
            Err(FsError::CrossDevice)
        }
    }
}

impl Context {
    /// What a handle names.
    ///
    /// # Errors
    /// [`FsError::BadHandle`] when it is none of ours, [`FsError::Stale`] when its export is gone.
    pub(crate) fn target(&self, handle: &[u8]) -> Result<Target<'_>, FsError> {
        let (id, object) = self.service.handles.open(handle)?;
        let export = self.service.exports.by_id(id).ok_or(FsError::Stale)?;
        Ok(self.target_in(export, object))
    }

    /// An object of an export. Here, where both are known, is where what a caller may be in an
    /// export is decided.
    pub(crate) const fn target_in<'a>(&self, export: &'a Export, object: ObjectId) -> Target<'a> {
        Target { request: Request { export, caller: self.caller }, object }
    }
}
