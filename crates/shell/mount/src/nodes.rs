//! Which node is which object of the server.
//!
//! A node is there from the first time that the kernel is told of it until the kernel forgets it,
//! and its number is never used again. Of its names the one that was used last is remembered: that
//! is what has to be moved out of the way when it is removed while the file is open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_fuse::NodeId;
use leasehold_wire::nfs3::Handle;

use crate::unstable::Unstable;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) directory: NodeId,
    pub(crate) name: Vec<u8>,
}

/// An object of the server.
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) handle: Handle,
    pub(crate) unstable: Unstable,
    state: Mutex<NodeState>,
}

/// What is known of an object.
#[derive(Default)]
pub(crate) struct NodeState {
    /// How often it is open.
    pub(crate) open_count: u64,
    /// The name that stands for it since it was removed while open.
    pub(crate) hidden: Option<Place>,
    /// Size and time of the data that the kernel may have in its cache.
    pub(crate) seen: Option<Seen>,
}

/// What tells one content of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) size: u64,
    pub(crate) modified: leasehold_wire::nfs3::Time,
}

impl Node {
    pub(crate) fn state(&self) -> MutexGuard<'_, NodeState> {
        // No step with it panics half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All nodes.
pub(crate) struct Nodes(Mutex<Table>);

#[derive(Default)]
struct Table {
    next: u64,
    nodes: BTreeMap<NodeId, Known>,
    by_handle: BTreeMap<Handle, NodeId>,
    by_place: BTreeMap<Place, NodeId>,
}

struct Known {
    node: Arc<Node>,
    /// How often the kernel was told.
    lookups: u64,
    place: Option<Place>,
}

impl Nodes {
    /// Knows the root alone.
    pub(crate) fn new(root: Handle) -> Self {
        let mut table = Table { next: NodeId::ROOT.0, ..Table::default() };
        table.insert(root);
        Self(Mutex::new(table))
    }

    pub(crate) fn find(&self, id: NodeId) -> Option<Arc<Node>> {
        self.table().nodes.get(&id).map(|known| Arc::clone(&known.node))
    }

    /// The node of an object that a name led to. The kernel is going to be told of it.
    pub(crate) fn learn(&self, handle: Handle, place: Place) -> Arc<Node> {
        let mut table = self.table();
        let id = match table.by_handle.get(&handle) {
            Some(id) => *id,
            None => table.insert(handle),
        };
        table.put(id, Some(place));
        let known = table.nodes.get_mut(&id).expect("its handle is known");
        known.lookups += 1;
        Arc::clone(&known.node)
    }

    /// The kernel forgets having been told so often.
    pub(crate) fn forget(&self, id: NodeId, lookups: u64) {
        let mut table = self.table();
        let Some(known) = table.nodes.get_mut(&id) else { return };
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups == 0 && id != NodeId::ROOT {
            let handle = known.node.handle;
            table.put(id, None);
            table.nodes.remove(&id);
            table.by_handle.remove(&handle);
        }
    }

    /// The node that a name led to last, if it is open.
    pub(crate) fn open_at(&self, place: &Place) -> Option<Arc<Node>> {
        let table = self.table();
        let node = &table.nodes.get(table.by_place.get(place)?)?.node;
        (node.state().open_count > 0).then(|| Arc::clone(node))
    }

    /// A name leads elsewhere now, or nowhere.
    pub(crate) fn moved(&self, from: &Place, to: Option<Place>) {
        let mut table = self.table();
        if let Some(to) = &to
            && let Some(id) = table.by_place.get(to).copied()
        {
            table.put(id, None);
        }
        if let Some(id) = table.by_place.get(from).copied() {
            table.put(id, to);
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.table().nodes.len()
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Node>> {
        self.table().nodes.values().map(|known| Arc::clone(&known.node)).collect()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn insert(&mut self, handle: Handle) -> NodeId {
        let id = NodeId(self.next);
        self.next += 1;
        let (unstable, state) = (Unstable::default(), Mutex::default());
        let node = Arc::new(Node { id, handle, unstable, state });
        self.nodes.insert(id, Known { node, lookups: 0, place: None });
        self.by_handle.insert(handle, id);
        id
    }

    /// Remembers a name of a node instead of the one before.
    fn put(&mut self, id: NodeId, place: Option<Place>) {
        let Some(known) = self.nodes.get_mut(&id) else { return };
        if let Some(old) = std::mem::replace(&mut known.place, place.clone())
            && self.by_place.get(&old) == Some(&id)
        {
            self.by_place.remove(&old);
        }
        if let Some(place) = place {
            self.by_place.insert(place, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(byte: u8) -> Handle {
        Handle::new(&[byte]).expect("is short")
    }

    fn place(name: &str) -> Place {
        Place { directory: NodeId::ROOT, name: name.into() }
    }

    #[test]
    fn a_node_lives_as_long_as_the_kernel_remembers() {
        let nodes = Nodes::new(handle(0));
        let first = nodes.learn(handle(1), place("a")).id;
        assert_eq!(nodes.learn(handle(1), place("b")).id, first);
        nodes.forget(first, 1);
        assert!(nodes.find(first).is_some());
        nodes.forget(first, 1);
        assert!(nodes.find(first).is_none());
        assert_ne!(nodes.learn(handle(1), place("a")).id, first, "a number is used once");
        nodes.forget(NodeId::ROOT, 100);
        assert!(nodes.find(NodeId::ROOT).is_some(), "the root stays");
    }

    #[test]
    fn the_name_of_an_open_file_is_followed() {
        let nodes = Nodes::new(handle(0));
        let node = nodes.learn(handle(1), place("a"));
        assert!(nodes.open_at(&place("a")).is_none(), "it is not open");
        node.state().open_count = 1;
        let found = |name| nodes.open_at(&place(name)).map(|node| node.id);
        assert_eq!(found("a"), Some(node.id));
        nodes.moved(&place("a"), Some(place("b")));
        assert_eq!((found("a"), found("b")), (None, Some(node.id)));
        let over = nodes.learn(handle(2), place("c"));
        over.state().open_count = 1;
        nodes.moved(&place("c"), Some(place("b")));
        assert_eq!((found("b"), found("c")), (Some(over.id), None));
        nodes.moved(&place("b"), None);
        assert_eq!(found("b"), None);
    }
}
