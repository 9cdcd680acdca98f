//! Memory that records are received into.

use bytes::{Bytes, BytesMut};
use leasehold_base::limits::{COPY_BYTES_MAX, MESSAGE_BYTES_MAX};
use leasehold_wire::record::MARK_BYTES;

use crate::limits::{LARGE_BUFFERS_MAX, RECEIVE_BYTES, RESERVE_FACTOR};

/// Room for the largest record, and for what a receive brings of the next one.
const LARGE_BYTES: usize = MARK_BYTES + MESSAGE_BYTES_MAX + RECEIVE_BYTES;

/// The smallest room for the rest of a record.
const REST_BYTES_MIN: usize = 512;

// A full small buffer always grows to a large one, which holds any record.
const _: () = assert!(RECEIVE_BYTES * RESERVE_FACTOR >= MARK_BYTES + MESSAGE_BYTES_MAX);

/// What a connection has received and not yet taken apart.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) bytes: BytesMut,
    /// Size of the memory behind it.
    memory: usize,
}

impl Received {
    /// The size of the memory that what is taken out of it holds.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }
}

/// A call, and the memory that it holds for as long as it is in use.
pub(crate) struct Held {
    pub(crate) call: Bytes,
    pub(crate) memory: usize,
}

impl Held {
    /// A call that was received into so much memory. A small one, which may wait for long, was
    /// copied out of it; a larger one holds all of it.
    pub(crate) fn of(call: Bytes, memory: usize) -> Self {
        let is_shared = call.len() >= COPY_BYTES_MAX;
        Self { memory: if is_shared { memory.max(call.len()) } else { call.len() }, call }
    }
}

/// The receive buffers of one loop.
///
/// A connection borrows one for its turn and keeps none while it is idle, so thousands of idle
/// connections cost nothing. A record that is still in use somewhere keeps its part of a buffer;
/// what is free of it is used on, all of it once the record was dropped.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    small: BytesMut,
    large: Vec<BytesMut>,
}

impl Buffers {
    /// Makes room for a receive, where at least `missing` bytes are to come.
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

    /// Takes back all that a connection had.
    pub(crate) fn take_back(&mut self, received: &mut Received) {
        self.give(core::mem::take(received));
    }

    /// Takes back what a connection does not need until more comes.
    pub(crate) fn settle(&mut self, received: &mut Received) {
        let rest = received.bytes.len();
        if rest == 0 {
            self.take_back(received);
        } else if rest.max(REST_BYTES_MIN) * RESERVE_FACTOR < received.memory {
            self.replace(received, rest.max(REST_BYTES_MIN));
        }
    }

    /// Moves what was received to other memory.
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

    /// Whether it keeps no memory.
    pub(crate) fn is_empty(&self) -> bool {
        self.small.capacity() == 0 && self.large.is_empty()
    }

    /// Drops what nobody uses.
    pub(crate) fn shrink(&mut self) {
        self.small = BytesMut::new();
        self.large = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a connection that receives `bytes`, of which `missing` more are then missing.
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
    fn an_idle_connection_keeps_nothing() {
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
    fn a_part_of_a_record_holds_no_more_than_its_multiple() {
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
    fn large_records_use_the_same_memory_again() {
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
