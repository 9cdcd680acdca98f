//! Receive buffers for records.

use bytes::{Bytes, BytesMut};
use leasehold_base::limits::{COPY_BYTES_MAX, MESSAGE_BYTES_MAX};
use leasehold_wire::record::MARK_BYTES;

use crate::limits::{LARGE_BUFFERS_MAX, RECEIVE_BYTES, RESERVE_FACTOR};

/// The size of a large buffer: the largest record, and the bytes of the following record that the
/// same receive may return.
const LARGE_BYTES: usize = MARK_BYTES + MESSAGE_BYTES_MAX + RECEIVE_BYTES;

/// The minimum buffer size for the rest of a record.
const REST_BYTES_MIN: usize = 512;

// A full small buffer always grows to a large one, which holds any record.
const _: () = assert!(RECEIVE_BYTES * RESERVE_FACTOR >= MARK_BYTES + MESSAGE_BYTES_MAX);

/// The bytes that a connection has received and not yet split into records.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) bytes: BytesMut,
    /// The size of the buffer that contains the bytes, including its free part.
    memory: usize,
}

impl Received {
    /// Returns the size of the buffer. A record that is a part of the buffer keeps the whole buffer
    /// alive.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }
}

/// A call, and the size of the memory that the call keeps alive.
pub(crate) struct Held {
    pub(crate) call: Bytes,
    pub(crate) memory: usize,
}

impl Held {
    /// Creates a call from a buffer of the given size. A small call was copied out of the buffer,
    /// because it may wait long; a larger call keeps the whole buffer alive.
    pub(crate) fn of(call: Bytes, memory: usize) -> Self {
        let is_shared = call.len() >= COPY_BYTES_MAX;
        Self { memory: if is_shared { memory.max(call.len()) } else { call.len() }, call }
    }
}

/// The receive buffers of one loop.
///
/// A connection borrows a buffer for its turn and has no buffer while it is idle, so thousands of
/// idle connections use no memory. A record in use keeps its buffer alive. The loop reuses the free
/// part of such a buffer, and the whole buffer when the record has been dropped.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    small: BytesMut,
    large: Vec<BytesMut>,
}

impl Buffers {
    /// Gives the connection free buffer space for at least `missing` bytes.
    pub(crate) fn make_room(&mut self, received: &mut Received, missing: usize) {
        if received.memory == 0 {
            *received = Received { bytes: core::mem::take(&mut self.small), memory: RECEIVE_BYTES };
        }
        let have = received.bytes.len();
        if have == 0 && received.memory == RECEIVE_BYTES {
            received.bytes.reserve(RECEIVE_BYTES);
        } else if !received.bytes.try_reclaim(missing) {
            let whole = have + missing;
            let memory = match whole {
                0..=RECEIVE_BYTES => whole.max(REST_BYTES_MIN),
                _ if have * RESERVE_FACTOR < whole => RECEIVE_BYTES,
                _ => LARGE_BYTES,
            };
            self.replace(received, memory);
        }
    }

    /// Takes back the whole buffer of a connection.
    pub(crate) fn take_back(&mut self, received: &mut Received) {
        self.give(core::mem::take(received));
    }

    /// Takes back the buffer space that a connection does not need until more data arrives.
    pub(crate) fn settle(&mut self, received: &mut Received) {
        let rest = received.bytes.len();
        if rest == 0 {
            self.take_back(received);
        } else if rest.max(REST_BYTES_MIN) * RESERVE_FACTOR < received.memory {
            self.replace(received, rest.max(REST_BYTES_MIN));
        }
    }

    /// Moves the received bytes to another buffer.
    fn replace(&mut self, received: &mut Received, memory: usize) {
        let mut bytes = self.take(memory);
        bytes.extend_from_slice(&received.bytes);
        self.give(core::mem::replace(received, Received { bytes, memory }));
    }

    fn take(&mut self, memory: usize) -> BytesMut {
        if memory == LARGE_BYTES {
            let free = self.large.iter_mut().position(|one| one.try_reclaim(LARGE_BYTES));
            if let Some(free) = free {
                return self.large.swap_remove(free);
            }
        }
        BytesMut::with_capacity(memory)
    }

    fn give(&mut self, mut received: Received) {
        received.bytes.clear();
        match received.memory {
            RECEIVE_BYTES => self.small = received.bytes,
            LARGE_BYTES if self.large.len() < LARGE_BUFFERS_MAX => {
                self.large.push(received.bytes);
            }
            _ => {}
        }
    }

    /// Returns true if the loop keeps no unused buffer that it could free.
    pub(crate) fn is_empty(&self) -> bool {
        self.small.capacity() == 0 && self.large.is_empty()
    }

    /// Frees unused memory.
    pub(crate) fn shrink(&mut self) {
        self.small = BytesMut::new();
        self.large = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a connection that receives `bytes` bytes, after which `missing` bytes of a record
    /// are still missing.
    fn receive(buffers: &mut Buffers, received: &mut Received, bytes: usize, missing: usize) {
        let mut left = bytes;
        while left > 0 {
            buffers.make_room(received, left + missing);
            let room = received.bytes.capacity() - received.bytes.len();
            assert!(room > 0);
            let now = left.min(room);
            received.bytes.resize(received.bytes.len() + now, 7);
            left -= now;
        }
    }

    #[test]
    fn idle_connection_keeps_no_memory() {
        let (mut buffers, mut received) = (Buffers::default(), Received::default());
        for size in [1, 100, RECEIVE_BYTES, MESSAGE_BYTES_MAX] {
            receive(&mut buffers, &mut received, size, 0);
            let record = received.bytes.split().freeze();
            buffers.settle(&mut received);
            assert_eq!((received.memory, received.bytes.capacity()), (0, 0), "after {size}");
            assert_eq!(record.len(), size);
        }
    }

    #[test]
    fn partial_record_holds_bounded_memory() {
        let mut buffers = Buffers::default();
        for part in [1, 10, 100, 1000, 2000, 10_000, 30_000] {
            let mut received = Received::default();
            receive(&mut buffers, &mut received, part, MESSAGE_BYTES_MAX - part);
            buffers.settle(&mut received);
            let allowed = part.max(REST_BYTES_MIN) * RESERVE_FACTOR;
            assert!(received.memory <= allowed, "{} for {part}", received.memory);
            assert_eq!(received.bytes.len(), part);
        }
    }

    #[test]
    fn large_records_reuse_memory() {
        let (mut buffers, mut received) = (Buffers::default(), Received::default());
        let mut places = Vec::new();
        for _ in 0..5 {
            receive(&mut buffers, &mut received, MESSAGE_BYTES_MAX, 0);
            places.push(received.bytes.as_ptr());
            drop(received.bytes.split().freeze());
            buffers.settle(&mut received);
        }
        places.dedup();
        assert_eq!(places.len(), 1);
    }

    #[test]
    fn a_record_in_use_keeps_its_bytes() {
        let (mut buffers, mut received) = (Buffers::default(), Received::default());
        let mut records = Vec::new();
        for number in 0..40_u8 {
            receive(&mut buffers, &mut received, 50_000 + usize::from(number) * 20_000, 0);
            received.bytes.fill(number);
            records.push(received.bytes.split().freeze());
            buffers.settle(&mut received);
        }
        for (number, record) in (0..).zip(records) {
            assert!(record.iter().all(|byte| *byte == number), "record {number}");
        }
    }
}
