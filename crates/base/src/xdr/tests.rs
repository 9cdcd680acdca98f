//! Vectors from RFC 4506, each checked in both directions.

#![expect(clippy::redundant_closure, reason = "a function's name does not fit all lifetimes")]

use bytes::Bytes;

use super::*;
use crate::limits::APART_BYTES_MIN;
use crate::{xdr_enum, xdr_struct};

xdr_enum! {
    /// A colour.
    enum Colour {
        /// Red.
        Red = 2,
        /// Blue.
        Blue = 5,
    }
}

xdr_struct! {
    /// One of each.
    struct Mixed {
        /// A word.
        pub word: u32,
        /// A flag.
        pub flag: bool,
        /// An enumeration.
        pub colour: Colour,
        /// An opaque of fixed length.
        pub fixed: [u8; 5],
        /// Optional data.
        pub cookie: Option<Cookie>,
    }
}

const MIXED: &[u8] = &[
    0, 0, 1, 2, // word
    0, 0, 0, 1, // flag
    0, 0, 0, 5, // colour
    1, 2, 3, 4, 5, 0, 0, 0, // fixed and its padding
    0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, // cookie
];

fn mixed() -> Mixed {
    Mixed {
        word: 0x102,
        flag: true,
        colour: Colour::Blue,
        fixed: [1, 2, 3, 4, 5],
        cookie: Some(Cookie(9)),
    }
}

fn read<T>(
    bytes: &[u8],
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    read(&mut Reader::of_part(bytes))
}

#[test]
fn vector_both_ways() {
    let mut writer = Writer::new();
    mixed().encode(&mut writer);
    assert_eq!(writer.finish().into_bytes(), MIXED);
    assert_eq!(Colour::ALL, [Colour::Red, Colour::Blue]);
    assert_eq!(read(MIXED, |r| decode_all::<Mixed>(r)), Ok(mixed()));
}

#[test]
fn each_cause_has_its_own_error() {
    for length in 0..MIXED.len() {
        assert_eq!(
            read(&MIXED[..length], |r| decode_all::<Mixed>(r)),
            Err(Error::Short),
            "{length}"
        );
    }
    let longer = [MIXED, &[0; 4]].concat();
    assert_eq!(read(&longer, |r| decode_all::<Mixed>(r)), Err(Error::LeftOver));
    assert_eq!(read(&[0, 0, 0, 2], |r| bool::decode(r)), Err(Error::BadValue));
    assert_eq!(read(&[0, 0, 0, 3], |r| Colour::decode(r)), Err(Error::BadValue));
    assert_eq!(read(&[0, 0, 0, 9], |r| r.opaque(8).map(<[u8]>::len)), Err(Error::TooLong));
    assert_eq!(read(&[255; 12], |r| r.opaque(u32::MAX).map(<[u8]>::len)), Err(Error::Short));
}

#[test]
fn large_payload_is_stored_separately_and_padded() {
    let data = Bytes::from(vec![7; PAYLOAD + 1]);
    let mut writer = Writer::new();
    writer.u32(1);
    writer.payload(data.clone());
    writer.u32(2);
    let message = writer.finish();
    let (before, payload, after) = message.parts();
    assert_eq!((before.len(), after), (8, &[0, 0, 0, 0, 0, 0, 2][..]));
    assert_eq!(payload.as_ptr(), data.as_ptr(), "no copy");
    let bytes = message.into_bytes();
    let mut reader = Reader::new(&bytes);
    assert_eq!(reader.u32(), Ok(1));
    assert_eq!(reader.shared(u32::MAX), Ok(data));
    assert_eq!(reader.u32(), Ok(2));
    assert_eq!(reader.finish(), Ok(()));
}

#[test]
fn only_the_first_word_is_replaced() {
    let mut writer = Writer::new();
    writer.u32(1);
    writer.payload(Bytes::from(vec![7; PAYLOAD]));
    let mut message = writer.finish();
    message.replace_first_word(0x0102_0304);
    let bytes = message.into_bytes();
    let mut reader = Reader::new(&bytes);
    assert_eq!(reader.u32(), Ok(0x0102_0304));
    assert_eq!(reader.opaque(u32::MAX).map(<[u8]>::len), Ok(PAYLOAD));
}

/// Larger than the smallest size of a separate payload.
const PAYLOAD: usize = 64 << 10;

#[test]
fn a_hole_is_filled_after_the_fields_behind_it() {
    let mut writer = Writer::new();
    writer.u32(1);
    let hole = writer.hole();
    writer.payload(Bytes::from(vec![9; APART_BYTES_MIN]));
    writer.fill(&hole, 7);
    let message = writer.finish();
    assert_eq!(message.parts().0, [0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 2, 0]);
    assert_eq!(message.len(), 12 + APART_BYTES_MIN);
}

#[test]
fn a_writer_returns_to_a_mark() {
    let payload = Bytes::from(vec![9; APART_BYTES_MIN]);
    let mut writer = Writer::new();
    writer.u32(1);
    let mark = writer.mark();
    writer.payload(payload.clone());
    writer.u32(2);
    writer.rewind(&mark);
    assert_eq!(writer.clone().finish().into_bytes(), [0, 0, 0, 1][..]);
    writer.payload(payload.clone());
    let mark = writer.mark();
    writer.payload(payload.clone());
    writer.rewind(&mark);
    writer.u32(3);
    let message = writer.finish();
    assert_eq!(message.parts(), (&[0, 0, 0, 1, 0, 0, 2, 0][..], &payload, &[0, 0, 0, 3][..]));
}
