//! The exports without lease enforcement that running calls still use. A call that started with
//! such exports recalls no lease, so the server grants no lease before the last such call has ended.

use core::any::Any;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_base::units::Time;

/// The exports without lease enforcement that calls may still use.
#[derive(Default)]
pub(crate) struct Draining {
    /// False if there are none.
    may_be: AtomicBool,
    exports: Mutex<Exports>,
}

#[derive(Default)]
struct Exports {
    used: Vec<Arc<dyn Any + Send + Sync>>,
    /// The time since which there are such exports.
    since: Time,
}

impl Exports {
    fn is_used(&mut self) -> bool {
        self.used.retain(|exports| Arc::strong_count(exports) > 1);
        !self.used.is_empty()
    }
}

impl Draining {
    /// Adds exports that running calls may use. A call that uses the exports owns a reference.
    pub(crate) fn add(&self, now: Time, exports: Arc<dyn Any + Send + Sync>) {
        let mut all = self.lock();
        if !all.is_used() {
            all.since = now;
        }
        all.used.push(exports);
        self.may_be.store(true, Ordering::Release);
    }

    /// Returns the time since which calls without lease enforcement may run, or `None` if the last
    /// such call has ended.
    pub(crate) fn since(&self) -> Option<Time> {
        if !self.may_be.load(Ordering::Acquire) {
            return None;
        }
        let mut all = self.lock();
        let is_used = all.is_used();
        self.may_be.store(is_used, Ordering::Release);
        is_used.then_some(all.since)
    }

    fn lock(&self) -> MutexGuard<'_, Exports> {
        self.exports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_drain_with_their_last_call() {
        let (draining, call) = (Draining::default(), Arc::new(()));
        assert_eq!(draining.since(), None);
        let now = Time::from_nanoseconds(5);
        draining.add(now, Arc::<()>::clone(&call));
        assert_eq!(draining.since(), Some(now));
        drop(call);
        assert_eq!(draining.since(), None);
        draining.add(now, Arc::new(()));
        assert_eq!(draining.since(), None, "no call uses them");
    }
}
