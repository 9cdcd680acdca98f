//! Linked lists, in which a flag that announces one more value precedes each value (RFC 4506 section
//! 4.19), and arrays behind their count.

use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};

/// A decoded list. The list grows with each decoded value, so its memory is proportional to the
/// length of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

impl<'a, T: Decode<'a>> Decode<'a> for List<T> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        UpTo::<T, { usize::MAX }>::decode(reader).map(|UpTo(values)| Self(values))
    }
}

/// A list of at most `MAX` values; the decoder rejects a longer list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpTo<T, const MAX: usize>(pub Vec<T>);

impl<'a, T: Decode<'a>, const MAX: usize> Decode<'a> for UpTo<T, MAX> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let mut values = Vec::new();
        while let Some(value) = Option::decode(reader)? {
            if values.len() == MAX {
                return Err(Error::TooLong);
            }
            values.push(value);
        }
        Ok(Self(values))
    }
}

impl<T: Encode, const MAX: usize> Encode for UpTo<T, MAX> {
    fn encode(&self, writer: &mut Writer) {
        ListOf(|| &self.0).encode(writer);
    }
}

impl<T: Encode> Encode for List<T> {
    fn encode(&self, writer: &mut Writer) {
        ListOf(|| &self.0).encode(writer);
    }
}

/// An array of at most `MAX` values behind their count (RFC 4506 section 4.13); the decoder rejects
/// a longer array. The memory grows with each decoded value, and not with the count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array<T, const MAX: usize>(pub Vec<T>);

impl<'a, T: Decode<'a>, const MAX: usize> Decode<'a> for Array<T, MAX> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let count = reader.u32()?;
        if usize::try_from(count).map_or(true, |count| count > MAX) {
            return Err(Error::TooLong);
        }
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(T::decode(reader)?);
        }
        Ok(Self(values))
    }
}

impl<T: Encode, const MAX: usize> Encode for Array<T, MAX> {
    fn encode(&self, writer: &mut Writer) {
        writer.u32(u32::try_from(self.0.len()).expect("an array of ours is short"));
        self.0.iter().for_each(|value| value.encode(writer));
    }
}

impl<T, const MAX: usize> Default for Array<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// A list to encode: it encodes each value that the iterator yields, and builds no vector.
#[derive(Clone, Copy, Debug)]
pub struct ListOf<F>(pub F);

impl<F, Values> Encode for ListOf<F>
where
    F: Fn() -> Values,
    Values: IntoIterator<Item: Encode>,
{
    fn encode(&self, writer: &mut Writer) {
        for value in (self.0)() {
            true.encode(writer);
            value.encode(writer);
        }
        false.encode(writer);
    }
}
