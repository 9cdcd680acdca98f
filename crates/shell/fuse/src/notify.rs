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

/// The number of the notification in `linux/fuse.h`.
const INVALIDATE_INODE: i32 = 2;
/// Stands for an offset: the attributes alone.
const ATTRIBUTES_ONLY: i64 = -1;

impl Notifier {
    /// The attributes of a node are asked for anew before they are used again. This waits for
    /// nothing, so it may be said also before a request for the node is answered.
    pub fn attributes_changed(&self, node: NodeId) {
        let Some(hub) = self.hub.upgrade() else { return };
        let mut body = vec![0; 16];
        body.extend(node.0.to_ne_bytes());
        body.extend(ATTRIBUTES_ONLY.to_ne_bytes());
        body.extend(0_i64.to_ne_bytes());
        // A node that the kernel does not have has no stale attributes.
        let _ = send_raw(&hub.device, 0, INVALIDATE_INODE, body, &[]);
    }
}
