//! Piggybacked lease requests: leases that other calls request and return.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_base::units::Time;
use leasehold_core::cache::Asked;
use leasehold_core::leases::{Kind, Modrev, holder};
use leasehold_session::Credential;
use leasehold_session::leases::messages::{self, Ask, Base, Terms};
use leasehold_session::leases::{Rider, Told};
use leasehold_session::nfs::Nfs;
use leasehold_wire::nfs3;

use crate::client::Client;
use crate::leases::{object_of, terms};
use crate::nodes::NodeId;
use crate::options::Asking;

/// The effect of a call on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The reply does not report the effect.
    Unknown,
    /// The call did not change the object.
    Not,
    /// The call changed the object from the first to the second modrev.
    Changed(Modrev, Modrev),
}

impl How {
    /// Returns the modrevs before and after the change; `None` unless the reply reports a change.
    pub(crate) const fn modrevs(self) -> Option<(Modrev, Modrev)> {
        match self {
            Self::Unknown | Self::Not => None,
            Self::Changed(before, after) => Some((before, after)),
        }
    }
}

/// A call with piggybacked lease requests.
pub(crate) struct Piggyback {
    /// The session that sends the call.
    pub(crate) nfs: Nfs,
    rider: Option<Arc<Rider>>,
}

impl Piggyback {
    pub(crate) fn told(&self) -> Told {
        self.rider.as_ref().map(|rider| rider.told()).unwrap_or_default()
    }

    /// Returns the effect of the call on the object at a position in the call.
    pub(crate) fn change(&self, place: u32) -> How {
        let told = self.told();
        if !told.answered {
            return How::Unknown;
        }
        let change = told.changes.iter().find(|change| change.place == place);
        change.map_or(How::Not, |change| How::Changed(Modrev(change.before), Modrev(change.after)))
    }

    /// Returns all leases in the reply.
    pub(crate) fn grants(&self) -> Grants {
        let Told { sent, granted, .. } = self.told();
        Grants(sent, granted.into_iter().map(|one| (one.place, one.grant)).collect())
    }

    /// Returns the lease on the object at a position in the call, and the start of the lease's
    /// term.
    pub(crate) fn grant(&self, place: u32) -> Option<(Time, messages::Grant)> {
        let told = self.told();
        let granted = told.granted.iter().find(|granted| granted.place == place)?;
        Some((told.sent, granted.grant))
    }
}

/// The leases in one reply, by the positions of their objects in the call, with the start of their
/// terms.
pub(crate) struct Grants(Time, BTreeMap<u32, messages::Grant>);

impl Grants {
    pub(crate) fn at(&self, place: u32) -> Option<(Time, messages::Grant)> {
        Some((self.0, *self.1.get(&place)?))
    }
}

/// The position of the first object of a call. `SECOND` is the position of the second object or of
/// the resulting object.
pub(crate) const FIRST: u32 = messages::place::FIRST;
pub(crate) const SECOND: u32 = messages::place::SECOND;
/// The position of the first entry of a listing. In a request this position stands for all entries.
pub(crate) const ENTRIES: u32 = messages::place::ENTRIES;
/// The position of the object that RENAME renames. `REPLACED` is the position of the object that
/// RENAME replaces.
pub(crate) const MOVED: u32 = messages::place::MOVED;
pub(crate) const REPLACED: u32 = messages::place::REPLACED;

impl Client {
    /// Prepares a call with piggybacked requests for leases on the objects at these positions. The
    /// server grants such a lease only if no lease of another client conflicts.
    pub(crate) fn piggyback(&self, asks: &[(u32, Kind)], base: Option<Base>) -> Piggyback {
        let nfs = &self.shared.nfs;
        if nfs.leases().is_none() {
            return Piggyback { nfs: nfs.clone(), rider: None };
        }
        let ask = |(place, kind): &(u32, Kind)| {
            let terms = Terms { opportune: true, ..terms(self.shared.options.term, *kind, 0) };
            Ask { place: *place, terms }
        };
        let rider = Arc::new(Rider::new(asks.iter().map(ask).collect(), base));
        Piggyback { nfs: nfs.ridden(Arc::clone(&rider)), rider: Some(rider) }
    }

    /// Prepares a call about names of a directory. The call requests leases on the named objects at
    /// the position `place`. If the server leases names and the client holds no lease on the
    /// directory, the call also requests a lease on the directory. A lease that the client already
    /// holds is not requested, because it may be under recall.
    pub(crate) fn ride_to_names(&self, directory: NodeId, place: u32) -> Piggyback {
        let (of_directory, of_object) = ((FIRST, Kind::Read), (place, Kind::Read));
        let asks = self.leases_names() && !self.holds_lease(directory);
        let directory = asks.then_some(of_directory);
        let object = (self.shared.options.asking == Asking::Named).then_some(of_object);
        let asks: Vec<_> = directory.into_iter().chain(object).collect();
        self.piggyback(&asks, None)
    }

    /// Records a lease that a reply contains.
    pub(crate) fn take_grant(
        &self,
        (who, node): (&Credential, NodeId),
        (sent, grant): (Time, messages::Grant),
        told: (Asked, Option<&nfs3::Attributes>),
    ) {
        self.with(|state, now, actions| {
            let handle = state.nodes.handle(node);
            let (Some(leased), Some(handle)) = (&mut state.leases, handle) else { return };
            leased.asked_of.insert(node, (handle, who.clone()));
            let (grant, modrev) = state.grant_for(node, &grant);
            let event = holder::Event::Came(object_of(node), sent, grant, modrev);
            state.granted(now, (node, event), told, actions);
        });
    }

    /// Records the lease on a directory that a reply about names of the directory contains. Returns
    /// the time stamp for caching these names: names in a reply with a lease are valid from the
    /// grant of that lease.
    pub(crate) fn take_grant_of_names(
        &self,
        who: &Credential,
        (directory, asked): (NodeId, Asked),
        piggyback: &Piggyback,
        attributes: Option<&nfs3::Attributes>,
    ) -> Asked {
        let Some(grant) = piggyback.grant(FIRST) else { return asked };
        let is_current = self.shared.state().cache.is_current(directory.key(), asked);
        self.take_grant((who, directory), grant, (asked, attributes));
        if is_current { self.ask() } else { asked }
    }
}
