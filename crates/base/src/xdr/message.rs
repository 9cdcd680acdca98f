//! Encoding of messages.

use bytes::Bytes;

use super::padding;
use crate::limits::APART_BYTES_MIN;

/// An encoded message: its words, and at most one large opaque that is stored separately, so that
/// file data moves from a store to the socket without a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    words: Vec<u8>,
    payload: Bytes,
    payload_at: usize,
}

impl Message {
    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.len() + self.payload.len()
    }

    /// Returns true if the message is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the message in order: words, payload, words. Each of the three may be empty.
    #[must_use]
    pub fn parts(&self) -> (&[u8], &Bytes, &[u8]) {
        let (before, after) = self.words.split_at(self.payload_at);
        (before, &self.payload, after)
    }

    /// Returns the bytes before the payload, or all bytes if there is no payload.
    #[must_use]
    pub fn front(&self) -> &[u8] {
        match self.payload_at {
            // No words precede the payload: there is no payload, or only the payload.
            0 if self.payload.is_empty() => &self.words,
            0 => &self.payload,
            at => &self.words[..at],
        }
    }

    /// Returns the message as one piece; copies only if there is a payload.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        if self.payload.is_empty() {
            return self.words.into();
        }
        let (before, payload, after) = self.parts();
        [before, payload, after].concat().into()
    }

    /// Returns a copy of the message as one piece of exactly its length.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let (before, payload, after) = self.parts();
        [before, payload, after].concat().into()
    }

    /// Replaces the first word: the number under which a message is sent may be determined after
    /// all other fields.
    ///
    /// # Panics
    /// Panics if the message does not begin with a word.
    pub fn replace_first_word(&mut self, word: u32) {
        self.words[..4].copy_from_slice(&word.to_be_bytes());
    }

    /// Returns the memory of the words for reuse by another message.
    #[must_use]
    pub fn into_writer(mut self) -> Writer {
        self.words.clear();
        Writer { message: Self { words: self.words, ..Self::default() } }
    }
}

/// Wraps an encoded message, such as a cached reply, without a copy.
impl From<Bytes> for Message {
    fn from(message: Bytes) -> Self {
        Self { words: Vec::new(), payload: message, payload_at: 0 }
    }
}

/// The position of a word that is set later.
#[derive(Debug)]
pub struct Hole(usize);

/// An end of a message while it is encoded.
#[derive(Debug)]
pub struct Mark {
    words: usize,
    payload: bool,
}

/// An encoder for a message.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    message: Message,
}

impl Writer {
    /// Starts an empty message.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of bytes written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.message.len()
    }

    /// Returns true if the writer is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.message.is_empty()
    }

    /// Completes the message.
    #[must_use]
    pub fn finish(self) -> Message {
        self.message
    }

    /// Appends an unsigned integer of 32 bits (RFC 4506 section 4.2).
    pub fn u32(&mut self, value: u32) {
        self.message.words.extend_from_slice(&value.to_be_bytes());
    }

    /// Appends an unsigned hyper integer of 64 bits (RFC 4506 section 4.5).
    pub fn u64(&mut self, value: u64) {
        self.message.words.extend_from_slice(&value.to_be_bytes());
    }

    /// Appends unsigned integers of 32 bits in one step.
    pub fn words<const N: usize>(&mut self, words: &[u32; N]) {
        let mut encoded = [[0; 4]; N];
        for (to, word) in encoded.iter_mut().zip(words) {
            *to = word.to_be_bytes();
        }
        self.message.words.extend_from_slice(encoded.as_flattened());
    }

    /// Appends encoded values.
    pub fn raw(&mut self, encoded: &[u8]) {
        self.message.words.extend_from_slice(encoded);
    }

    /// Appends an opaque of fixed length and its padding (RFC 4506 section 4.9).
    pub fn fixed(&mut self, bytes: &[u8]) {
        self.message.words.extend_from_slice(bytes);
        self.pad(bytes.len());
    }

    /// Appends an opaque of variable length and its padding (RFC 4506 section 4.10).
    ///
    /// # Panics
    /// Panics if `bytes` has 4 GiB or more: no field of this project has that length.
    pub fn opaque(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.fixed(bytes);
    }

    /// Appends an opaque like [`Writer::opaque`]; a large one is stored separately and not copied.
    /// A second large opaque in one message is copied.
    ///
    /// # Panics
    /// See [`Writer::opaque`].
    pub fn payload(&mut self, bytes: Bytes) {
        if bytes.len() < APART_BYTES_MIN || !self.message.payload.is_empty() {
            return self.opaque(&bytes);
        }
        self.length(bytes.len());
        self.message.payload_at = self.message.words.len();
        self.pad(bytes.len());
        self.message.payload = bytes;
    }

    /// Appends a word that [`Writer::fill`] sets later, such as a count or length of the fields that
    /// follow the word.
    pub fn hole(&mut self) -> Hole {
        let at = self.message.words.len();
        self.u32(0);
        Hole(at)
    }

    /// Sets the word of a hole.
    ///
    /// # Panics
    /// Panics if [`Writer::rewind`] has removed the hole, or another writer made the hole.
    pub fn fill(&mut self, hole: &Hole, word: u32) {
        self.message.words[hole.0..hole.0 + 4].copy_from_slice(&word.to_be_bytes());
    }

    /// Returns the current end of the message, to which [`Writer::rewind`] can return.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        Mark { words: self.message.words.len(), payload: !self.message.payload.is_empty() }
    }

    /// Removes all that was appended after the mark.
    pub fn rewind(&mut self, mark: &Mark) {
        self.message.words.truncate(mark.words);
        if !mark.payload {
            self.message.payload = Bytes::new();
            self.message.payload_at = 0;
        }
    }

    fn length(&mut self, length: usize) {
        self.u32(u32::try_from(length).expect("an opaque of ours is shorter than 4 GiB"));
    }

    fn pad(&mut self, length: usize) {
        self.message.words.extend_from_slice(&[0; 3][..padding(length)]);
    }
}
