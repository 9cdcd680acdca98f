//! The permitted contents of a file, as derived from the replies to its only writer.

use std::ops::Range;

/// The size of a block: writes are multiples of it, and a disk tears no smaller unit.
pub(crate) const BLOCK_BYTES: usize = 512;

/// The size of a word, which identifies the write and the place.
const WORD_BYTES: usize = 8;

/// The verifier of a write (RFC 1813 3.3.7).
pub(crate) type Verifier = [u8; 8];

/// A write to a block; zero for a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value {
    stamp: u64,
    /// The verifier in the server's reply; `None` without a reply.
    verifier: Option<Verifier>,
}

/// The permitted values of a block: the last guaranteed value, followed by later values without a
/// guarantee.
type Block = Vec<Value>;

const HOLE: Value = Value { stamp: 0, verifier: None };

/// The data of a file, or of one writer's part of it.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    /// The start of the part, in blocks.
    start: usize,
    blocks: Vec<Block>,
    /// The permitted sizes of the file, in blocks; `None` for a part.
    sizes: Option<(usize, usize)>,
}

impl Content {
    /// Returns a new file with a capacity of `blocks` blocks.
    pub(crate) fn new(blocks: usize) -> Self {
        Self { start: 0, blocks: vec![vec![HOLE]; blocks], sizes: Some((0, 0)) }
    }

    /// Returns a part of a file that has its final size.
    pub(crate) fn part(start: usize, blocks: usize) -> Self {
        Self { start, blocks: vec![vec![HOLE]; blocks], sizes: None }
    }

    /// Returns the capacity in blocks.
    pub(crate) fn capacity(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the place of some blocks in the file, in bytes.
    pub(crate) fn place(&self, blocks: &Range<usize>) -> (u64, u32) {
        let count = u32::try_from(blocks.len() * BLOCK_BYTES).expect("files are small");
        (((self.start + blocks.start) * BLOCK_BYTES) as u64, count)
    }

    /// Returns the bytes of a write to some blocks.
    pub(crate) fn bytes(&self, blocks: Range<usize>, stamp: u64) -> Vec<u8> {
        blocks.flat_map(|block| self.word(block, stamp).to_be_bytes().repeat(WORDS)).collect()
    }

    /// Returns the content of each word of a block.
    fn word(&self, block: usize, stamp: u64) -> u64 {
        const BITS_OF_PLACE: u32 = 16;
        let place = (self.start + block) as u64;
        if stamp == 0 { 0 } else { stamp << BITS_OF_PLACE | place }
    }

    /// Begins a write: from now on a part of it may be present.
    pub(crate) fn begin_write(&mut self, blocks: Range<usize>, stamp: u64) {
        if let Some((_, largest)) = &mut self.sizes {
            *largest = (*largest).max(blocks.end);
        }
        for block in &mut self.blocks[blocks] {
            block.push(Value { stamp, verifier: None });
        }
    }

    /// Records the reply to a write that needs a COMMIT.
    pub(crate) fn wrote(&mut self, blocks: Range<usize>, stamp: u64, verifier: Verifier) {
        for block in &mut self.blocks[blocks] {
            for value in block.iter_mut().filter(|value| value.stamp == stamp) {
                value.verifier = Some(verifier);
            }
        }
    }

    /// Records the reply to a stable write.
    pub(crate) fn wrote_stably(&mut self, blocks: Range<usize>, stamp: u64) {
        self.grow(blocks.end);
        for block in &mut self.blocks[blocks] {
            *block = vec![Value { stamp, verifier: None }];
        }
    }

    /// Records the reply to a COMMIT: writes there with the same verifier are guaranteed.
    pub(crate) fn committed(&mut self, blocks: Range<usize>, verifier: Verifier) {
        for number in blocks {
            let block = &mut self.blocks[number];
            let is_safe = |value: &Value| value.verifier == Some(verifier);
            if let Some(last) = block.iter().rposition(is_safe) {
                block.drain(..last);
                block[0].verifier = None;
                if block[0].stamp != 0 {
                    self.grow(number + 1);
                }
            }
        }
    }

    /// Begins a change of the size.
    pub(crate) fn begin_resize(&mut self, size: usize) {
        for block in &mut self.blocks[size..] {
            block.push(HOLE);
        }
        if let Some((smallest, largest)) = &mut self.sizes {
            *smallest = (*smallest).min(size);
            *largest = (*largest).max(size);
        }
    }

    /// Records the reply to a change of the size.
    pub(crate) fn resized(&mut self, size: usize) {
        for block in &mut self.blocks[size..] {
            *block = vec![HOLE];
        }
        self.sizes = self.sizes.map(|_| (size, size));
    }

    /// Records that a requested change may not have happened.
    pub(crate) fn doubt_size(&mut self) {
        self.sizes = self.sizes.map(|(_, largest)| (0, largest));
    }

    fn grow(&mut self, end: usize) {
        if let Some((smallest, largest)) = &mut self.sizes {
            *smallest = (*smallest).max(end);
            *largest = (*largest).max(end);
        }
    }

    /// Returns the blocks whose last value is not guaranteed yet, grouped by write.
    pub(crate) fn pending(&self) -> Vec<(Range<usize>, u64)> {
        let mut pieces: Vec<(Range<usize>, u64)> = Vec::new();
        for (number, block) in self.blocks.iter().enumerate() {
            let last = block.last().expect("a block has a value").stamp;
            if block.len() == 1 || last == 0 {
                continue;
            }
            match pieces.last_mut() {
                Some((blocks, stamp)) if blocks.end == number && *stamp == last => blocks.end += 1,
                _ => pieces.push((number..number + 1, last)),
            }
        }
        pieces
    }

    /// Returns true if all written data is guaranteed.
    pub(crate) fn is_settled(&self) -> bool {
        self.blocks.iter().all(|block| block.len() == 1)
    }

    /// Returns the faults of a file with this size and, in the writer's part, this data.
    pub(crate) fn faults(&self, size: u64, data: &[u8]) -> Vec<String> {
        let mut faults = Vec::new();
        if let Some((smallest, largest)) = self.sizes {
            let bytes = |blocks: usize| (blocks * BLOCK_BYTES) as u64;
            if size < bytes(smallest) || size > bytes(largest) {
                let (smallest, largest) = (bytes(smallest), bytes(largest));
                faults.push(format!("its size is {size}, not in {smallest}..={largest}"));
            }
        }
        for (number, block) in self.blocks.iter().enumerate() {
            let from = data.len().min(number * BLOCK_BYTES);
            let to = data.len().min((number + 1) * BLOCK_BYTES);
            let allowed: Vec<u64> =
                block.iter().map(|value| self.word(number, value.stamp)).collect();
            if let Some(wrong) = first_wrong(&data[from..to], &allowed) {
                faults.push(format!("block {number} holds {wrong:x}, not one of {allowed:x?}"));
            }
        }
        faults
    }
}

/// The number of words in a block.
const WORDS: usize = BLOCK_BYTES / WORD_BYTES;

/// Returns the first word that has none of the permitted values; bytes beyond the end of the file
/// are zero.
fn first_wrong(data: &[u8], allowed: &[u64]) -> Option<u64> {
    let words = data.chunks(WORD_BYTES);
    let words = words.map(|word| word.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
    words.chain((data.len() < BLOCK_BYTES).then_some(0)).find(|word| !allowed.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Verifier = [1; 8];
    const NEW: Verifier = [2; 8];

    fn file(stamps: &[u64]) -> Vec<u8> {
        let content = Content::new(8);
        let blocks = stamps.iter().enumerate();
        blocks.flat_map(|(block, stamp)| content.bytes(block..block + 1, *stamp)).collect()
    }

    fn is_right(content: &Content, stamps: &[u64]) -> bool {
        let data = file(stamps);
        content.faults(data.len() as u64, &data).is_empty()
    }

    #[test]
    fn stable_data_must_be_present() {
        let mut content = Content::new(8);
        content.begin_write(0..2, 7);
        assert!(is_right(&content, &[]) && is_right(&content, &[7]) && is_right(&content, &[0, 7]));
        content.wrote_stably(0..2, 7);
        assert!(is_right(&content, &[7, 7]));
        assert!(!is_right(&content, &[]) && !is_right(&content, &[7, 0]));
        assert!(!is_right(&content, &[7, 8]) && !is_right(&content, &[7, 7, 0]));
    }

    #[test]
    fn unstable_data_may_be_present_until_it_is_committed() {
        let mut content = Content::new(8);
        content.begin_write(0..2, 7);
        content.wrote(0..2, 7, OLD);
        assert!(is_right(&content, &[]) && is_right(&content, &[7, 7]));
        assert_eq!(content.pending(), [(0..2, 7)]);
        content.committed(0..8, NEW);
        assert!(is_right(&content, &[]), "another verifier promises nothing");
        content.committed(1..8, OLD);
        assert!(is_right(&content, &[0, 7]) && is_right(&content, &[7, 7]));
        assert!(!is_right(&content, &[]) && !is_right(&content, &[7, 0]));
        content.committed(0..8, OLD);
        assert!(!is_right(&content, &[0, 7]) && content.is_settled());
    }

    #[test]
    fn a_commit_covers_neither_later_writes_nor_other_verifiers() {
        let mut content = Content::new(8);
        for (stamp, verifier) in [(7, OLD), (8, OLD), (9, NEW)] {
            content.begin_write(0..1, stamp);
            content.wrote(0..1, stamp, verifier);
        }
        content.begin_write(0..1, 10);
        content.committed(0..8, OLD);
        assert!([8, 9, 10].iter().all(|&stamp| is_right(&content, &[stamp])));
        assert!(!is_right(&content, &[7]) && !is_right(&content, &[]));
    }

    #[test]
    fn truncated_data_does_not_reappear() {
        let mut content = Content::new(8);
        content.begin_write(0..2, 7);
        content.wrote_stably(0..2, 7);
        content.begin_resize(1);
        assert!(is_right(&content, &[7, 7]) && is_right(&content, &[7]));
        content.resized(1);
        assert!(is_right(&content, &[7]) && !is_right(&content, &[7, 7]));
        content.begin_resize(3);
        content.resized(3);
        assert!(is_right(&content, &[7, 0, 0]));
        assert!(!is_right(&content, &[7, 7, 0]) && !is_right(&content, &[7]));
    }

    #[test]
    fn a_block_at_the_wrong_place_is_detected() {
        let mut content = Content::new(8);
        content.begin_write(0..2, 7);
        content.wrote_stably(0..2, 7);
        let mut data = file(&[7, 7]);
        data.rotate_left(BLOCK_BYTES);
        assert_eq!(content.faults(1024, &data).len(), 2);
    }
}
