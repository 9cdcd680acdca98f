//! The number of bytes at which a stream socket becomes readable.

use std::os::fd::OwnedFd;

use crate::limits::RECEIVE_BYTES;
use crate::sys;

/// The size of the parts in which large messages are received: a wake-up for each segment costs
/// more than a tenth of a copy of the whole message.
const PART_BYTES: usize = 256 << 10;

/// The number of bytes at which a stream socket becomes readable; zero means one byte. The end of
/// the stream makes it readable in any case.
#[derive(Debug, Default)]
pub(crate) struct Threshold(usize);

impl Threshold {
    /// Defers the readability of an empty socket until a part of a large message has arrived, if
    /// `missing` bytes of one are missing.
    pub(crate) fn expect(&mut self, socket: &OwnedFd, missing: usize) {
        let part = if missing > RECEIVE_BYTES { missing.min(PART_BYTES) } else { 0 };
        // A failure only causes more wake-ups.
        if part != self.0 && sys::readable_from(socket, part).is_ok() {
            self.0 = part;
        }
    }

    /// Returns true if data may have arrived without making the socket readable.
    pub(crate) const fn hides(&self) -> bool {
        self.0 > 0
    }
}
