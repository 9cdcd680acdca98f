//! Helpers for the tests of all messages.

use core::fmt::Debug;

use bytes::Bytes;
use leasehold_base::xdr::{Decode, Encode, Reader, Writer, decode_all};

/// Returns the bytes of a description: pairs of hexadecimal digits, and text in single quotes.
/// White space has no meaning.
pub(crate) fn bytes(description: &str) -> Bytes {
    let mut bytes = Vec::new();
    for (index, piece) in description.split('\'').enumerate() {
        if index % 2 == 1 {
            bytes.extend_from_slice(piece.as_bytes());
            continue;
        }
        let digits: Vec<char> = piece.chars().filter(|c| !c.is_whitespace()).collect();
        for pair in digits.chunks(2) {
            let pair = pair.iter().collect::<String>();
            bytes.push(u8::from_str_radix(&pair, 16).expect("pairs of hexadecimal digits"));
        }
    }
    bytes.into()
}

/// Returns the encoding of a value.
pub(crate) fn encoded(value: &impl Encode) -> Bytes {
    let mut writer = Writer::new();
    value.encode(&mut writer);
    writer.finish().into_bytes()
}

/// Checks that a value encodes to these bytes, and decodes from them.
pub(crate) fn both_ways<'a, T>(value: T, bytes: &'a Bytes)
where
    T: Decode<'a> + Encode + PartialEq + Debug,
{
    assert_eq!(encoded(&value), bytes, "as {value:?} is written");
    assert_eq!(decode_all(&mut Reader::new(bytes)), Ok(value));
}

/// Checks a value against a description of its bytes, which may refer to other descriptions in
/// braces.
macro_rules! vector {
    ($value:expr, $description:literal) => {
        $crate::testing::both_ways($value, &$crate::testing::bytes(&format!($description)))
    };
}
