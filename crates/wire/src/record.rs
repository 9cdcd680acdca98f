//! Record marking: the framing of RPC messages on a stream (RFC 5531 section 11).

use core::fmt;

use bytes::{Buf, Bytes, BytesMut};
use leasehold_base::limits::{COPY_BYTES_MAX, FRAGMENTS_MAX, MESSAGE_BYTES_MAX};

/// The length of a record mark, in bytes.
pub const MARK_BYTES: usize = 4;

const LAST: u32 = 1 << 31;

/// Returns the mark for a record of `length` bytes that is sent as one fragment.
///
/// # Panics
/// Panics if `length` is 2 GiB or more: this project sends no message of that length.
#[must_use]
pub fn mark(length: usize) -> [u8; MARK_BYTES] {
    let length = u32::try_from(length).ok().filter(|length| length & LAST == 0);
    (length.expect("a message of ours is shorter than 2 GiB") | LAST).to_be_bytes()
}

/// The reasons for which a stream is invalid; the owner must close it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A record is longer than a message may be.
    TooLong,
    /// A record has more fragments than the limit, or empty fragments.
    TooManyFragments,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "a record is longer than the largest message",
            Self::TooManyFragments => "a record comes in too many fragments",
        })
    }
}

impl core::error::Error for Error {}

/// The next item of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A whole record.
    Record(Bytes),
    /// An incomplete record: at least this many more bytes are needed.
    Need(usize),
}

/// Splits a stream into records; holds the fragments of an incomplete record.
#[derive(Clone, Debug, Default)]
pub struct Splitter {
    fragments: Vec<u8>,
    fragment_count: u32,
}

impl Splitter {
    /// Returns true if only a part of the fragments of a record has arrived.
    #[must_use]
    pub fn is_midway(&self) -> bool {
        self.fragment_count > 0
    }

    /// Returns the memory that the fragments of the incomplete record occupy, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.fragments.capacity()
    }

    /// Takes the next record off the front of the received bytes. A small record is copied, so that
    /// a long-lived small record does not hold a large buffer. A larger record in one fragment
    /// shares the buffer, and several fragments are joined.
    ///
    /// # Errors
    /// After an error the stream is unusable.
    pub fn next(&mut self, received: &mut BytesMut) -> Result<Next, Error> {
        loop {
            let Some(mark) = received.first_chunk::<MARK_BYTES>() else {
                return Ok(Next::Need(MARK_BYTES - received.len()));
            };
            let mark = u32::from_be_bytes(*mark);
            let length = (mark & !LAST) as usize;
            if self.fragments.len() + length > MESSAGE_BYTES_MAX {
                return Err(Error::TooLong);
            }
            if received.len() < MARK_BYTES + length {
                return Ok(Next::Need(MARK_BYTES + length - received.len()));
            }
            received.advance(MARK_BYTES);
            let last = mark & LAST != 0;
            if last && self.fragment_count == 0 {
                return Ok(Next::Record(take(received, length)));
            }
            self.fragments.extend_from_slice(&received[..length]);
            received.advance(length);
            self.fragment_count += 1;
            if last {
                self.fragment_count = 0;
                let record = core::mem::take(&mut self.fragments);
                return Ok(Next::Record(record.into_boxed_slice().into()));
            }
            if self.fragment_count == FRAGMENTS_MAX {
                return Err(Error::TooManyFragments);
            }
        }
    }
}

/// Takes `length` bytes off the front of the received bytes. A small piece is copied, which costs
/// less than sharing the buffer.
pub fn take(received: &mut BytesMut, length: usize) -> Bytes {
    if length >= COPY_BYTES_MAX {
        return received.split_to(length).freeze();
    }
    let taken = Bytes::copy_from_slice(&received[..length]);
    received.advance(length);
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(fragments: &[(&[u8], bool)]) -> BytesMut {
        let mut stream = BytesMut::new();
        for (fragment, last) in fragments {
            let length = u32::try_from(fragment.len()).expect("short");
            stream.extend_from_slice(&(length | if *last { LAST } else { 0 }).to_be_bytes());
            stream.extend_from_slice(fragment);
        }
        stream
    }

    #[test]
    fn records_are_reassembled_from_any_pieces() {
        let whole =
            stream(&[(b"one", true), (b"tw", false), (b"", false), (b"o", true), (b"", true)]);
        for step in 1..=whole.len() {
            let (mut splitter, mut received, mut records) =
                (Splitter::default(), BytesMut::new(), Vec::new());
            for piece in whole.chunks(step) {
                received.extend_from_slice(piece);
                while let Next::Record(record) = splitter.next(&mut received).expect("legal") {
                    records.push(record);
                }
            }
            assert_eq!(records, [&b"one"[..], b"two", b""], "in pieces of {step}");
        }
    }

    #[test]
    fn reports_the_number_of_missing_bytes() {
        let mut received = stream(&[(b"front", false)]);
        let mut splitter = Splitter::default();
        assert_eq!(splitter.next(&mut received), Ok(Next::Need(MARK_BYTES)));
        assert!(splitter.is_midway());
        received.extend_from_slice(&stream(&[(b"", true)]));
        assert!(matches!(splitter.next(&mut received), Ok(Next::Record(_))));
        assert!(!splitter.is_midway());
        let mut received = BytesMut::from(&[0x80, 0, 0][..]);
        let mut splitter = Splitter::default();
        assert_eq!(splitter.next(&mut received), Ok(Next::Need(1)));
        received.extend_from_slice(&[8, 1, 2]);
        assert_eq!(splitter.next(&mut received), Ok(Next::Need(6)));
    }

    #[test]
    fn hostile_lengths_are_refused_before_memory_is_reserved() {
        let mut long = BytesMut::from(&[0xff; 4][..]);
        assert_eq!(Splitter::default().next(&mut long), Err(Error::TooLong));
        let half = vec![0; MESSAGE_BYTES_MAX / 2 + 1];
        let mut halves = stream(&[(&half, false), (&half, true)]);
        assert_eq!(Splitter::default().next(&mut halves), Err(Error::TooLong));
        let mut empty = stream(&vec![(&b""[..], false); FRAGMENTS_MAX as usize]);
        assert_eq!(Splitter::default().next(&mut empty), Err(Error::TooManyFragments));
    }

    #[test]
    fn mark_of_one_fragment() {
        assert_eq!(mark(3), [0x80, 0, 0, 3]);
    }
}
