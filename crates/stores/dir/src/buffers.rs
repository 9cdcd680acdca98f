//! Buffers for large reads. The store reuses them to avoid page faults on each read.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use leasehold_base::limits::TRANSFER_BYTES_MAX;

use crate::locks::lock;

/// Reads larger than this use a buffer from here: from 128 KiB on, an allocator returns pages to
/// the kernel each time.
const SMALL_BYTES: usize = 64 << 10;

/// The size of every buffer in the pool.
const KEPT_BYTES: usize = TRANSFER_BYTES_MAX as usize;

/// The maximum number of buffers in the pool: more replies are seldom in progress at once.
const KEPT_MAX: usize = 32;

/// The buffers that are not in use.
#[derive(Default)]
pub(crate) struct Buffers {
    free: Mutex<Vec<Vec<u8>>>,
}

/// A buffer that returns to the pool when all shares of its bytes are dropped.
struct Pooled {
    buffer: Vec<u8>,
    home: Arc<Buffers>,
}

impl Buffers {
    /// Returns an empty buffer with room for `count` bytes.
    pub(crate) fn take(&self, count: usize) -> Vec<u8> {
        if count <= SMALL_BYTES || count > KEPT_BYTES {
            return Vec::with_capacity(count);
        }
        lock(&self.free).pop().unwrap_or_else(|| Vec::with_capacity(KEPT_BYTES))
    }

    /// Returns the bytes of a buffer, without a copy.
    pub(crate) fn share(self: &Arc<Self>, buffer: Vec<u8>) -> Bytes {
        if buffer.capacity() == KEPT_BYTES {
            Bytes::from_owner(Pooled { buffer, home: Arc::clone(self) })
        } else {
            Bytes::from(buffer)
        }
    }
}

impl AsRef<[u8]> for Pooled {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let mut buffer = core::mem::take(&mut self.buffer);
        buffer.clear();
        let mut free = lock(&self.home.free);
        if free.len() < KEPT_MAX {
            free.push(buffer);
        }
    }
}
