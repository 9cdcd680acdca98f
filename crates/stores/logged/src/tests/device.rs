//! A simulated log device in memory, which loses unsynced writes in a power cut.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use crate::Media;

/// A device. Clones refer to the same device.
#[derive(Clone, Default)]
pub(super) struct Device(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    synced: Vec<u8>,
    present: Vec<u8>,
    /// The writes since the last sync, with their offsets.
    writes: Vec<(u64, Vec<u8>)>,
    fails: bool,
    /// The thread that made the last write.
    writer: Option<ThreadId>,
    /// True if a sync has no effect (an injected fault).
    syncs_nothing: bool,
}

impl Device {
    pub(super) fn new(bytes: usize) -> Self {
        let device = Self::default();
        device.state().present = vec![0; bytes];
        device.state().synced = vec![0; bytes];
        device
    }

    /// Cuts the power. `keeps` decides for each block that was written since the last sync, in
    /// order, if the block survives.
    pub(super) fn cut(&self, mut keeps: impl FnMut() -> bool) {
        let mut state = self.state();
        let mut left = state.synced.clone();
        for (offset, bytes) in core::mem::take(&mut state.writes) {
            for (number, block) in bytes.chunks(512).enumerate() {
                if keeps() {
                    let at = usize::try_from(offset).expect("small") + number * 512;
                    left[at..at + block.len()].copy_from_slice(block);
                }
            }
        }
        state.present.clone_from(&left);
        state.synced = left;
    }

    pub(super) fn fail(&self, fails: bool) {
        self.state().fails = fails;
    }

    pub(super) fn sync_nothing(&self) {
        self.state().syncs_nothing = true;
    }

    /// Returns the thread that made the last write.
    pub(super) fn writer(&self) -> Option<ThreadId> {
        self.state().writer
    }

    /// Damages bytes of the device.
    pub(super) fn spoil(&self, offset: usize, length: usize) {
        let mut state = self.state();
        let end = offset + length;
        state.present[offset..end].fill(0xa5);
        state.synced[offset..end].fill(0xa5);
    }

    /// Returns the offset of a text on the device.
    pub(super) fn find(&self, text: &[u8]) -> Option<usize> {
        self.state().present.windows(text.len()).position(|window| window == text)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Media for Device {
    fn size(&self) -> io::Result<u64> {
        Ok(self.state().present.len() as u64)
    }

    fn prepare(&self, bytes: u64) -> io::Result<()> {
        let bytes = usize::try_from(bytes).expect("a test's log is small");
        let mut state = self.state();
        state.present.resize(bytes, 0);
        state.synced.resize(bytes, 0);
        Ok(())
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let at = usize::try_from(offset).expect("small");
        let state = self.state();
        let bytes = state.present.get(at..at + buffer.len()).ok_or(ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        if state.fails {
            return Err(ErrorKind::Other.into());
        }
        let at = usize::try_from(offset).expect("small");
        let target = state.present.get_mut(at..at + bytes.len()).ok_or(ErrorKind::WriteZero)?;
        target.copy_from_slice(bytes);
        state.writer = Some(thread::current().id());
        state.writes.push((offset, bytes.to_vec()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        if state.fails {
            return Err(ErrorKind::Other.into());
        }
        if !state.syncs_nothing {
            for (offset, bytes) in core::mem::take(&mut state.writes) {
                let at = usize::try_from(offset).expect("small");
                state.synced[at..at + bytes.len()].copy_from_slice(&bytes);
            }
        }
        Ok(())
    }
}
