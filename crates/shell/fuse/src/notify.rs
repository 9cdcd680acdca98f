//! What the kernel is told without having asked.

use std::sync::Weak;

use crate::NodeId;
use crate::reply::send_raw;
use crate::tasks::Hub;

/// Tells the kernel that something it has in its caches is no longer so.
#[derive(Clone)]
pub struct Notifier {
    pub(crate) hub: Weak<Hub>,
}

/// The numbers of the notifications in `linux/fuse.h`.
const INVALIDATE_INODE: i32 = 2;
const NEXT_EPOCH: i32 = 8;
/// Stands for an offset: the attributes alone.
const ATTRIBUTES_ONLY: i64 = -1;

impl Notifier {
    /// The attributes of a node are asked for anew before they are used again. This waits for
    /// nothing, so it may be said also before a request for the node is answered.
    pub fn attributes_changed(&self, node: NodeId) {
        if let Some(hub) = self.hub.upgrade() {
            invalidate(&hub, node, ATTRIBUTES_ONLY);
        }
    }

    /// Whether the kernel can be told [`Notifier::names_changed`].
    #[must_use]
    pub fn takes_names_back(&self) -> bool {
        self.hub.upgrade().is_some_and(|hub| hub.kernel().has_epochs)
    }

    /// Whether the kernel maps files that are open past its page cache.
    #[must_use]
    pub fn maps_direct(&self) -> bool {
        self.hub.upgrade().is_some_and(|hub| hub.kernel().maps_direct)
    }

    /// All names are asked for anew before they are used again, also those of answers that are on
    /// their way. This waits for nothing. What only names hold in the kernel's caches goes as well.
    pub fn names_changed(&self) {
        if let Some(hub) = self.hub.upgrade() {
            // A kernel whose mount is gone has no names.
            let _ = send_raw(&hub.device, 0, NEXT_EPOCH, vec![0; 16], &[]);
        }
    }

    /// The data and the attributes of a node are asked for anew. That waits for reads under way, so
    /// it is done by a thread of its own, soon.
    pub fn data_changed(&self, node: NodeId) {
        if let Some(hub) = self.hub.upgrade() {
            hub.notice(node);
        }
    }

    /// The same, and `done` is called when the kernel has nothing of the node any more. Whatever it
    /// had written to a mapping was brought back before.
    pub fn withdraw(&self, node: NodeId, done: Box<dyn FnOnce() + Send>) {
        match self.hub.upgrade() {
            Some(hub) => hub.withdraw(node, done),
            None => done(),
        }
    }
}

/// Tells the kernel so; with the data, from there to the end.
pub(crate) fn invalidate(hub: &Hub, node: NodeId, offset: i64) {
    let mut body = vec![0; 16];
    body.extend(node.0.to_ne_bytes());
    body.extend(offset.to_ne_bytes());
    body.extend(0_i64.to_ne_bytes());
    // A node that the kernel does not have has nothing that is stale.
    let _ = send_raw(&hub.device, 0, INVALIDATE_INODE, body, &[]);
}
