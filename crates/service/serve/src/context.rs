//! The context of a call.

use std::sync::{Arc, OnceLock};

use arc_swap::Guard;
use leasehold_fs::{Caller, Export, FsError, ObjectId, Request};
use leasehold_leases::{LeasedCall, LeasedStore, Piggyback};

use crate::access::{Because, Decided, Groups, Rule};
use crate::exports::{Exports, Offer};
use crate::iods::{self, Authority, Sent};
use crate::procedure::Refusal;
use crate::table::Use;
use crate::{Arrival, Event, Service, Trust};

/// The context of a call in addition to its arguments.
pub(crate) struct Context {
    pub(crate) service: Arc<Service>,
    /// The exports at the arrival of the call.
    pub(crate) exports: Guard<Arc<Exports>>,
    /// The credential that the call claims; None without a credential.
    pub(crate) claimed: Option<Caller>,
    pub(crate) arrival: Arrival,
    /// The lease information, for a client with leases. The information is in a box, so that it
    /// costs other calls one word only.
    pub(crate) leased: Option<Box<Leased>>,
    /// The authority by which the server answers the call, and the use of the called procedure by
    /// clients of an iod.
    pub(crate) by: (Authority, Use),
}

/// A call of a client with leases.
pub(crate) struct Leased {
    /// The lease requests of the call.
    pub(crate) asked: Arc<Piggyback>,
    /// The export of the call as this client accesses it.
    view: OnceLock<Export>,
}

impl Leased {
    pub(crate) const fn new(asked: Arc<Piggyback>) -> Self {
        Self { asked, view: OnceLock::new() }
    }
}

/// An object of a call, with its export and the caller.
pub(crate) struct Target<'a> {
    pub(crate) request: Request<'a>,
    pub(crate) object: ObjectId,
    pub(crate) offer: &'a Offer,
    /// True if the caller may write, and no rule changes the claimed user and groups. Only such a
    /// caller may receive a layout.
    pub(crate) trusted: bool,
    /// The access of a client with a layout, if this server is an iod and the caller is a client.
    pub(crate) sent: Option<Sent>,
}

impl Target<'_> {
    /// Returns the attributes if the server may show them to the caller.
    pub(crate) fn told<T: Default>(&self, attributes: T) -> T {
        // Rule 5 of `iods`
        if self.sent.is_some() { T::default() } else { attributes }
    }

    /// Returns a refusal with the attributes that the server may show to the caller.
    pub(crate) fn shown<T: Default>(&self, refusal: Refusal<T>) -> Refusal<T> {
        Refusal { results: self.told(refusal.results), ..refusal }
    }

    /// Checks that two objects of an operation are in the same export.
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
    /// Returns the object of a handle.
    ///
    /// # Errors
    /// [`FsError::BadHandle`] for a handle that this server did not issue, [`FsError::Stale`] if
    /// the export of the handle no longer exists or is hidden from this client.
    pub(crate) async fn target(&self, handle: &[u8]) -> Result<Target<'_>, FsError> {
        let (id, object) = self.service.handles.open(handle)?;
        let offer = self.exports.by_id(id).ok_or(FsError::Stale)?;
        self.target_in(offer, object).await
    }

    /// Returns an object of an export, and decides the caller's identity and rights there.
    ///
    /// # Errors
    /// [`FsError::Stale`] for a client from which the export is hidden, or whose credential is
    /// refused.
    pub(crate) async fn target_in<'a>(
        &'a self,
        offer: &'a Offer,
        object: ObjectId,
    ) -> Result<Target<'a>, FsError> {
        let from = self.arrival.from;
        let Some(rule) = offer.access.rule(from.ip()) else {
            let export = &offer.export.name;
            self.service.observer.event(&Event::HandleRefused { from, export });
            return Err(FsError::Stale);
        };
        let (decided, sent) = match self.by {
            (Authority::Rules, _) => (self.decided(rule).await?, None),
            // The export of an iod has one rule, whose anonymous user is the user that runs the
            // iod. Calls of the cluster act as that user.
            (Authority::Cluster, _) => (rule.identity.anonymous(Because::Claimed), None),
            (Authority::Client(key, is_open), purpose) => {
                let (guesses, now) = (&self.service.guesses, self.arrival.now);
                // Rule 8 of `iods`: the address has too many misses, so all its calls must retry
                // later.
                if guesses.are_held(now, from.ip()) {
                    return Err(FsError::Delay);
                }
                // Rule 7 of `iods`: no metaserver has verified the iod yet, so all clients must
                // retry later. The iod does not check their user and group numbers and counts no
                // miss.
                if !is_open {
                    return Err(FsError::Delay);
                }
                let object = (&*offer.export.store, &object);
                let found = iods::client(key, self.claimed.as_ref(), object).await;
                let (caller, sent) = found.inspect_err(|error| self.stranger(*error))?;
                if !sent.is_any() {
                    guesses.miss(now, from.ip());
                }
                if !sent.may(purpose) {
                    self.stranger(FsError::Access);
                    return Err(FsError::Access);
                }
                (Decided { caller, because: Because::Claimed }, Some(sent))
            }
        };
        let Decided { caller, because } = decided;
        let read_only = offer.export.read_only || rule.read_only;
        // `believes_all` concerns only the mapping of the rule. The trust in this caller also
        // depends on its connection, so both conditions are necessary.
        let is_believed = matches!(because, Because::Claimed | Because::Pinned);
        let trusted = !read_only && is_believed && rule.identity.believes_all();
        let export = match &self.leased {
            None => self.exports.reached(offer),
            Some(leased) => self.view(leased, offer, &caller, read_only)?,
        };
        let request = Request { export, caller, read_only };
        Ok(Target { request, object, offer, trusted, sent })
    }

    /// Reports to the observer that a client without a suitable layout has called the iod.
    fn stranger(&self, error: FsError) {
        if error == FsError::Access {
            let from = self.arrival.from;
            self.service.observer.event(&Event::Stranger { from });
        }
    }

    /// Returns the caller according to a rule.
    async fn decided(&self, rule: &Rule) -> Result<Decided, FsError> {
        let Arrival { from, trust, .. } = self.arrival;
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
        Ok(decided)
    }

    /// Returns an export as a client with leases accesses it in this call.
    fn view<'a>(
        &self,
        leased: &'a Leased,
        offer: &Offer,
        caller: &Caller,
        read_only: bool,
    ) -> Result<&'a Export, FsError> {
        let view = leased.view.get_or_init(|| {
            let by =
                LeasedCall { asked: Arc::clone(&leased.asked), caller: caller.clone(), read_only };
            let (store, leases) = (Arc::clone(&offer.export.store), &self.service.leases);
            let gate = LeasedStore::new(store, offer.export.id, Arc::clone(leases), Some(by));
            offer.export.over(Arc::new(gate))
        });
        // A call has one view of one export. An operation on objects of two exports fails.
        if view.id == offer.export.id { Ok(view) } else { Err(FsError::CrossDevice) }
    }
}
