//! Sets of small numbers: attributes, operations, hints and kinds of notifications.

use core::fmt;

use leasehold_base::limits::{BITMAP_WORDS_MAX, BITMAP_WORDS_USED_MAX};
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};

/// The number of words in memory.
const WORDS: usize = BITMAP_WORDS_USED_MAX as usize;

/// A set of numbers below [`Bitmap::BITS`] (RFC 8881 3.3.7). The decoder ignores words of zeros at
/// the end; the encoder omits them.
#[doc(alias = "bitmap4")]
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bitmap {
    words: [u32; WORDS],
}

impl Bitmap {
    /// The empty set.
    pub const EMPTY: Self = Self { words: [0; WORDS] };

    /// The bound of the numbers.
    pub const BITS: u32 = u32::BITS * BITMAP_WORDS_USED_MAX;

    /// Returns the set of these numbers.
    #[must_use]
    pub fn of<Number: Copy + Into<u32>>(numbers: &[Number]) -> Self {
        let mut bitmap = Self::EMPTY;
        numbers.iter().for_each(|&number| bitmap.insert(number));
        bitmap
    }

    /// Adds a number; ignores a number that is not below [`Bitmap::BITS`].
    pub fn insert(&mut self, number: impl Into<u32>) {
        let number = number.into();
        if let Some(word) = self.words.get_mut((number / u32::BITS) as usize) {
            *word |= 1 << (number % u32::BITS);
        }
    }

    /// Removes a number.
    pub fn remove(&mut self, number: impl Into<u32>) {
        let number = number.into();
        if let Some(word) = self.words.get_mut((number / u32::BITS) as usize) {
            *word &= !(1 << (number % u32::BITS));
        }
    }

    /// Returns true if the set has the number.
    #[must_use]
    pub fn has(&self, number: impl Into<u32>) -> bool {
        let number = number.into();
        let word = self.words.get((number / u32::BITS) as usize);
        word.is_some_and(|word| word & (1 << (number % u32::BITS)) != 0)
    }

    /// Returns true if the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// Returns the numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<> {
        let words = self.words;
        (0..).step_by(u32::BITS as usize).zip(words).flat_map(|(first, word)| {
            (0..u32::BITS).filter(move |bit| word & (1 << bit) != 0).map(move |bit| first + bit)
        })
    }

    /// Returns the numbers that are in both sets.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.words.iter_mut().zip(other.words).for_each(|(word, other)| *word &= other);
        self
    }

    /// Returns the numbers that are in at least one of the sets.
    #[must_use]
    pub fn or(mut self, other: &Self) -> Self {
        self.words.iter_mut().zip(other.words).for_each(|(word, other)| *word |= other);
        self
    }

    /// Returns the numbers that are not in the other set.
    #[must_use]
    pub fn without(mut self, other: &Self) -> Self {
        self.words.iter_mut().zip(other.words).for_each(|(word, other)| *word &= !other);
        self
    }
}

impl fmt::Debug for Bitmap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<'a> Decode<'a> for Bitmap {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let count = reader.u32()?;
        if count > BITMAP_WORDS_MAX {
            return Err(Error::TooLong);
        }
        let mut bitmap = Self::EMPTY;
        for index in 0..count as usize {
            let word = reader.u32()?;
            match bitmap.words.get_mut(index) {
                Some(place) => *place = word,
                None if word == 0 => {}
                None => return Err(Error::BadValue),
            }
        }
        Ok(bitmap)
    }
}

impl Encode for Bitmap {
    fn encode(&self, writer: &mut Writer) {
        let (words, mut used) = (self.words.iter().zip(1..), 0);
        words.filter(|(word, _)| **word != 0).for_each(|(_, count)| used = count);
        writer.u32(used);
        self.words[..used as usize].iter().for_each(|&word| writer.u32(word));
    }
}
