//! Byte buffers that can be split, and written while they grow.

use core::ops::Range;

use bytes::{Bytes, BytesMut};

/// The bytes of one extent.
#[derive(Clone, Debug)]
pub(super) enum Buffer {
    /// Small writes that were joined into one growing buffer.
    Growing(BytesMut),
    /// Bytes that do not change any more: a part of a message or of one large write, or data in
    /// transit to the server.
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

    /// Returns true if the buffer can be written.
    pub(super) const fn grows(&self) -> bool {
        matches!(self, Self::Growing(_))
    }

    /// Writes bytes from the offset `at` on, which is at most the current length.
    pub(super) fn write(&mut self, at: usize, data: &[u8]) {
        match self {
            Self::Growing(bytes) => {
                let over = data.len().min(bytes.len() - at);
                bytes[at..at + over].copy_from_slice(&data[..over]);
                bytes.extend_from_slice(&data[over..]);
            }
            Self::Whole(_) => unreachable!("only a growing buffer is written"),
        }
    }

    pub(super) fn split_off(&mut self, at: usize) -> Self {
        match self {
            Self::Growing(bytes) => Self::Growing(bytes.split_off(at)),
            Self::Whole(bytes) => Self::Whole(bytes.split_off(at)),
        }
    }

    /// Returns a part that later writes do not change.
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
