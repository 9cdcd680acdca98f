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
