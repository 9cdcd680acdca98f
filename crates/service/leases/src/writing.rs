//! The exclusive right to write a file. Calls that write the same file receive it in order.

use std::collections::VecDeque;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use futures_channel::oneshot;
use leasehold_core::leases::Object;

use super::Leases;

/// The exclusive right of one call of this server to write a file, until this value is dropped.
pub(crate) struct Alone {
    leases: Arc<Leases>,
    object: Object,
    has: bool,
    waits: Option<oneshot::Receiver<()>>,
}

impl Leases {
    /// Waits for the exclusive right to write a file.
    pub(crate) async fn alone(self: &Arc<Self>, object: Object) -> Alone {
        let waits = match self.shard(object).writing.entry(object) {
            Entry::Vacant(place) => {
                place.insert(VecDeque::new());
                None
            }
            Entry::Occupied(mut queue) => {
                let (sender, receiver) = oneshot::channel();
                queue.get_mut().push_back(sender);
                Some(receiver)
            }
        };
        let mut alone = Alone { leases: Arc::clone(self), object, has: waits.is_none(), waits };
        if let Some(waits) = &mut alone.waits {
            alone.has = waits.await.is_ok();
        }
        alone
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // The previous owner may have sent the right to a receiver that was never polled: this
        // value then owns the right and must pass the right on. `close` prevents that a send to the
        // receiver succeeds after this check.
        let given = |waits: &mut oneshot::Receiver<()>| {
            waits.close();
            matches!(waits.try_recv(), Ok(Some(())))
        };
        if !self.has && !self.waits.as_mut().is_some_and(given) {
            return;
        }
        let mut shard = self.leases.shard(self.object);
        // Passes the right to the first receiver that still exists. The mutex is released before
        // each send, because the woken receiver may run inside `send` and acquire the mutex itself.
        while let Some(queue) = shard.writing.get_mut(&self.object) {
            let Some(next) = queue.pop_front() else {
                shard.writing.remove(&self.object);
                return;
            };
            drop(shard);
            if next.send(()).is_ok() {
                return;
            }
            shard = self.leases.shard(self.object);
        }
    }
}
