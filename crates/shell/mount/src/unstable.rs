//! What was written to a file and is not yet known to be safe, and errors that wait to be told.
//!
//! Data that the server took UNSTABLE is kept until a COMMIT shows the verifier that it was taken
//! under. Another verifier means that the server was restarted and may have lost it: it is written
//! again, in the order in which it was written first. One at a time has the order of a file:
//! writes and commits wait for each other, so nothing old is written over something new.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use leasehold_fuse::Errno;

/// What was written to a file and is not yet safe.
#[derive(Default)]
pub(crate) struct Unstable {
    /// Held by who writes or commits.
    pub(crate) order: futures_util::lock::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    pieces: BTreeMap<u64, Piece>,
    /// An error that nobody was told of.
    error: Option<Errno>,
}

/// A part of what was written.
#[derive(Clone)]
pub(crate) struct Piece {
    pub(crate) number: u64,
    pub(crate) offset: u64,
    pub(crate) data: Bytes,
    /// What the server said when it took it.
    pub(crate) verifier: [u8; 8],
}

impl Unstable {
    /// Keeps what the server has taken.
    pub(crate) fn keep(&self, offset: u64, data: Bytes, verifier: [u8; 8]) {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.pieces.insert(number, Piece { number, offset, data, verifier });
    }

    /// All that is not safe, in the order in which it was written.
    pub(crate) fn pieces(&self) -> Vec<Piece> {
        self.state().pieces.values().cloned().collect()
    }

    /// How much it is, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.state().pieces.values().map(|piece| piece.data.len()).sum()
    }

    /// A piece is safe, or lost for good.
    pub(crate) fn done(&self, number: u64) {
        self.state().pieces.remove(&number);
    }

    /// Remembers an error until somebody can be told; the first counts.
    pub(crate) fn fail(&self, errno: Errno) {
        self.state().error.get_or_insert(errno);
    }

    /// The error that is to be told, once.
    pub(crate) fn take_error(&self) -> Option<Errno> {
        self.state().error.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
