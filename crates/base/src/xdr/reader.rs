//! Decoding of messages.

use core::fmt;

use bytes::Bytes;

use super::padding;

/// The complete set of decoding errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Error {
    /// The message ends before the value does.
    Short,
    /// A length is above the limit of its field.
    TooLong,
    /// A word has a value that is invalid for its type.
    BadValue,
    /// Bytes follow the end of the message.
    LeftOver,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "the message is too short",
            Self::TooLong => "a length is above its limit",
            Self::BadValue => "a value is invalid for its type",
            Self::LeftOver => "bytes are left over",
        })
    }
}

impl core::error::Error for Error {}

/// A position in a received message.
///
/// Decoded values borrow from the message, or share its buffer if they outlive the reader.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    message: Option<&'a Bytes>,
}

impl<'a> Reader<'a> {
    /// Returns a reader at the beginning of a message.
    #[must_use]
    pub fn new(message: &'a Bytes) -> Self {
        Self { rest: message, message: Some(message) }
    }

    /// Returns a reader at the beginning of bytes that cannot be shared, such as a part of an
    /// earlier message; [`Reader::shared`] copies these bytes.
    #[must_use]
    pub const fn of_part(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, message: None }
    }

    /// Returns the remaining bytes.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the remaining bytes as a shared buffer that may outlive the reader.
    #[must_use]
    pub fn rest_shared(&self) -> Bytes {
        self.share(self.rest)
    }

    fn share(&self, bytes: &'a [u8]) -> Bytes {
        match self.message {
            Some(message) => message.slice_ref(bytes),
            None => Bytes::copy_from_slice(bytes),
        }
    }

    /// Takes `length` bytes without padding.
    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Error::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn chunk<const N: usize>(&mut self) -> Result<&'a [u8; N], Error> {
        let (chunk, rest) = self.rest.split_first_chunk().ok_or(Error::Short)?;
        self.rest = rest;
        Ok(chunk)
    }

    /// Reads an unsigned integer of 32 bits (RFC 4506 section 4.2).
    ///
    /// # Errors
    /// [`Error::Short`].
    pub fn u32(&mut self) -> Result<u32, Error> {
        self.chunk().map(|word| u32::from_be_bytes(*word))
    }

    /// Reads an unsigned hyper integer of 64 bits (RFC 4506 section 4.5).
    ///
    /// # Errors
    /// [`Error::Short`].
    pub fn u64(&mut self) -> Result<u64, Error> {
        self.chunk().map(|word| u64::from_be_bytes(*word))
    }

    /// Reads an opaque of fixed length and its padding (RFC 4506 section 4.9).
    ///
    /// # Errors
    /// [`Error::Short`].
    pub fn fixed<const N: usize>(&mut self) -> Result<&'a [u8; N], Error> {
        let bytes = self.chunk()?;
        self.take(padding(N))?;
        Ok(bytes)
    }

    /// Reads an opaque of variable length and its padding (RFC 4506 section 4.10). Padding other
    /// than zero is accepted: some clients do not clear it, and it carries no data.
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

    /// Reads an opaque like [`Reader::opaque`], shared with the message so that it may outlive the
    /// reader without a copy.
    ///
    /// # Errors
    /// See [`Reader::opaque`].
    pub fn shared(&mut self, limit: u32) -> Result<Bytes, Error> {
        let bytes = self.opaque(limit)?;
        Ok(self.share(bytes))
    }

    /// Checks that the message is complete.
    ///
    /// # Errors
    /// [`Error::LeftOver`] if bytes remain.
    pub const fn finish(&self) -> Result<(), Error> {
        if self.rest.is_empty() { Ok(()) } else { Err(Error::LeftOver) }
    }
}
