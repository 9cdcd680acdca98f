//! Notifications to the kernel.

use std::sync::Weak;

use crate::NodeId;
use crate::reply::send_raw;
use crate::tasks::Hub;

/// The interface for notifications to the kernel that its caches are out of date.
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
    /// Invalidates the attributes of a node: the kernel requests the attributes before it uses them
    /// again. The call does not block, so a request for the node may make this call before it
    /// replies.
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

    /// Invalidates all names, including names in replies in transit: the kernel looks each name up
    /// before it uses the name again. The kernel also drops cached objects to which only names
    /// refer. The call does not block.
    pub fn names_changed(&self) {
        if let Some(hub) = self.hub.upgrade() {
            // The send fails after the end of the mount. The kernel then has no names, so the
            // result is ignored.
            let _ = send_raw(&hub.device, 0, NEXT_EPOCH, vec![0; 16], &[]);
        }
    }

    /// Invalidates the data and the attributes of a node. The kernel waits for reads in progress
    /// before it invalidates data, so a separate thread sends the invalidation.
    pub fn data_changed(&self, node: NodeId) {
        if let Some(hub) = self.hub.upgrade() {
            hub.notice(node);
        }
    }

    /// Like [`Notifier::data_changed`], but also calls `done` when the kernel has no data of the
    /// node any more. The kernel first writes modified pages of mappings back.
    pub fn withdraw(&self, node: NodeId, done: Box<dyn FnOnce() + Send>) {
        match self.hub.upgrade() {
            Some(hub) => hub.withdraw(node, done),
            None => done(),
        }
    }
}

/// Sends an invalidation of the attributes, and of the data from `offset` to the end, to the
/// kernel.
pub(crate) fn invalidate(hub: &Hub, node: NodeId, offset: i64) {
    let mut body = vec![0; 16];
    body.extend(node.0.to_ne_bytes());
    body.extend(offset.to_ne_bytes());
    body.extend(0_i64.to_ne_bytes());
    // The send fails if the kernel does not know the node. The kernel then has no stale data of the
    // node, so the result is ignored.
    let _ = send_raw(&hub.device, 0, INVALIDATE_INODE, body, &[]);
}
