//! XDR, the encoding of every message (RFC 4506).
//!
//! Criteria in order of weight: input from outside never panics, and reserves memory only after its
//! length was checked against a limit and against the remaining bytes; file data is never copied;
//! one declaration defines encoding and decoding of a message's fields
//! ([`xdr_struct!`](crate::xdr_struct)).

mod message;
mod reader;
mod structs;

pub use message::{Hole, Mark, Message, Writer};
pub use reader::{Error, Reader};

use crate::units::{Cookie, FileId, FileSystemId};

/// A value that can be decoded.
pub trait Decode<'a>: Sized {
    /// Decodes one value and advances the reader past the value.
    ///
    /// # Errors
    /// One of the four causes; the position of the reader is then undefined.
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error>;
}

/// A value that can be encoded.
pub trait Encode {
    /// Appends the value.
    fn encode(&self, writer: &mut Writer);
}

impl<T: Encode> Encode for &T {
    fn encode(&self, writer: &mut Writer) {
        T::encode(self, writer);
    }
}

/// Decodes a whole message as one value.
///
/// # Errors
/// The errors of [`Decode::decode`], and [`Error::LeftOver`] if bytes follow the value.
pub fn decode_all<'a, T: Decode<'a>>(reader: &mut Reader<'a>) -> Result<T, Error> {
    let value = T::decode(reader)?;
    reader.finish()?;
    Ok(value)
}

/// Returns the number of zero bytes that pad an opaque of `length` bytes to a multiple of four.
const fn padding(length: usize) -> usize {
    length.wrapping_neg() & 3
}

/// Returns the two words of an unsigned hyper integer, in the order of the encoding.
#[must_use]
pub const fn halves(value: u64) -> [u32; 2] {
    [(value >> 32) as u32, (value & 0xffff_ffff) as u32]
}

impl<'a> Decode<'a> for () {
    fn decode(_: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(())
    }
}

impl Encode for () {
    fn encode(&self, _: &mut Writer) {}
}

impl<'a> Decode<'a> for u32 {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        reader.u32()
    }
}

impl Encode for u32 {
    fn encode(&self, writer: &mut Writer) {
        writer.u32(*self);
    }
}

impl<'a> Decode<'a> for u64 {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        reader.u64()
    }
}

impl Encode for u64 {
    fn encode(&self, writer: &mut Writer) {
        writer.u64(*self);
    }
}

impl<'a> Decode<'a> for bool {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        match reader.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Error::BadValue),
        }
    }
}

impl Encode for bool {
    fn encode(&self, writer: &mut Writer) {
        writer.u32(u32::from(*self));
    }
}

/// XDR's optional data: a flag, followed by the value if the flag is true (RFC 4506 section 4.19).
impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(if bool::decode(reader)? { Some(T::decode(reader)?) } else { None })
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, writer: &mut Writer) {
        self.is_some().encode(writer);
        if let Some(value) = self {
            value.encode(writer);
        }
    }
}

impl<'a, const N: usize> Decode<'a> for [u8; N] {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        reader.fixed().copied()
    }
}

impl<const N: usize> Encode for [u8; N] {
    fn encode(&self, writer: &mut Writer) {
        writer.fixed(self);
    }
}

/// Implements the codec for types that are 64-bit numbers on the wire.
macro_rules! hyper {
    ($($name:ident),*) => {$(
        impl<'a> Decode<'a> for $name {
            fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
                reader.u64().map(Self)
            }
        }

        impl Encode for $name {
            fn encode(&self, writer: &mut Writer) {
                writer.u64(self.0);
            }
        }
    )*};
}

hyper!(Cookie, FileId, FileSystemId);

#[cfg(test)]
mod tests;
