//! What the kernel keeps is taken back when the lease that it was kept under is.

use std::sync::Arc;

use leasehold_client::{Client, NodeId, Variant, Watcher};
use leasehold_fuse::Notifier;

use crate::kept::Keeper;

/// Has the kernel drop what it was given.
struct Taker {
    notifier: Notifier,
    keeper: Arc<Keeper>,
}

/// Has what the kernel keeps of a client's files taken back with their leases.
pub(crate) fn watch(client: &Client, notifier: &Notifier, keeper: &Arc<Keeper>) {
    if client.options().variant == Variant::Lease {
        let (notifier, keeper) = (notifier.clone(), Arc::clone(keeper));
        client.watch(Arc::new(Taker { notifier, keeper }));
    }
}

impl Taker {
    fn take_names(&self, node: NodeId) {
        if self.keeper.takes_names(node) {
            self.notifier.names_changed();
        }
    }
}

impl Watcher for Taker {
    fn withdraw(&self, client: &Client, node: NodeId) {
        self.take_names(node);
        self.keeper.emptied(node);
        let client = client.clone();
        let done = Box::new(move || client.withdrawn(node));
        self.notifier.withdraw(leasehold_fuse::NodeId(node.0), done);
    }

    fn replaced(&self, client: &Client, node: NodeId) {
        // What the kernel has forgotten, as it was removed here, it has nothing of. A new epoch would
        // cost it the pages of all files that are not open.
        if client.is_referred(node) {
            self.take_names(node);
            // Else the kernel would not heed the attributes that are on their way to it.
            if !self.keeper.is_empty(node) {
                self.notifier.data_changed(leasehold_fuse::NodeId(node.0));
            }
        }
    }
}
