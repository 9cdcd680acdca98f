//! What is offered, to whom, and by which paths it is mounted.

use core::net::IpAddr;

use leasehold_base::limits::TRANSFER_BYTES_MAX;
use std::sync::Arc;

use leasehold_fs::{Export, ExportId};

use crate::Transport;
use crate::access::Access;
use crate::leases::Leases;
use crate::leases::gate::Gate;

/// An export and who may do what in it.
pub struct Offer {
    /// The export.
    pub export: Export,
    /// Who may do what.
    pub access: Access,
    /// The largest READ or WRITE that clients are told to make, in bytes.
    pub transfer_bytes_max: u32,
    /// The one path that it is mounted by, for clients that know it: nobody is told of such an
    /// export, and no other path leads to it.
    pub secret: Option<String>,
}

impl Offer {
    /// An export for everybody, as whom they are believed to be.
    #[must_use]
    pub fn to_everybody(export: Export) -> Self {
        let access = Access::everybody(false);
        Self { export, access, transfer_bytes_max: TRANSFER_BYTES_MAX, secret: None }
    }

    /// Whether a path is the one that is known to few; how long this takes tells nobody how much of
    /// it was right.
    fn is_meant_by_secret(&self, path: &[u8]) -> bool {
        let Some(secret) = &self.secret else { return false };
        let (path, secret) = (trim(path), trim(secret.as_bytes()));
        let differing = path.iter().zip(secret).fold(0, |all, (one, other)| all | (one ^ other));
        path.len() == secret.len() && differing == 0
    }

    /// The largest READ or WRITE by a transport, in bytes.
    pub(crate) fn transfer_bytes_max(&self, transport: Transport) -> u32 {
        self.transfer_bytes_max.min(transport.transfer_bytes_max())
    }
}

/// All that a server offers.
pub struct Exports {
    offers: Arc<[Offer]>,
    /// The same exports behind their leases, where anybody may hold any.
    gated: Vec<Export>,
}

impl Exports {
    pub(crate) fn new(offers: Vec<Offer>) -> Self {
        Self { offers: offers.into(), gated: Vec::new() }
    }

    /// The same, behind leases.
    pub(crate) fn gated(&self, leases: &Arc<Leases>) -> Self {
        let gate = |offer: &Offer| {
            let store = Arc::clone(&offer.export.store);
            let gate = Gate::new(store, offer.export.id, Arc::clone(leases), None);
            offer.export.over(Arc::new(gate))
        };
        let gated = self.offers.iter().map(gate).collect();
        Self { offers: Arc::clone(&self.offers), gated }
    }

    /// The same, without leases.
    pub(crate) fn ungated(&self) -> Self {
        Self { offers: Arc::clone(&self.offers), gated: Vec::new() }
    }

    pub(crate) const fn is_gated(&self) -> bool {
        !self.gated.is_empty()
    }

    /// The export of an offer, as plain clients reach it.
    pub(crate) fn reached<'a>(&'a self, offer: &'a Offer) -> &'a Export {
        let gated = self.gated.iter().find(|export| export.id == offer.export.id);
        gated.unwrap_or(&offer.export)
    }

    /// The exports.
    pub fn iter(&self) -> impl Iterator<Item = &Export> {
        self.offers.iter().map(|offer| &offer.export)
    }

    /// The exports that a client finds, each with who may do what.
    pub(crate) fn found_by(&self, client: IpAddr) -> impl Iterator<Item = &Offer> + Clone {
        self.offers.iter().filter(move |offer| offer.access.has(client))
    }

    /// Whether a rule takes the word of a client that nothing vouches for.
    pub(crate) fn believes_unvouched(&self, client: IpAddr) -> bool {
        self.offers.iter().any(|offer| offer.access.rule(client).is_some_and(|rule| rule.insecure))
    }

    /// Returns true if a rule of any export names a client.
    pub(crate) fn have(&self, client: IpAddr) -> bool {
        self.offers.iter().any(|offer| offer.access.has(client))
    }

    pub(crate) fn by_id(&self, id: ExportId) -> Option<&Offer> {
        self.offers.iter().find(|offer| offer.export.id == id)
    }

    /// The export that a client means by a path, of those that it finds, and what of the path lies
    /// below it. An export is meant by its absolute path, by `/` and its name, and, where it is the
    /// only one that this client finds, by `/`.
    pub(crate) fn by_path<'a>(&self, path: &'a [u8], client: IpAddr) -> Option<(&Offer, &'a [u8])> {
        by_path(self.found_by(client), path)
    }

    /// The export that a path means, whoever may find it.
    pub(crate) fn meant(&self, path: &[u8]) -> Option<&Offer> {
        by_path(self.offers.iter(), path).map(|(offer, _)| offer)
    }
}

fn by_path<'o, 'a>(
    offers: impl Iterator<Item = &'o Offer> + Clone,
    path: &'a [u8],
) -> Option<(&'o Offer, &'a [u8])> {
    let secret = offers.clone().find(|offer| offer.is_meant_by_secret(path));
    if let Some(offer) = secret {
        return Some((offer, b""));
    }
    let offers = offers.filter(|offer| offer.secret.is_none());
    let mut all = offers.clone();
    let only = all.next().filter(|_| all.next().is_none());
    let at = |offer: &'o Offer, root: &str| Some((offer, below(path, root.as_bytes())?));
    // The longest fits best: one export may lie within another.
    let both = offers.flat_map(|offer| {
        let Export { path, name, .. } = &offer.export;
        [at(offer, path), at(offer, name)].into_iter().flatten()
    });
    both.min_by_key(|(_, below)| below.len()).or_else(|| Some((only?, path)))
}

/// What of a path lies below a directory; none when it is another one. Slashes at the ends of
/// both do not count.
fn below<'a>(path: &'a [u8], root: &[u8]) -> Option<&'a [u8]> {
    let root = trim(root);
    match trim(path).strip_prefix(root)? {
        _ if root.is_empty() => None,
        below @ ([] | [b'/', ..]) => Some(below),
        _ => None,
    }
}

/// The names that a path leads over.
pub(crate) fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

/// The one path that stands for all that lead to a directory below an export: by the export's
/// name. What leads up and down again is left out; no symbolic link is ever on the way.
pub(crate) fn plain_path(export: &Export, below: &[u8]) -> Vec<u8> {
    let mut down = Vec::new();
    for name in names(below) {
        match name {
            b"." => {}
            // The root of an export leads to itself.
            b".." => drop(down.pop()),
            name => down.push(name),
        }
    }
    let mut path = Vec::new();
    for name in [trim(export.name.as_bytes())].into_iter().chain(down) {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    path
}

/// A path without the slashes at its ends.
fn trim(mut path: &[u8]) -> &[u8] {
    while let [b'/', rest @ ..] | [rest @ .., b'/'] = path {
        path = rest;
    }
    path
}
