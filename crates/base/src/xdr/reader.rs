//! Reading a message.

use core::fmt;

use bytes::Bytes;

use super::padding;

/// Why a message could not be read; there are no other causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Error {
    /// The message ends before the value does.
    Short,
    /// A length is above the limit of its field.
    TooLong,
    /// A word has a value that its type does not know.
    BadValue,
    /// Bytes follow where the message should end.
    LeftOver,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "the message is too short",
            Self::TooLong => "a length is above its limit",
            Self::BadValue => "a value is not one of those allowed",
            Self::LeftOver => "bytes are left over",
        })
    }
}

impl core::error::Error for Error {}

/// A position in a received message.
///
/// What is read borrows from the message, or shares it where it must outlive the reading.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    message: &'a Bytes,
    at: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of a message.
    #[must_use]
    pub const fn new(message: &'a Bytes) -> Self {
        Self { message, at: 0 }
    }

    /// The bytes that are not yet read.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        &self.message[self.at..]
    }

    /// The message from here to its end, shared.
    #[must_use]
    pub fn rest_shared(&self) -> Bytes {
        self.message.slice(self.at..)
    }

    /// Takes `length` bytes as they are, without padding.
    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let taken = self.rest().get(..length).ok_or(Error::Short)?;
        self.at += length;
        Ok(taken)
    }

    /// Reads an unsigned integer of 32 bits (RFC 4506 section 4.2).
    ///
    /// # Errors
    /// [`Error::Short`].
    pub fn u32(&mut self) -> Result<u32, Error> {
        let (word, _) = self.rest().split_first_chunk().ok_or(Error::Short)?;
        self.at += word.len();
        Ok(u32::from_be_bytes(*word))
    }

    /// Reads an unsigned hyper integer of 64 bits (RFC 4506 section 4.5).
    ///
    /// # Errors
    /// [`Error::Short`].
    pub fn u64(&mut self) -> Result<u64, Error> {
        let (word, _) = self.rest().split_first_chunk().ok_or(Error::Short)?;
        self.at += word.len();
        Ok(u64::from_be_bytes(*word))
    }

    /// Reads an opaque of fixed length and its padding (RFC 4506 section 4.9).
    ///
    /// # Errors
    /// [`Error::Short`].
    pub fn fixed<const N: usize>(&mut self) -> Result<&'a [u8; N], Error> {
        let bytes = self.take(N)?;
        self.take(padding(N))?;
        bytes.first_chunk().ok_or(Error::Short)
    }

    /// Reads an opaque of variable length and its padding (RFC 4506 section 4.10). Padding that
    /// is not zero is taken: some clients send what lay in memory there, and nothing is lost.
    ///
    /// # Errors
    /// [`Error::TooLong`] above `limit` bytes, else [`Error::Short`].
    pub fn opaque(&mut self, limit: u32) -> Result<&'a [u8], Error> {
        let length = self.u32()?;
        if length > limit {
            return Err(Error::TooLong);
        }
        let length = usize::try_from(length).map_err(|_| Error::TooLong)?;
        let bytes = self.take(length)?;
        self.take(padding(length))?;
        Ok(bytes)
    }

    /// Reads an opaque like [`Reader::opaque`], shared with the message so that it may outlive
    /// the reading without a copy.
    ///
    /// # Errors
    /// As [`Reader::opaque`].
    pub fn shared(&mut self, limit: u32) -> Result<Bytes, Error> {
        self.opaque(limit).map(|bytes| self.message.slice_ref(bytes))
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// [`Error::LeftOver`] when bytes are left.
    pub fn finish(&self) -> Result<(), Error> {
        if self.rest().is_empty() { Ok(()) } else { Err(Error::LeftOver) }
    }
}
