//! What the data of a file may be, by what its only writer was told.

use std::ops::Range;

/// What is written at once is a multiple of this many bytes: no disk tears less.
pub(crate) const BLOCK_BYTES: usize = 512;

/// The size of a word, which says what was written and where.
const WORD_BYTES: usize = 8;

/// The verifier of a write (RFC 1813 3.3.7).
pub(crate) type Verifier = [u8; 8];

/// What somebody wrote to a block; zero for a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value {
    stamp: u64,
    /// What the server answered; nothing as long as it has not.
    verifier: Option<Verifier>,
}

/// The values that a block may have: the last one that was promised to stay, and behind it those
/// that were written later and not promised.
type Block = Vec<Value>;

const HOLE: Value = Value { stamp: 0, verifier: None };

/// The data of a file, or of the part of it that is one writer's.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    /// Where the part begins, in blocks.
    start: usize,
    blocks: Vec<Block>,
    /// The sizes that the file may have, in blocks; none that is promised in a part.
    sizes: Option<(usize, usize)>,
}

impl Content {
    /// A new file that can grow to so many blocks.
    pub(crate) fn new(blocks: usize) -> Self {
        Self { start: 0, blocks: vec![vec![HOLE]; blocks], sizes: Some((0, 0)) }
    }

    /// A part of a file that has its size already.
    pub(crate) fn part(start: usize, blocks: usize) -> Self {
        Self { start, blocks: vec![vec![HOLE]; blocks], sizes: None }
    }

    /// How many blocks there can be.
    pub(crate) fn capacity(&self) -> usize {
        self.blocks.len()
    }

    /// Where some blocks are in the file, in bytes.
    pub(crate) fn place(&self, blocks: &Range<usize>) -> (u64, u32) {
        let count = u32::try_from(blocks.len() * BLOCK_BYTES).expect("files are small");
        (((self.start + blocks.start) * BLOCK_BYTES) as u64, count)
    }

    /// The bytes of a write to some blocks.
    pub(crate) fn bytes(&self, blocks: Range<usize>, stamp: u64) -> Vec<u8> {
        blocks.flat_map(|block| self.word(block, stamp).to_be_bytes().repeat(WORDS)).collect()
    }

    /// What fills a block, in every word.
    fn word(&self, block: usize, stamp: u64) -> u64 {
        const BITS_OF_PLACE: u32 = 16;
        let place = (self.start + block) as u64;
        if stamp == 0 { 0 } else { stamp << BITS_OF_PLACE | place }
    }

    /// A write begins: from now on some of it may be there.
    pub(crate) fn begin_write(&mut self, blocks: Range<usize>, stamp: u64) {
        if let Some((_, largest)) = &mut self.sizes {
            *largest = (*largest).max(blocks.end);
        }
        for block in &mut self.blocks[blocks] {
            block.push(Value { stamp, verifier: None });
        }
    }

    /// A write was answered that needs a COMMIT.
    pub(crate) fn wrote(&mut self, blocks: Range<usize>, stamp: u64, verifier: Verifier) {
        for block in &mut self.blocks[blocks] {
            for value in block.iter_mut().filter(|value| value.stamp == stamp) {
                value.verifier = Some(verifier);
            }
        }
    }

    /// A write was answered that is on stable storage.
    pub(crate) fn wrote_stably(&mut self, blocks: Range<usize>, stamp: u64) {
        self.grow(blocks.end);
        for block in &mut self.blocks[blocks] {
            *block = vec![Value { stamp, verifier: None }];
        }
    }

    /// A COMMIT was answered: what was written there and answered with its verifier stays.
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

    /// The file is about to be cut, or lengthened.
    pub(crate) fn begin_resize(&mut self, size: usize) {
        for block in &mut self.blocks[size..] {
            block.push(HOLE);
        }
        if let Some((smallest, largest)) = &mut self.sizes {
            *smallest = (*smallest).min(size);
            *largest = (*largest).max(size);
        }
    }

    /// The file was cut, or lengthened.
    pub(crate) fn resized(&mut self, size: usize) {
        for block in &mut self.blocks[size..] {
            *block = vec![HOLE];
        }
        self.sizes = self.sizes.map(|_| (size, size));
    }

    /// What was asked for may not have come about.
    pub(crate) fn doubt_size(&mut self) {
        self.sizes = self.sizes.map(|(_, largest)| (0, largest));
    }

    fn grow(&mut self, end: usize) {
        if let Some((smallest, largest)) = &mut self.sizes {
            *smallest = (*smallest).max(end);
            *largest = (*largest).max(end);
        }
    }

    /// Blocks, in pieces that were written alike, whose last value is not promised yet.
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

    /// Whether all that was ever written is promised.
    pub(crate) fn is_settled(&self) -> bool {
        self.blocks.iter().all(|block| block.len() == 1)
    }

    /// What is wrong with a file that has this size and, in the writer's part, this data.
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

/// Words in a block.
const WORDS: usize = BLOCK_BYTES / WORD_BYTES;

/// The first word that none of those is; what the file is too short for is zero.
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
    fn what_is_stable_must_be_there() {
        let mut content = Content::new(8);
        content.begin_write(0..2, 7);
        assert!(is_right(&content, &[]) && is_right(&content, &[7]) && is_right(&content, &[0, 7]));
        content.wrote_stably(0..2, 7);
        assert!(is_right(&content, &[7, 7]));
        assert!(!is_right(&content, &[]) && !is_right(&content, &[7, 0]));
        assert!(!is_right(&content, &[7, 8]) && !is_right(&content, &[7, 7, 0]));
    }

    #[test]
    fn what_is_unstable_may_be_there_until_it_is_committed() {
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
    fn a_commit_does_not_reach_what_came_after_or_under_another_verifier() {
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
    fn what_is_cut_off_does_not_come_back() {
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
    fn a_block_is_wrong_in_another_s_place() {
        let mut content = Content::new(8);
        content.begin_write(0..2, 7);
        content.wrote_stably(0..2, 7);
        let mut data = file(&[7, 7]);
        data.rotate_left(BLOCK_BYTES);
        assert_eq!(content.faults(1024, &data).len(), 2);
    }
}
