//! The objects that this client knows (nodes), by local node ids.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::attributes::{Attributes, Mode};
use leasehold_base::units::Time;
use leasehold_fs::Access;
use leasehold_session::Credential;
use leasehold_wire::nfs3::Handle;

/// Identifies an object of a mounted file system. The client never reuses an id for another object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The root directory of the mount.
    pub const ROOT: Self = Self(1);
}

/// Attributes, with the time for which a caller may trust them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The attributes, including local changes that the server does not have yet.
    pub attributes: Attributes,
    /// The time for which a caller may use the attributes without a new request; zero if every use
    /// requires a new request.
    pub trusted_for: Duration,
}

/// The target of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The object. The caller receives one reference, which it returns by
    /// [`Client::forget`](crate::Client::forget).
    pub node: NodeId,
    /// The attributes of the object.
    pub attributes: Attributes,
    /// The time for which a caller may trust the attributes.
    pub trusted_for: Duration,
    /// The time for which a caller may trust the name.
    pub named_for: Duration,
}

/// The location of a name: its directory and its bytes.
pub(crate) type Place = (NodeId, Box<[u8]>);

#[derive(Clone, Debug)]
pub(crate) struct Node {
    handle: Handle,
    references: u64,
    opens: u32,
    /// The most recently seen name of the node.
    place: Option<Place>,
    /// The hidden name of the node, if its name was removed while the node was open (silly rename).
    removed: Option<Place>,
    /// The number of calls in progress that remove the most recently seen name, and true if such a
    /// call has succeeded.
    losing: u32,
    lost: bool,
    /// The credentials with which the client reads and writes the node's data in the background.
    reader: Option<Credential>,
    writer: Option<Credential>,
    /// The cached ACCESS replies for the node.
    access: Vec<Judgement>,
}

/// An ACCESS reply of the server: the access of one caller to one object.
#[derive(Clone, Debug)]
struct Judgement {
    who: Credential,
    wanted: Access,
    granted: Access,
    /// The owner and mode of the object when the server replied. The reply is valid while these
    /// attributes are the same.
    at: Rights,
    /// The time of the reply.
    since: Time,
}

/// The time for which the client caches a refusal of access. The groups and access lists of a
/// server can change without a message to its clients, and a refused user tries again soon. A
/// granted access needs no such limit, because the server checks the access again with each call.
const REFUSED_FOR: Duration = Duration::from_secs(5);

/// The maximum number of directories that [`Nodes::above`] follows, which is greater than the depth
/// of real directory trees.
const DEPTH_MAX: usize = 256;

/// The attributes of an object on which the access of callers depends: the owner, the group and the
/// mode. Changes of data do not change these attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    mode: Mode,
    uid: u32,
    gid: u32,
}

impl Rights {
    pub(crate) const fn of(attributes: &Attributes) -> Self {
        Self { mode: attributes.mode, uid: attributes.uid, gid: attributes.gid }
    }

    /// Returns true if the mode bits of a directory permit every caller to look up names. The
    /// client cannot decide by the bits of one class, because the server may map the caller's ids
    /// or know other groups.
    pub(crate) const fn let_all_search(self) -> bool {
        const SEARCH: u32 = 0o111;
        self.mode.bits() & SEARCH == SEARCH
    }
}

/// The maximum number of cached ACCESS replies for one object.
const ACCESS_MAX: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    nodes: BTreeMap<NodeId, Node>,
    by_handle: BTreeMap<Handle, NodeId>,
    /// The most recently seen node for each directory and name.
    by_place: BTreeMap<Place, NodeId>,
    open: BTreeSet<NodeId>,
    next: u64,
}

impl Nodes {
    pub(crate) fn new(root: Handle) -> Self {
        let mut nodes = Self {
            nodes: BTreeMap::new(),
            by_handle: BTreeMap::new(),
            by_place: BTreeMap::new(),
            open: BTreeSet::new(),
            next: 1,
        };
        nodes.take(&root);
        nodes
    }

    /// Returns the node of a handle and adds one reference.
    pub(crate) fn take(&mut self, handle: &Handle) -> NodeId {
        let node = *self.by_handle.entry(*handle).or_insert(NodeId(self.next));
        if node == NodeId(self.next) {
            self.next += 1;
        }
        self.nodes.entry(node).or_insert_with(|| Node::new(*handle)).references += 1;
        node
    }

    /// Adds one reference to a known node. Returns false if the node is unknown.
    pub(crate) fn refer(&mut self, node: NodeId) -> bool {
        let found = self.nodes.get_mut(&node);
        found.map(|node| node.references += 1).is_some()
    }

    /// Removes references from a node.
    pub(crate) fn give_back(&mut self, node: NodeId, count: u64) {
        if let Some(node) = self.nodes.get_mut(&node) {
            node.references = node.references.saturating_sub(count);
        }
    }

    /// Forgets a node without references. Returns true if the node was removed.
    pub(crate) fn remove_unused(&mut self, node: NodeId) -> bool {
        let unused =
            |node: &Node| node.references == 0 && node.opens == 0 && node.removed.is_none();
        if node == NodeId::ROOT || !self.nodes.get(&node).is_some_and(unused) {
            return false;
        }
        if let Some(removed) = self.nodes.remove(&node) {
            self.by_handle.remove(&removed.handle);
            self.leave(node, removed.place);
        }
        true
    }

    /// Returns the directories above the name under which a node was last seen, the nearest first.
    pub(crate) fn above(&self, node: NodeId) -> Vec<NodeId> {
        let directory = |node: &NodeId| self.nodes.get(node)?.place.as_ref().map(|place| place.0);
        // Renames by other clients can make the cached parents form a cycle, so the length is
        // bounded.
        std::iter::successors(directory(&node), directory).take(DEPTH_MAX).collect()
    }

    pub(crate) fn handle(&self, node: NodeId) -> Option<Handle> {
        self.nodes.get(&node).map(|node| node.handle)
    }

    pub(crate) fn by_handle(&self, handle: &Handle) -> Option<NodeId> {
        self.by_handle.get(handle).copied()
    }

    pub(crate) fn get(&self, node: NodeId) -> Option<&Node> {
        self.nodes.get(&node)
    }

    pub(crate) fn get_mut(&mut self, node: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(&node)
    }

    pub(crate) fn is_removed(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.removed.is_some())
    }

    /// Records the start of a call that removes the most recently seen name of a node.
    pub(crate) fn begin_losing(&mut self, node: NodeId) {
        if let Some(found) = self.nodes.get_mut(&node) {
            found.losing += 1;
        }
    }

    /// Records the end of a call that [`Self::begin_losing`] recorded; `lost` is true if the call
    /// removed the name.
    pub(crate) fn end_losing(&mut self, node: NodeId, lost: bool) {
        if let Some(found) = self.nodes.get_mut(&node) {
            found.losing = found.losing.saturating_sub(1);
            found.lost |= lost;
        }
    }

    /// Returns true if the node is not open and its name has been removed or is being removed. If
    /// the object of such a node no longer exists, this client removed the last name of the object.
    pub(crate) fn is_losing(&self, node: NodeId) -> bool {
        let is_losing = |node: &Node| node.opens == 0 && (node.losing > 0 || node.lost);
        self.nodes.get(&node).is_some_and(is_losing)
    }

    /// Returns true if a call of this client removed the last known name of the node.
    pub(crate) fn is_lost(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.lost)
    }

    pub(crate) fn open(&mut self, node: NodeId) {
        if let Some(found) = self.nodes.get_mut(&node) {
            found.opens += 1;
            self.open.insert(node);
        }
    }

    /// Records the end of one open of a node. At the end of the last open, returns the hidden name
    /// of the node, which the caller has to remove.
    pub(crate) fn close(&mut self, node: NodeId) -> Option<Place> {
        let found = self.nodes.get_mut(&node)?;
        found.opens = found.opens.saturating_sub(1);
        if found.opens > 0 {
            return None;
        }
        self.open.remove(&node);
        found.removed.take()
    }

    /// Returns the node most recently seen under a name, which may be out of date.
    pub(crate) fn at(&self, directory: NodeId, name: &[u8]) -> Option<NodeId> {
        self.by_place.get(&(directory, name.into())).copied()
    }

    /// Like [`Self::at`], for open nodes only.
    pub(crate) fn open_at(&self, directory: NodeId, name: &[u8]) -> Option<NodeId> {
        self.at(directory, name).filter(|node| self.open.contains(node))
    }

    pub(crate) fn is_open(&self, node: NodeId) -> bool {
        self.open.contains(&node)
    }

    /// Returns the names from the root to a node, as they were last seen; `None` if one of the
    /// names is unknown.
    pub(crate) fn path(&self, node: NodeId) -> Option<Vec<Box<[u8]>>> {
        let (mut names, mut at) = (Vec::new(), node);
        while at != NodeId::ROOT {
            let (directory, name) = self.nodes.get(&at)?.place.as_ref()?;
            names.push(name.clone());
            // A path longer than the number of nodes means that the cached parents form a cycle.
            if names.len() > self.nodes.len() {
                return None;
            }
            at = *directory;
        }
        names.reverse();
        Some(names)
    }

    /// Records the name under which a node was seen.
    pub(crate) fn seen_at(&mut self, node: NodeId, directory: NodeId, name: &[u8]) {
        let place: Place = (directory, name.into());
        if let Some(found) = self.nodes.get_mut(&node) {
            found.lost = false;
            let before = found.place.replace(place.clone());
            self.leave(node, before);
            self.by_place.insert(place, node);
        }
    }

    /// Sets or clears the hidden name of an open node.
    pub(crate) fn set_removed(&mut self, node: NodeId, removed: Option<Place>) {
        if let Some(found) = self.nodes.get_mut(&node) {
            found.removed = removed;
            let before = found.place.take();
            self.leave(node, before);
        }
    }

    fn leave(&mut self, node: NodeId, place: Option<Place>) {
        if let Some(place) = place.filter(|place| self.by_place.get(place) == Some(&node)) {
            self.by_place.remove(&place);
        }
    }
}

impl Node {
    const fn new(handle: Handle) -> Self {
        Self {
            handle,
            references: 0,
            opens: 0,
            place: None,
            removed: None,
            losing: 0,
            lost: false,
            reader: None,
            writer: None,
            access: Vec::new(),
        }
    }

    pub(crate) const fn is_referred(&self) -> bool {
        self.references > 0
    }

    pub(crate) fn reader(&self) -> Credential {
        self.reader.clone().or_else(|| self.writer.clone()).unwrap_or_else(Credential::none)
    }

    pub(crate) fn writer(&self) -> Credential {
        self.writer.clone().or_else(|| self.reader.clone()).unwrap_or_else(Credential::none)
    }

    pub(crate) fn is_writer(&self, who: &Credential) -> bool {
        self.writer.as_ref() == Some(who)
    }

    pub(crate) fn set_reader(&mut self, who: &Credential) {
        if self.reader.as_ref() != Some(who) {
            self.reader = Some(who.clone());
        }
    }

    pub(crate) fn set_writer(&mut self, who: &Credential) {
        if self.writer.as_ref() != Some(who) {
            self.writer = Some(who.clone());
        }
    }

    /// Returns the cached access of a caller, limited to the wanted kinds.
    pub(crate) fn access(
        &self,
        now: Time,
        who: &Credential,
        wanted: Access,
        at: Rights,
    ) -> Option<Access> {
        let known = self.access.iter().find(|known| {
            known.who == *who && known.at == at && known.wanted.and(wanted) == wanted
        })?;
        let granted = known.granted.and(wanted);
        (granted == wanted || now.since(known.since) < REFUSED_FOR).then_some(granted)
    }

    /// Records that the server permitted a caller to look up or create a name in this directory.
    pub(crate) fn note_searched(&mut self, since: Time, who: &Credential, at: Rights) {
        let lookup = Access { lookup: true, ..Access::default() };
        let known = self.access.iter_mut().find(|known| known.who == *who && known.at == at);
        match known {
            Some(known) => (known.wanted.lookup, known.granted.lookup) = (true, true),
            None => self.set_access(since, who, (lookup, lookup), at),
        }
    }

    /// Records the kinds of access that the server grants to a caller.
    pub(crate) fn set_access(
        &mut self,
        since: Time,
        who: &Credential,
        (wanted, granted): (Access, Access),
        at: Rights,
    ) {
        self.access.retain(|known| known.who != *who);
        if self.access.len() == ACCESS_MAX {
            self.access.remove(0);
        }
        self.access.push(Judgement { who: who.clone(), wanted, granted, at, since });
    }
}
