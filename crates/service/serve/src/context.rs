//! What a procedure knows of its call.

use std::sync::Arc;

use arc_swap::Guard;
use leasehold_fs::{Caller, FsError, ObjectId, Request};

use crate::access::{Because, Groups};
use crate::exports::{Exports, Offer};
use crate::{Arrival, Event, Service, Trust};

/// What a procedure knows of its call beside the arguments.
pub(crate) struct Context {
    pub(crate) service: Arc<Service>,
    /// What is offered, as it was when the call came.
    pub(crate) exports: Guard<Arc<Exports>>,
    /// Who asks by its own word; none where it says nothing.
    pub(crate) claimed: Option<Caller>,
    pub(crate) arrival: Arrival,
}

/// An object, the export that it was reached by, and who asks there.
pub(crate) struct Target<'a> {
    pub(crate) request: Request<'a>,
    pub(crate) object: ObjectId,
    pub(crate) offer: &'a Offer,
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
    /// [`FsError::BadHandle`] when it is none of ours, [`FsError::Stale`] when its export is gone,
    /// for this client or for all.
    pub(crate) async fn target(&self, handle: &[u8]) -> Result<Target<'_>, FsError> {
        let (id, object) = self.service.handles.open(handle)?;
        let offer = self.exports.by_id(id).ok_or(FsError::Stale)?;
        self.target_in(offer, object).await
    }

    /// An object of an export. Here, where both are known, is where what a caller may be in an
    /// export is decided.
    ///
    /// # Errors
    /// [`FsError::Stale`] for a client that the export is hidden from, or whose word is refused.
    pub(crate) async fn target_in<'a>(
        &self,
        offer: &'a Offer,
        object: ObjectId,
    ) -> Result<Target<'a>, FsError> {
        let Arrival { from, trust, .. } = self.arrival;
        let Some(rule) = offer.access.rule(from.ip()) else {
            let export = &offer.export.name;
            self.service.observer.event(&Event::HandleRefused { from, export });
            return Err(FsError::Stale);
        };
        let unbelieved = |refused| {
            if matches!(trust, Trust::Unvouched { .. }) {
                self.service.observer.event(&Event::NotBelieved { from, refused });
            }
        };
        let mut decided = rule.decide(self.claimed.as_ref(), trust).map_err(|_| {
            unbelieved(true);
            FsError::Stale
        })?;
        match decided.because {
            Because::NotBelieved => unbelieved(false),
            Because::Claimed | Because::Mapped | Because::Pinned
                if rule.identity.groups == Groups::Server =>
            {
                decided.caller = self.service.users.with_groups(decided.caller).await;
            }
            Because::Claimed
            | Because::Mapped
            | Because::NoCredential
            | Because::Pinned
            | Because::SquashedAll
            | Because::SquashedRoot => {}
        }
        let export = &offer.export;
        let read_only = export.read_only || rule.read_only;
        Ok(Target { request: Request { export, caller: decided.caller, read_only }, object, offer })
    }
}
