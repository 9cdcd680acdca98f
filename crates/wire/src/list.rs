//! Linked lists: each value behind a flag that says that it follows (RFC 4506 section 4.19).

use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};

/// A list as it is read. It grows as values are found, so a message reserves no more memory than
/// it has values for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

impl<'a, T: Decode<'a>> Decode<'a> for List<T> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        UpTo::<T, { usize::MAX }>::decode(reader).map(|UpTo(values)| Self(values))
    }
}

/// A list of so many values at most; the reader refuses a longer list before its use.
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

/// A list as it is written: each value is encoded as the iteration yields it, so none is built.
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
