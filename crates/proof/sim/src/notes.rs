//! The server's notebook, in the kernel's hands: a kill takes nothing, a crash what it likes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use leasehold_base::random::Random;
use leasehold_base::units::Time;
use leasehold_serve::{Notebook, Noted};

#[derive(Default)]
pub(crate) struct Notes(Mutex<BTreeMap<u32, Slot>>);

/// What is in a slot, and what was when the machine last crashed.
#[derive(Clone, Default)]
struct Slot {
    now: Option<Written>,
    before: Option<Written>,
}

type Written = (Time, Vec<u8>);

impl Notes {
    /// What is found at a start.
    pub(crate) fn found(&self) -> Vec<Noted> {
        let slots = self.slots();
        let noted = slots.iter().filter_map(|(slot, Slot { now, .. })| {
            let (given, note) = now.as_ref()?;
            Some(Noted { slot: *slot, given: *given, note: Bytes::copy_from_slice(note) })
        });
        noted.collect()
    }

    /// Loses what was written to any of the slots.
    pub(crate) fn crash(&self, random: &mut Random) {
        for slot in self.slots().values_mut() {
            let left = if random.one_in(2) { slot.before.take() } else { slot.now.take() };
            *slot = Slot { now: left.clone(), before: left };
        }
    }

    /// Loses what was written since a moment.
    pub(crate) fn forget_since(&self, since: Time) {
        for slot in self.slots().values_mut() {
            slot.now.take_if(|(given, _)| *given >= since);
        }
    }

    fn slots(&self) -> MutexGuard<'_, BTreeMap<u32, Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notebook for Notes {
    fn write(&self, slot: u32, given: Time, note: &[u8]) {
        self.slots().entry(slot).or_default().now = Some((given, note.to_vec()));
    }
}
