//! The server's reply journal, simulated in the memory of the kernel: a kill of the process loses
//! nothing, and a crash of the machine loses a random part.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use leasehold_base::random::Random;
use leasehold_base::units::Time;
use leasehold_serve::{Noted, ReplyJournal};

#[derive(Default)]
pub(crate) struct Notes(Mutex<BTreeMap<u32, Slot>>);

/// A slot of the journal: its current content, and its content at the last crash of the machine.
#[derive(Clone, Default)]
struct Slot {
    now: Option<Written>,
    before: Option<Written>,
}

type Written = (Time, Vec<u8>);

impl Notes {
    /// Returns the entries that the next start of the server finds.
    pub(crate) fn found(&self) -> Vec<Noted> {
        let slots = self.slots();
        let noted = slots.iter().filter_map(|(slot, Slot { now, .. })| {
            let (given, note) = now.as_ref()?;
            Some(Noted { slot: *slot, given: *given, note: Bytes::copy_from_slice(note) })
        });
        noted.collect()
    }

    /// Loses the writes to a random selection of slots, as a crash of the machine does.
    pub(crate) fn crash(&self, random: &mut Random) {
        for slot in self.slots().values_mut() {
            let left = if random.one_in(2) { slot.before.take() } else { slot.now.take() };
            *slot = Slot { now: left.clone(), before: left };
        }
    }

    /// Loses all writes since the time `since`.
    pub(crate) fn forget_since(&self, since: Time) {
        for slot in self.slots().values_mut() {
            slot.now.take_if(|(given, _)| *given >= since);
        }
    }

    fn slots(&self) -> MutexGuard<'_, BTreeMap<u32, Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReplyJournal for Notes {
    fn write(&self, slot: u32, given: Time, note: &[u8]) {
        self.slots().entry(slot).or_default().now = Some((given, note.to_vec()));
    }
}
