//! Notifications to the kernel.

use std::sync::Weak;

use crate::NodeId;
use crate::reply::send_raw;
use crate::tasks::Hub;

/// Informs the kernel that data in its caches is out of date.
#[derive(Clone)]
pub struct Notifier {
    pub(crate) hub: Weak<Hub>,
}

/// The numbers of the notifications in `linux/fuse.h`.
const INVALIDATE_INODE: i32 = 2;
const NEXT_EPOCH: i32 = 8;
/// An offset that selects the attributes alone.
const ATTRIBUTES_ONLY: i64 = -1;

impl Notifier {
    /// Invalidates the attributes of a node: the kernel requests them before it uses them again.
    /// The call does not block, so it is permitted before the reply to a request for the node.
    pub fn attributes_changed(&self, node: NodeId) {
        if let Some(hub) = self.hub.upgrade() {
            invalidate(&hub, node, ATTRIBUTES_ONLY);
        }
    }

    /// Returns true if the kernel supports [`Notifier::names_changed`].
    #[must_use]
    pub fn takes_names_back(&self) -> bool {
        self.hub.upgrade().is_some_and(|hub| hub.kernel().has_epochs)
    }

    /// Returns true if the kernel can map files that are open for direct I/O.
    #[must_use]
    pub fn maps_direct(&self) -> bool {
        self.hub.upgrade().is_some_and(|hub| hub.kernel().maps_direct)
    }

    /// Invalidates all names, also names in replies in transit: the kernel looks them up before it
    /// uses them again. The call does not block. Objects that only names keep in the kernel's
    /// caches are dropped as well.
    pub fn names_changed(&self) {
        if let Some(hub) = self.hub.upgrade() {
            // After the end of the mount, the kernel has no names.
            let _ = send_raw(&hub.device, 0, NEXT_EPOCH, vec![0; 16], &[]);
        }
    }

    /// Invalidates the data and the attributes of a node. The invalidation waits for reads in
    /// progress, so a separate thread performs it soon.
    pub fn data_changed(&self, node: NodeId) {
        if let Some(hub) = self.hub.upgrade() {
            hub.notice(node);
        }
    }

    /// Like [`Notifier::data_changed`], and calls `done` when the kernel has no data of the node
    /// left. The kernel writes dirty mapped pages back first.
    pub fn withdraw(&self, node: NodeId, done: Box<dyn FnOnce() + Send>) {
        match self.hub.upgrade() {
            Some(hub) => hub.withdraw(node, done),
            None => done(),
        }
    }
}

/// Sends an invalidation to the kernel; includes the data from `offset` to the end.
pub(crate) fn invalidate(hub: &Hub, node: NodeId, offset: i64) {
    let mut body = vec![0; 16];
    body.extend(node.0.to_ne_bytes());
    body.extend(offset.to_ne_bytes());
    body.extend(0_i64.to_ne_bytes());
    // A node unknown to the kernel has no stale data.
    let _ = send_raw(&hub.device, 0, INVALIDATE_INODE, body, &[]);
}
