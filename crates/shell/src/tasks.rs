//! The calls of a loop that wait for their result (parked calls).

use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Wake;

use leasehold_base::xdr::Message;

use crate::metering::{Meter, Metered};
use crate::remote::Remote;
use crate::slab::Key;
use crate::sys::Route;

/// The future of a reply.
pub(crate) type Pending = Pin<Box<dyn Future<Output = Option<Message>> + Send>>;

/// The result of a call: a reply, no reply, or a panic.
pub(crate) type Outcome = std::thread::Result<Option<Message>>;

/// The destination of a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// The connection of the call, if it still exists.
    Connection(Key),
    /// The sender of a datagram, through the loop's socket with this index.
    Datagram(usize, Route),
}

/// A completed call.
pub(crate) struct Done {
    pub(crate) origin: Origin,
    pub(crate) call_memory: usize,
    pub(crate) metered: Metered,
    pub(crate) outcome: Outcome,
}

/// The waiting calls of one loop.
///
/// Slots and wakers are reused. A waker that outlives its call may cause an additional poll of a
/// later call in the same slot, which futures permit.
#[derive(Default)]
pub(crate) struct Tasks {
    slots: Vec<Slot>,
    free: Vec<u32>,
    bytes: usize,
}

struct Slot {
    bell: Arc<Bell>,
    waker: Waker,
    parked: Option<Parked>,
}

/// A waiting call.
pub(crate) struct Parked {
    pub(crate) pending: Pending,
    /// True if the call must complete even when its client no longer waits for the reply.
    pub(crate) must_end: bool,
    pub(crate) origin: Origin,
    /// The memory that the call holds, in bytes.
    pub(crate) call_memory: usize,
    /// The measurements of the call, for the counters.
    pub(crate) metered: Metered,
}

/// The waker of a slot, which informs the loop that the call in the slot can continue.
struct Bell {
    remote: Arc<Remote>,
    index: u32,
    /// True if the loop was informed and has not polled the call yet.
    told: AtomicBool,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.told.swap(true, Ordering::AcqRel) {
            self.remote.wake(self.index);
        }
    }
}

impl Tasks {
    /// Returns the number of waiting calls.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns the memory that the waiting calls hold, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a call and polls it. Returns the call if it completes at once.
    pub(crate) fn start(&mut self, remote: &Arc<Remote>, parked: Parked) -> Poll<Done> {
        let index = self.free.pop().unwrap_or_else(|| {
            let index = u32::try_from(self.slots.len()).expect("limits are far below 2^32 calls");
            let told = AtomicBool::new(false);
            let bell = Arc::new(Bell { remote: Arc::clone(remote), index, told });
            self.slots.push(Slot { waker: Arc::clone(&bell).into(), bell, parked: None });
            index
        });
        self.bytes += parked.call_memory;
        self.slots[index as usize].parked = Some(parked);
        if let Some(done) = self.poll(index) {
            return Poll::Ready(done);
        }
        if let Some(parked) = &mut self.slots[index as usize].parked {
            parked.metered.put_aside();
        }
        Poll::Pending
    }

    /// Drops the calls of a closed connection, except calls that must complete.
    pub(crate) fn let_go(&mut self, connection: Key, meter: &mut Meter) {
        for (index, slot) in (0..).zip(&mut self.slots) {
            let is_let_go = |parked: &mut Parked| {
                let origin = &parked.origin;
                !parked.must_end && matches!(origin, Origin::Connection(key) if *key == connection)
            };
            if let Some(parked) = slot.parked.take_if(is_let_go) {
                self.bytes -= parked.call_memory;
                meter.end(parked.metered, None);
                self.free.push(index);
            }
        }
    }

    /// Polls a call that was woken. Returns the call if it completes.
    pub(crate) fn poll(&mut self, index: u32) -> Option<Done> {
        let slot = self.slots.get_mut(index as usize)?;
        // The flag is cleared before the poll, so that a wake-up during the poll informs the loop
        // again and is not lost.
        slot.bell.told.store(false, Ordering::Release);
        let parked = slot.parked.as_mut()?;
        let mut context = Context::from_waker(&slot.waker);
        // `AssertUnwindSafe` is correct: a call that panicked is dropped and never polled again.
        let outcome = catch_unwind(AssertUnwindSafe(|| parked.pending.as_mut().poll(&mut context)));
        let outcome = match outcome {
            Ok(Poll::Pending) => return None,
            Ok(Poll::Ready(reply)) => Ok(reply),
            Err(panic) => Err(panic),
        };
        let Parked { origin, call_memory, metered, .. } = slot.parked.take()?;
        self.bytes -= call_memory;
        self.free.push(index);
        Some(Done { origin, call_memory, metered, outcome })
    }
}
