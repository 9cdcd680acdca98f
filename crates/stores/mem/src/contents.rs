//! The bytes of a file, with holes, and the bytes that survive a crash.

use std::collections::BTreeMap;

/// The size of a block in bytes. A block that was never written uses no space.
pub(crate) const BLOCK_BYTES: u64 = BLOCK_LENGTH as u64;

const BLOCK_LENGTH: usize = 4096;

type Block = Box<[u8; BLOCK_LENGTH]>;

/// The bytes of a file.
///
/// Bytes past the end are zero in every block, in the present and in the stable contents, so that a
/// file that grows again shows zeros.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    size: u64,
    blocks: BTreeMap<u64, Block>,
    stable_size: u64,
    /// The stable contents of blocks with an unstable last change.
    stable_blocks: BTreeMap<u64, Option<Block>>,
}

impl Contents {
    /// Size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The number of blocks that are not holes.
    pub(crate) fn block_count(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Returns true if a crash would lose a change.
    pub(crate) fn is_unstable(&self) -> bool {
        !self.stable_blocks.is_empty() || self.stable_size != self.size
    }

    /// The number of holes that a write would fill.
    pub(crate) fn missing_blocks(&self, offset: u64, length: usize) -> u64 {
        if length == 0 {
            return 0;
        }
        let (first, last) = (offset / BLOCK_BYTES, (offset + length as u64 - 1) / BLOCK_BYTES);
        last - first + 1 - self.blocks.range(first..=last).count() as u64
    }

    /// Returns the bytes from `offset` on, at most `count`.
    pub(crate) fn read(&self, offset: u64, count: u32) -> Vec<u8> {
        let end = self.size.min(offset.saturating_add(u64::from(count)));
        let length = usize::try_from(end.saturating_sub(offset)).expect("not above a u32");
        let mut data = vec![0; length];
        for piece in pieces(offset, length) {
            if let Some(block) = self.blocks.get(&piece.block) {
                let within = piece.within..piece.within + piece.length;
                data[piece.done..piece.done + piece.length].copy_from_slice(&block[within]);
            }
        }
        data
    }

    /// Writes bytes that are not stable.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        for piece in pieces(offset, data.len()) {
            let stable = self.blocks.get(&piece.block);
            self.stable_blocks.entry(piece.block).or_insert_with(|| stable.cloned());
            let block =
                self.blocks.entry(piece.block).or_insert_with(|| Box::new([0; BLOCK_LENGTH]));
            block[piece.within..piece.within + piece.length]
                .copy_from_slice(&data[piece.done..piece.done + piece.length]);
        }
        if !data.is_empty() {
            self.size = self.size.max(offset + data.len() as u64);
        }
    }

    /// Makes the bytes in `start..end` stable, rounded outwards to whole blocks.
    pub(crate) fn commit(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let (first, last) = (start / BLOCK_BYTES, (end - 1) / BLOCK_BYTES);
        let committed = self.stable_blocks.extract_if(first..=last, |_, _| true);
        committed.for_each(drop);
        let reached = (last + 1).saturating_mul(BLOCK_BYTES);
        self.stable_size = self.stable_size.max(self.size.min(reached));
    }

    /// Changes the size. The change is stable at once; unstable bytes below the size stay unstable.
    pub(crate) fn truncate(&mut self, size: u64) {
        let kept = size.div_ceil(BLOCK_BYTES);
        self.blocks.split_off(&kept);
        self.stable_blocks.split_off(&kept);
        let within = usize::try_from(size % BLOCK_BYTES).expect("below a block's length");
        if within != 0 {
            let last = size / BLOCK_BYTES;
            let stable = self.stable_blocks.get_mut(&last).and_then(Option::as_mut);
            for block in self.blocks.get_mut(&last).into_iter().chain(stable) {
                block[within..].fill(0);
            }
        }
        self.size = size;
        self.stable_size = size;
    }

    /// Returns the first offset from `offset` on that is in a stored block, or in a hole; `None` if
    /// there is none before the end.
    pub(crate) fn seek(&self, offset: u64, data: bool) -> Option<u64> {
        let mut number = offset / BLOCK_BYTES;
        if data {
            number = *self.blocks.range(number..).next()?.0;
        } else {
            let stored = self.blocks.range(number..).map(|(stored, _)| *stored);
            number += stored.zip(number..).take_while(|(stored, at)| stored == at).count() as u64;
        }
        let found = offset.max(number * BLOCK_BYTES);
        (found < self.size).then_some(found)
    }

    /// Stores blocks of zeros in the holes of a range, and extends the file to the end of the
    /// range.
    pub(crate) fn allocate(&mut self, offset: u64, end: u64) {
        for number in offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES) {
            self.blocks.entry(number).or_insert_with(|| Box::new([0; BLOCK_LENGTH]));
        }
        self.size = self.size.max(end);
        self.commit(offset, end);
    }

    /// Removes the blocks of a range, and fills the rest of the range with zeros.
    pub(crate) fn deallocate(&mut self, offset: u64, end: u64) {
        let end = if end >= self.size { self.size.next_multiple_of(BLOCK_BYTES) } else { end };
        if offset >= end {
            return;
        }
        let whole = offset.div_ceil(BLOCK_BYTES)..end / BLOCK_BYTES;
        if whole.start < whole.end {
            let removed = self.blocks.extract_if(whole.clone(), |_, _| true);
            removed.for_each(drop);
        }
        let first = (offset / BLOCK_BYTES, offset, end.min(whole.start * BLOCK_BYTES));
        let last = (end / BLOCK_BYTES, offset.max(whole.end * BLOCK_BYTES), end);
        for (number, start, end) in [first, last] {
            let within = |at: u64| usize::try_from(at - number * BLOCK_BYTES).expect("in a block");
            if let (true, Some(block)) = (start < end, self.blocks.get_mut(&number)) {
                block[within(start)..within(end)].fill(0);
            }
        }
        self.commit(offset, end);
    }

    /// Replaces the blocks from `offset` on by the blocks of a range of another file or of this
    /// file. The offsets are the starts of blocks.
    pub(crate) fn take_blocks(&mut self, offset: u64, taken: Taken) {
        let (first, count) = (offset / BLOCK_BYTES, taken.bytes.div_ceil(BLOCK_BYTES));
        let replaced = self.blocks.extract_if(first..first + count, |_, _| true);
        replaced.for_each(drop);
        self.blocks.extend(taken.blocks.into_iter().map(|(number, block)| (first + number, block)));
        self.size = self.size.max(offset + taken.bytes);
        self.commit(offset, offset + taken.bytes);
    }

    /// Returns copies of the blocks of a range, which begins at the start of a block.
    pub(crate) fn taken(&self, offset: u64, bytes: u64) -> Taken {
        let (first, count) = (offset / BLOCK_BYTES, bytes.div_ceil(BLOCK_BYTES));
        let blocks = self.blocks.range(first..first + count);
        let blocks = blocks.map(|(number, block)| (number - first, block.clone())).collect();
        Taken { blocks, bytes }
    }

    /// Restores the stable contents.
    pub(crate) fn crash(&mut self) {
        for (number, stable) in core::mem::take(&mut self.stable_blocks) {
            match stable {
                Some(block) => self.blocks.insert(number, block),
                None => self.blocks.remove(&number),
            };
        }
        self.size = self.stable_size;
    }

    /// Panics unless the bytes past the end are zero, in the present and the stable contents.
    pub(crate) fn check(&self) {
        let mut stable = self.clone();
        stable.crash();
        for contents in [self, &stable] {
            let (size, within) = (contents.size, contents.size % BLOCK_BYTES);
            for (number, block) in contents.blocks.range(size / BLOCK_BYTES..) {
                assert!(*number == size / BLOCK_BYTES && within != 0, "a block behind the end");
                let behind = block.iter().skip(usize::try_from(within).expect("below a block"));
                assert!(behind.copied().all(|byte| byte == 0), "a byte behind the end");
            }
        }
    }
}

/// Copies of the blocks of a range, by their numbers in the range.
pub(crate) struct Taken {
    blocks: Vec<(u64, Block)>,
    bytes: u64,
}

impl Taken {
    pub(crate) fn block_count(&self) -> u64 {
        self.blocks.len() as u64
    }
}

/// The part of a range that lies in one block.
struct Piece {
    block: u64,
    within: usize,
    length: usize,
    /// The bytes of the range before this part.
    done: usize,
}

/// Splits a range at the block boundaries.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    core::iter::from_fn(move || {
        let position = offset + done as u64;
        let within = usize::try_from(position % BLOCK_BYTES).expect("below a block's length");
        let piece = Piece {
            block: position / BLOCK_BYTES,
            within,
            length: (length - done).min(BLOCK_LENGTH - within),
            done,
        };
        done += piece.length;
        (piece.length != 0).then_some(piece)
    })
}
