//! What the kernel keeps is taken back when the lease that it was kept under is.

use std::sync::Arc;

use leasehold_client::{Client, NodeId, Variant, Watcher};
use leasehold_fuse::Notifier;

/// Has the kernel drop what it was given.
struct Taker(Notifier);

/// Has what the kernel keeps of a client's files taken back with their leases.
pub(crate) fn watch(client: &Client, notifier: &Notifier) {
    if client.options().variant == Variant::Lease {
        client.watch(Arc::new(Taker(notifier.clone())));
    }
}

impl Watcher for Taker {
    fn withdraw(&self, client: &Client, node: NodeId) {
        let client = client.clone();
        let done = Box::new(move || client.withdrawn(node));
        self.0.withdraw(leasehold_fuse::NodeId(node.0), done);
    }
}
