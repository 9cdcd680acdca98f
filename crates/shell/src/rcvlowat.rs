//! The number of bytes at which a stream socket becomes readable.

use std::os::fd::OwnedFd;

use crate::limits::RECEIVE_BYTES;
use crate::sys;

/// The size of the parts in which the loop receives large messages, in bytes. A wake-up for each
/// TCP segment would cost more than a tenth of a copy of the whole message.
const PART_BYTES: usize = 256 << 10;

/// The number of bytes at which a stream socket becomes readable; zero means one byte. The end of
/// the stream makes the socket readable in any case.
#[derive(Debug, Default)]
pub(crate) struct Threshold(usize);

impl Threshold {
    /// If `missing` bytes of a large message are missing, defers the readability of an empty socket
    /// until a part of [`PART_BYTES`] or the rest has arrived.
    pub(crate) fn expect(&mut self, socket: &OwnedFd, missing: usize) {
        let part = if missing > RECEIVE_BYTES { missing.min(PART_BYTES) } else { 0 };
        // If the option cannot be set, the loop is only woken more often, so a failure is ignored.
        if part != self.0 && sys::readable_from(socket, part).is_ok() {
            self.0 = part;
        }
    }

    /// Returns true if data may have arrived that has not made the socket readable. The loop then
    /// checks the socket from time to time.
    pub(crate) const fn hides(&self) -> bool {
        self.0 > 0
    }
}
