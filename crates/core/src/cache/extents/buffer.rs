//! Bytes that can be cut, and while they grow, written into.

use core::ops::Range;

use bytes::{Bytes, BytesMut};

/// The bytes of one extent.
#[derive(Clone, Debug)]
pub(super) enum Buffer {
    /// Small writes, joined.
    Growing(BytesMut),
    /// A part of a message or of one large write, or what is on its way to the server.
    Whole(Bytes),
}

impl Buffer {
    pub(super) fn len(&self) -> usize {
        self.as_slice().len()
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Growing(bytes) => bytes,
            Self::Whole(bytes) => bytes,
        }
    }

    /// Whether it can be written into.
    pub(super) const fn grows(&self) -> bool {
        matches!(self, Self::Growing(_))
    }

    /// Writes at `at`, which is not behind the end.
    pub(super) fn write(&mut self, at: usize, data: &[u8]) {
        match self {
            Self::Growing(bytes) => {
                let over = data.len().min(bytes.len() - at);
                bytes[at..at + over].copy_from_slice(&data[..over]);
                bytes.extend_from_slice(&data[over..]);
            }
            Self::Whole(_) => unreachable!("only what grows is written into"),
        }
    }

    pub(super) fn split_off(&mut self, at: usize) -> Self {
        match self {
            Self::Growing(bytes) => Self::Growing(bytes.split_off(at)),
            Self::Whole(bytes) => Self::Whole(bytes.split_off(at)),
        }
    }

    /// A part that lasts, whatever is written here afterwards.
    pub(super) fn slice(&self, range: Range<usize>) -> Bytes {
        match self {
            Self::Growing(bytes) => Bytes::copy_from_slice(&bytes[range]),
            Self::Whole(bytes) => bytes.slice(range),
        }
    }

    pub(super) fn freeze(self) -> Bytes {
        match self {
            Self::Growing(bytes) => bytes.freeze(),
            Self::Whole(bytes) => bytes,
        }
    }
}
