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

impl Watcher for Taker {
    fn withdraw(&self, client: &Client, node: NodeId) {
        self.replaced(node);
        let client = client.clone();
        let done = Box::new(move || client.withdrawn(node));
        self.notifier.withdraw(leasehold_fuse::NodeId(node.0), done);
    }

    fn replaced(&self, node: NodeId) {
        if self.keeper.takes_names(node) {
            self.notifier.names_changed();
        }
    }
}
