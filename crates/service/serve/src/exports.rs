//! The exports, their access rules, and the paths by which clients mount them.

use core::net::IpAddr;

use leasehold_base::limits::TRANSFER_BYTES_MAX;
use std::sync::Arc;

use leasehold_fs::{Export, ExportId};
use leasehold_leases::{LeasedStore, Leases};

use crate::Transport;
use crate::access::Access;

/// An export as the configuration offers it to clients: the exported store with its access rules
/// and mount settings.
pub struct Offer {
    /// The export.
    pub export: Export,
    /// The access rules.
    pub access: Access,
    /// The largest READ or WRITE that the server recommends to clients, in bytes.
    pub transfer_bytes_max: u32,
    /// The only path by which clients can mount a secret export. The server never lists such an
    /// export, and no other path leads to it.
    pub secret: Option<String>,
}

impl Offer {
    /// Returns an export with access for all clients under their claimed credentials.
    #[must_use]
    pub fn to_everybody(export: Export) -> Self {
        let access = Access::everybody(false);
        Self { export, access, transfer_bytes_max: TRANSFER_BYTES_MAX, secret: None }
    }

    /// Returns true if a path is the secret path; the time of the comparison does not depend on the
    /// position of the first difference.
    fn is_meant_by_secret(&self, path: &[u8]) -> bool {
        let Some(secret) = &self.secret else { return false };
        let (path, secret) = (trim(path), trim(secret.as_bytes()));
        let differing = path.iter().zip(secret).fold(0, |all, (one, other)| all | (one ^ other));
        path.len() == secret.len() && differing == 0
    }

    /// Returns the largest READ or WRITE over a transport, in bytes.
    pub(crate) fn transfer_bytes_max(&self, transport: Transport) -> u32 {
        self.transfer_bytes_max.min(transport.transfer_bytes_max())
    }
}

/// All exports of a server.
pub struct Exports {
    offers: Arc<[Offer]>,
    /// The same exports with lease enforcement, if clients may hold leases.
    gated: Vec<Export>,
}

impl Exports {
    pub(crate) fn new(offers: Vec<Offer>) -> Self {
        Self { offers: offers.into(), gated: Vec::new() }
    }

    /// Returns the same exports with lease enforcement.
    pub(crate) fn gated(&self, leases: &Arc<Leases>) -> Self {
        let gate = |offer: &Offer| {
            let store = Arc::clone(&offer.export.store);
            let gate = LeasedStore::new(store, offer.export.id, Arc::clone(leases), None);
            offer.export.over(Arc::new(gate))
        };
        let gated = self.offers.iter().map(gate).collect();
        Self { offers: Arc::clone(&self.offers), gated }
    }

    /// Returns the same exports without lease enforcement.
    pub(crate) fn ungated(&self) -> Self {
        Self { offers: Arc::clone(&self.offers), gated: Vec::new() }
    }

    pub(crate) const fn is_gated(&self) -> bool {
        !self.gated.is_empty()
    }

    /// Returns the export of an offer as a client without leases accesses it: with lease
    /// enforcement if clients may hold leases.
    pub(crate) fn reached<'a>(&'a self, offer: &'a Offer) -> &'a Export {
        let gated = self.gated.iter().find(|export| export.id == offer.export.id);
        gated.unwrap_or(&offer.export)
    }

    /// Returns the exports in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = &Export> {
        self.offers.iter().map(|offer| &offer.export)
    }

    /// Returns the exports that are visible to a client.
    pub(crate) fn found_by(&self, client: IpAddr) -> impl Iterator<Item = &Offer> + Clone {
        self.offers.iter().filter(move |offer| offer.access.has(client))
    }

    /// Returns true if a rule trusts the credential of a client without verification.
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

    /// Returns the export that a client's path identifies among the visible exports, and the part
    /// of the path below it. The absolute path of an export identifies the export, and so does its
    /// name after a `/`. The path `/` also identifies the only export that is visible to the
    /// client.
    pub(crate) fn by_path<'a>(&self, path: &'a [u8], client: IpAddr) -> Option<(&Offer, &'a [u8])> {
        by_path(self.found_by(client), path)
    }

    /// Returns the export that a path identifies, visible or not.
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
    // If several exports match, the export with the longest matching path is used, because one
    // export may contain another export.
    let both = offers.flat_map(|offer| {
        let Export { path, name, .. } = &offer.export;
        [at(offer, path), at(offer, name)].into_iter().flatten()
    });
    both.min_by_key(|(_, below)| below.len()).or_else(|| Some((only?, path)))
}

/// Returns the part of a path below a directory; None for other paths. The function ignores leading
/// and trailing slashes.
fn below<'a>(path: &'a [u8], root: &[u8]) -> Option<&'a [u8]> {
    let root = trim(root);
    match trim(path).strip_prefix(root)? {
        _ if root.is_empty() => None,
        below @ ([] | [b'/', ..]) => Some(below),
        _ => None,
    }
}

/// Returns the components of a path.
pub(crate) fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

/// Returns the canonical path of a directory below an export, which begins with the export's name.
/// The function resolves `.` and `..`. A mounted path never contains a symbolic link.
pub(crate) fn plain_path(export: &Export, below: &[u8]) -> Vec<u8> {
    let mut down = Vec::new();
    for name in names(below) {
        match name {
            b"." => {}
            // `..` at the root of an export stays at the root.
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

/// Removes leading and trailing slashes from a path.
fn trim(mut path: &[u8]) -> &[u8] {
    while let [b'/', rest @ ..] | [rest @ .., b'/'] = path {
        path = rest;
    }
    path
}
