//! Buffers for large reads. The store reuses them to avoid page faults on each read.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use leasehold_base::limits::TRANSFER_BYTES_MAX;

use crate::locks::lock;

/// The maximum size of a read without a pooled buffer. For 128 KiB and more, an allocator returns
/// the pages to the kernel at each release, and the next allocation causes page faults again.
const SMALL_BYTES: usize = 64 << 10;

/// The size of every buffer in the pool.
const KEPT_BYTES: usize = TRANSFER_BYTES_MAX as usize;

/// The maximum number of buffers in the pool: seldom are more replies in progress at the same time.
const KEPT_MAX: usize = 32;

/// The buffers that no read uses.
#[derive(Default)]
pub(crate) struct Buffers {
    free: Mutex<Vec<Vec<u8>>>,
}

/// A buffer that returns to the pool when all references to its bytes are dropped.
struct Pooled {
    buffer: Vec<u8>,
    home: Arc<Buffers>,
}

impl Buffers {
    /// Returns an empty buffer with space for `count` bytes.
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
