//! When a stream's socket becomes readable.

use std::os::fd::OwnedFd;

use crate::limits::RECEIVE_BYTES;
use crate::sys;

/// A large message is received in parts of so many bytes: to be woken for each segment of it costs
/// more than a tenth of a copy of it all.
const PART_BYTES: usize = 256 << 10;

/// How many bytes must have come for a stream's socket to become readable; with zero, one. Its end
/// makes it readable in any case.
#[derive(Debug, Default)]
pub(crate) struct Threshold(usize);

impl Threshold {
    /// Has a socket that was read empty become readable not before a part of a large message has
    /// come, where so many bytes are missing of one.
    pub(crate) fn expect(&mut self, socket: &OwnedFd, missing: usize) {
        let part = if missing > RECEIVE_BYTES { missing.min(PART_BYTES) } else { 0 };
        // Where it cannot be had, more wake-ups are all that follows.
        if part != self.0 && sys::readable_from(socket, part).is_ok() {
            self.0 = part;
        }
    }

    /// Whether something may have come without making the socket readable.
    pub(crate) const fn hides(&self) -> bool {
        self.0 > 0
    }
}
