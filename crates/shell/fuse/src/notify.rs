//! What the kernel is told without having asked.

use std::ops::Range;
use std::sync::Weak;

use crate::NodeId;
use crate::drops::Done;
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
/// Stands for a length: to the end.
const TO_THE_END: i64 = 0;

impl Notifier {
    /// The attributes of a node are asked for anew before they are used again. This waits for
    /// nothing, so it may be said also before a request for the node is answered.
    pub fn attributes_changed(&self, node: NodeId) {
        if let Some(hub) = self.hub.upgrade() {
            invalidate_attributes(&hub, node);
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

    /// These bytes of a node and its attributes are asked for anew. That waits for reads of them that
    /// are under way, so it is done by a thread of its own, soon.
    pub fn data_changed(&self, node: NodeId, data: Vec<Range<u64>>) {
        if let Some(hub) = self.hub.upgrade() {
            hub.drop_data(node, data, None);
        }
    }

    /// The same, and `done` is called when the kernel has nothing of these bytes any more, nor of
    /// those that it was told of before. Whatever it had written to a mapping was brought back then.
    pub fn withdraw(&self, node: NodeId, data: Vec<Range<u64>>, done: Done) {
        match self.hub.upgrade() {
            Some(hub) => hub.drop_data(node, data, Some(done)),
            None => done(),
        }
    }
}

/// Has the kernel ask anew for the attributes of a node. This waits for nothing.
pub(crate) fn invalidate_attributes(hub: &Hub, node: NodeId) {
    invalidate(hub, node, ATTRIBUTES_ONLY, TO_THE_END);
}

/// Has the kernel drop some bytes of a node, whose attributes it asks for anew. This waits for every
/// request by which it has one of their pages locked.
pub(crate) fn invalidate_data(hub: &Hub, node: NodeId, data: &Range<u64>) {
    let [offset, length] = [data.start, data.end.saturating_sub(data.start)]
        .map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    // Nothing is longer than the kernel can count.
    let is_rest = offset.checked_add(length).is_none_or(|end| end == i64::MAX);
    invalidate(hub, node, offset, if is_rest { TO_THE_END } else { length });
}

fn invalidate(hub: &Hub, node: NodeId, offset: i64, length: i64) {
    let mut body = vec![0; 16];
    body.extend(node.0.to_ne_bytes());
    body.extend(offset.to_ne_bytes());
    body.extend(length.to_ne_bytes());
    // A node that the kernel does not have has nothing that is stale.
    let _ = send_raw(&hub.device, 0, INVALIDATE_INODE, body, &[]);
}
