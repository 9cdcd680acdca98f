//! The invalidation of the kernel's copies of an object when the server recalls the lease on the
//! object.

use std::sync::Arc;

use leasehold_client::{Client, NodeId, Variant, Watcher};
use leasehold_fuse::Notifier;

use crate::kernel_cache::KernelCaches;

/// The [`Watcher`] that makes the kernel drop its copies.
struct Taker {
    notifier: Notifier,
    keeper: Arc<KernelCaches>,
}

/// Registers the invalidation of the kernel's copies at a client with leases.
pub(crate) fn watch(client: &Client, notifier: &Notifier, keeper: &Arc<KernelCaches>) {
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
        // The kernel has no copies of an object to which it has no reference, for example after a
        // local removal. An invalidation of names would then be useless, and would make the kernel
        // drop the pages of all closed files.
        if client.is_referred(node) {
            self.take_names(node);
            // If the kernel has no data of the file, no invalidation is sent: the kernel would
            // ignore attributes in transit that arrive after an invalidation.
            if !self.keeper.is_empty(node) {
                self.notifier.data_changed(leasehold_fuse::NodeId(node.0));
            }
        }
    }
}
