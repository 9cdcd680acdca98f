//! The pseudo file system (RFC 8881 7.3): the directories above the exports.
//!
//! Rules:
//! 1. Each path leads to the directory to which MOUNT leads: the name of an export, its absolute
//!    path, and, for the only visible export, `/`.
//! 2. A listing shows the names of exports and not their absolute paths, which would reveal the
//!    directories of the server.
//! 3. A secret export has no node above it. Its path leads to it component by component, and no
//!    listing shows the components.
//! 4. A client sees the nodes of the exports that are visible to its address.
//! 5. The root of the server has a handle of its own, also if it is the root of the only visible
//!    export. A client of Linux walks from it to the path of a mount, and fails with ELOOP at a
//!    directory that has the handle of the root. Only in this root do paths of the export begin.
//!
//! The tree is computed for each call: it depends on the address of the client, an operation in it
//! is rare, and there are few exports.

use core::hash::Hasher as _;
use core::net::IpAddr;

use leasehold_base::units::FileId;
use leasehold_fs::ExportId;
use siphasher::sip128::{Hasher128 as _, SipHasher24};

use crate::exports::{Exports, Offer, names};

/// The number of a directory above the exports, which depends on its path only. Handles contain it,
/// so it must not change between releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId(pub(super) [u8; 16]);

impl NodeId {
    /// The root of the server.
    pub(super) fn root() -> Self {
        Self::of([].into_iter())
    }

    /// The root of the server while it is the root of an export (rule 5).
    pub(super) fn top_of(export: ExportId) -> Self {
        // A path has no empty name.
        Self::of([&[][..], &export.0.to_be_bytes()].into_iter())
    }

    fn of<'a>(path: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut hasher = SipHasher24::new();
        for name in path {
            hasher.write(&name.len().to_be_bytes());
            hasher.write(name);
        }
        Self(hasher.finish128().as_bytes())
    }

    /// Returns the file id, which is never zero: a client of macOS fails with the file id zero.
    pub(super) fn file_id(self) -> FileId {
        let (first, _) = self.0.split_at(8);
        let number = first.try_into().map_or(1, u64::from_be_bytes);
        FileId(number.max(1))
    }
}

/// The result of a step in the pseudo file system.
pub(super) enum Step<'a> {
    /// Another directory above the exports.
    Node(NodeId),
    /// The root of an export.
    Export(&'a Offer),
    /// The root of the server, which is the root of an export too.
    Top(&'a Offer),
}

/// A name in a directory of the pseudo file system.
pub(super) struct Entry<'a> {
    pub(super) name: &'a [u8],
    pub(super) step: Step<'a>,
}

/// The pseudo file system as a client sees it.
pub(super) struct Pseudo<'a> {
    exports: &'a Exports,
    client: IpAddr,
}

impl<'a> Pseudo<'a> {
    pub(super) const fn new(exports: &'a Exports, client: IpAddr) -> Self {
        Self { exports, client }
    }

    /// Returns the root of the server: the only visible export, or the directory above all exports.
    pub(super) fn root(&self) -> Step<'a> {
        match self.only() {
            Some(offer) => Step::Top(offer),
            None => Step::Node(NodeId::root()),
        }
    }

    /// Returns the export whose root has been the root of the server with a number (rule 5). The
    /// number stays valid when the client sees more exports.
    pub(super) fn top(&self, node: NodeId) -> Option<&'a Offer> {
        let mut exports = self.exports.found_by(self.client);
        exports.find(|offer| NodeId::top_of(offer.export.id) == node)
    }

    /// Returns the object that a name identifies in a directory.
    pub(super) fn lookup(&self, node: NodeId, name: &[u8]) -> Option<Step<'a>> {
        self.paths().filter(|(path, ..)| !path.is_empty()).find_map(|(path, offer, _)| {
            let depth = self.depth_below(&path, node)?;
            (path.get(depth)? == &name).then(|| step(&path, depth + 1, offer))
        })
    }

    /// Returns the object of a name in the root of the only visible export, if the name begins
    /// another path of the export (rule 1). The export's own names take precedence unless `whole`
    /// is true and the name is the whole path.
    pub(super) fn beside_root(&self, name: &[u8], whole: bool) -> Option<Step<'a>> {
        let only = self.only()?;
        let mut paths = self.paths().filter(|(_, offer, _)| core::ptr::eq(*offer, only));
        paths.find_map(|(path, offer, _)| {
            let is_meant = path.first() == Some(&name) && (path.len() == 1) == whole;
            is_meant.then(|| step(&path, 1, offer))
        })
    }

    /// Returns the parent of a directory: None for the root of the server.
    pub(super) fn parent(&self, node: NodeId) -> Option<Step<'a>> {
        if node == NodeId::root() {
            return None;
        }
        self.paths().find_map(|(path, ..)| {
            let depth = self.depth_below(&path, node)?;
            Some(self.node(&path[..depth - 1]))
        })
    }

    /// Returns the directory above the root of an export: None for the root of the server.
    pub(super) fn above(&self, export: ExportId) -> Option<Step<'a>> {
        if self.only().is_some_and(|only| only.export.id == export) {
            return None;
        }
        let mut paths = self.paths();
        let (path, ..) = paths.find(|(_, offer, _)| offer.export.id == export)?;
        Some(self.node(&path[..path.len().saturating_sub(1)]))
    }

    /// Returns the number of the place of an export's root in the directory above it.
    pub(super) fn place(&self, export: ExportId) -> Option<NodeId> {
        let mut paths = self.paths();
        let (path, ..) = paths.find(|(_, offer, _)| offer.export.id == export)?;
        Some(NodeId::of(path.into_iter()))
    }

    /// Returns true if the client sees a directory.
    pub(super) fn exists(&self, node: NodeId) -> bool {
        node == NodeId::root()
            || self.paths().any(|(path, ..)| self.depth_below(&path, node).is_some())
    }

    /// Returns the names in a directory, each once.
    pub(super) fn list(&self, node: NodeId) -> Vec<Entry<'a>> {
        let mut entries: Vec<Entry<'a>> = Vec::new();
        for (path, offer, is_listed) in self.paths() {
            let Some(depth) = self.depth_below(&path, node).filter(|_| is_listed) else { continue };
            let Some(&name) = path.get(depth) else { continue };
            if entries.iter().all(|entry| entry.name != name) {
                entries.push(Entry { name, step: step(&path, depth + 1, offer) });
            }
        }
        entries
    }

    /// Returns the only export that is visible to the client, as `/` leads to it.
    fn only(&self) -> Option<&'a Offer> {
        let mut listed = self.exports.found_by(self.client).filter(|offer| offer.secret.is_none());
        listed.next().filter(|_| listed.next().is_none())
    }

    /// Returns the paths of the visible exports, with true for paths that listings show.
    fn paths(&self) -> impl Iterator<Item = (Vec<&'a [u8]>, &'a Offer, bool)> {
        self.exports.found_by(self.client).flat_map(|offer| {
            let split = |path: &'a str| names(path.as_bytes()).collect::<Vec<_>>();
            let paths = match &offer.secret {
                Some(secret) => [Some((split(secret), offer, false)), None],
                None => {
                    let (name, path) = (split(&offer.export.name), split(&offer.export.path));
                    [Some((name, offer, true)), Some((path, offer, false))]
                }
            };
            paths.into_iter().flatten().filter(|(path, ..)| !path.is_empty())
        })
    }

    /// Returns the number of names of a path that lead to a directory above its end.
    fn depth_below(&self, path: &[&[u8]], node: NodeId) -> Option<usize> {
        (0..path.len()).find(|&depth| NodeId::of(path[..depth].iter().copied()) == node)
    }

    fn node(&self, path: &[&[u8]]) -> Step<'a> {
        if path.is_empty() {
            return self.root();
        }
        Step::Node(NodeId::of(path.iter().copied()))
    }
}

/// Returns the object to which the first names of an export's path lead.
fn step<'a>(path: &[&[u8]], names: usize, offer: &'a Offer) -> Step<'a> {
    if names == path.len() {
        Step::Export(offer)
    } else {
        Step::Node(NodeId::of(path[..names].iter().copied()))
    }
}
