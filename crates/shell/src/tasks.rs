//! Calls that could not be answered at once.

use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Wake;

use leasehold_base::xdr::Message;

use crate::meter::{Meter, Metered};
use crate::remote::Remote;
use crate::slab::Key;
use crate::sys::Route;

/// A reply that is on its way.
pub(crate) type Pending = Pin<Box<dyn Future<Output = Option<Message>> + Send>>;

/// What became of a call: perhaps a reply, or a panic.
pub(crate) type Outcome = std::thread::Result<Option<Message>>;

/// Where a reply goes to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// The connection that the call came on, if it is still there.
    Connection(Key),
    /// The sender of a datagram, by the socket in that place of the loop.
    Datagram(usize, Route),
}

/// A call that is done.
pub(crate) struct Done {
    pub(crate) origin: Origin,
    pub(crate) call_memory: usize,
    pub(crate) metered: Metered,
    pub(crate) outcome: Outcome,
}

/// The calls of one loop that wait.
///
/// A place and its waker are used again: a waker that somebody kept for longer than its call then
/// has a later call polled once too often, which futures allow.
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

/// A call that waits.
pub(crate) struct Parked {
    pub(crate) pending: Pending,
    /// Whether it must come to its end though nobody waits for the reply any more.
    pub(crate) must_end: bool,
    pub(crate) origin: Origin,
    /// The memory that it holds, in bytes.
    pub(crate) call_memory: usize,
    /// How it is counted.
    pub(crate) metered: Metered,
}

/// Tells a loop that a call of its can go on.
struct Bell {
    remote: Arc<Remote>,
    index: u32,
    /// Whether the loop was told and has not looked yet.
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
    /// The number of calls that wait.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The memory that those calls hold, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a call in, and answers it if that can be done at once.
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

    /// Drops the calls of a connection that is closed, but for those that must end.
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

    /// Goes on with a call that was woken; says what became of it when it is done.
    pub(crate) fn poll(&mut self, index: u32) -> Option<Done> {
        let slot = self.slots.get_mut(index as usize)?;
        // From here on a wake-up is news again.
        slot.bell.told.store(false, Ordering::Release);
        let parked = slot.parked.as_mut()?;
        let mut context = Context::from_waker(&slot.waker);
        // A call that panicked is dropped and never looked at again.
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
