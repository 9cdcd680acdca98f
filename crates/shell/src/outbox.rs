//! Replies to send on one stream.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::OwnedFd;

use leasehold_base::limits::COPY_BYTES_MAX;
use leasehold_base::xdr::{Message, Writer};
use leasehold_wire::record::mark;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use crate::limits::SEND_PIECES_MAX;

/// Replies with their record marks, in the order of sending.
///
/// Small replies are copied into one buffer. A large reply is not copied, so that its file data
/// goes from the store to the socket without a copy. The outbox has no limit of its own: its owner
/// checks [`Outbox::len`] and adds no more replies beyond a limit.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pieces: VecDeque<Piece>,
    words: Vec<u8>,
    /// The number of sent bytes at the front of `words`.
    words_sent: usize,
    len: usize,
    /// The size of large replies, including the sent part of the first large reply.
    large: usize,
}

#[derive(Debug)]
enum Piece {
    /// A section of the given number of bytes in the buffer.
    Words(usize),
    /// A large reply, and the length of its sent part. The record mark of the reply is the end of
    /// the preceding section in the buffer.
    Large(Message, usize),
}

/// The result of a send.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Everything was sent.
    All,
    /// The socket accepts no more for now.
    Blocked,
}

impl Outbox {
    /// Returns the number of unsent bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the memory of the replies in bytes. A large reply occupies all of its memory until
    /// its last byte is sent.
    pub(crate) fn memory(&self) -> usize {
        self.words.len() + self.large
    }

    /// Appends a reply; returns its buffer if the reply was copied.
    pub(crate) fn push(&mut self, message: Message) -> Option<Writer> {
        self.push_words(&mark(message.len()));
        if message.len() >= COPY_BYTES_MAX {
            self.len += message.len();
            self.large += message.len();
            self.pieces.push_back(Piece::Large(message, 0));
            return None;
        }
        self.push_parts(&message);
        Some(message.into_writer())
    }

    /// Appends a message that its sender may need again.
    pub(crate) fn push_copy(&mut self, message: &Message) {
        if message.len() >= COPY_BYTES_MAX {
            // The clone shares the data with the original, so a large message is not copied.
            self.push(message.clone());
        } else {
            self.push_words(&mark(message.len()));
            self.push_parts(message);
        }
    }

    fn push_parts(&mut self, message: &Message) {
        let (before, payload, after) = message.parts();
        for part in [before, &payload[..], after] {
            self.push_words(part);
        }
    }

    fn push_words(&mut self, words: &[u8]) {
        self.words.extend_from_slice(words);
        self.len += words.len();
        match self.pieces.back_mut() {
            Some(Piece::Words(length)) => *length += words.len(),
            _ => self.pieces.push_back(Piece::Words(words.len())),
        }
    }

    /// Sends as much as the socket accepts.
    pub(crate) fn send(&mut self, socket: &OwnedFd) -> Result<Sent, Errno> {
        while !self.is_empty() {
            let mut pieces = [IoSlice::new(&[]); SEND_PIECES_MAX];
            let (count, length) = self.gather(&mut pieces);
            let mut no_control = SendAncillaryBuffer::default();
            match sendmsg(socket, &pieces[..count], &mut no_control, SendFlags::NOSIGNAL) {
                Ok(sent) => {
                    self.advance(sent);
                    if sent < length {
                        return Ok(Sent::Blocked);
                    }
                }
                Err(Errno::AGAIN) => return Ok(Sent::Blocked),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Sent::All)
    }

    /// Fills in the next slices to send. Returns the number of slices and their total length in
    /// bytes.
    fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>; SEND_PIECES_MAX]) -> (usize, usize) {
        let (mut count, mut length) = (0, 0);
        let mut words = &self.words[self.words_sent..];
        for piece in &self.pieces {
            let (parts, mut skip) = match piece {
                Piece::Words(length) => {
                    let (these, rest) = words.split_at(*length);
                    words = rest;
                    ([these, &[], &[]], 0)
                }
                Piece::Large(message, sent) => {
                    let (before, payload, after) = message.parts();
                    ([before, &payload[..], after], *sent)
                }
            };
            for part in parts {
                let skipped = skip.min(part.len());
                let part = &part[skipped..];
                skip -= skipped;
                if part.is_empty() {
                    continue;
                }
                if count == slices.len() {
                    return (count, length);
                }
                slices[count] = IoSlice::new(part);
                (count, length) = (count + 1, length + part.len());
            }
        }
        (count, length)
    }

    fn advance(&mut self, sent: usize) {
        self.len -= sent;
        let mut left = sent;
        while left > 0 {
            let front = self.pieces.front_mut().expect("no more is sent than there was");
            let (here, rest) = match front {
                Piece::Words(length) => {
                    let here = left.min(*length);
                    *length -= here;
                    self.words_sent += here;
                    (here, *length)
                }
                Piece::Large(message, sent) => {
                    let here = left.min(message.len() - *sent);
                    *sent += here;
                    (here, message.len() - *sent)
                }
            };
            left -= here;
            if rest == 0
                && let Some(Piece::Large(message, _)) = self.pieces.pop_front()
            {
                self.large -= message.len();
            }
        }
        if self.pieces.is_empty() {
            self.words.clear();
            self.words_sent = 0;
        } else if self.words_sent >= COPY_BYTES_MAX && self.words_sent >= self.words.len() / 2 {
            self.words.drain(..self.words_sent);
            self.words_sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends the contents of an outbox in steps of the given size, and returns all sent bytes.
    fn drain(mut outbox: Outbox, step: usize) -> Vec<u8> {
        let mut sent = Vec::new();
        while !outbox.is_empty() {
            let mut slices = [IoSlice::new(&[]); SEND_PIECES_MAX];
            let (count, length) = outbox.gather(&mut slices);
            assert_eq!(slices.iter().map(|slice| slice.len()).sum::<usize>(), length);
            let taken = step.min(length);
            let bytes = slices[..count].iter().flat_map(|slice| slice.iter());
            sent.extend(bytes.take(taken));
            outbox.advance(taken);
        }
        assert!(outbox.pieces.is_empty() && outbox.words.is_empty() && outbox.words_sent == 0);
        sent
    }

    fn reply(number: u8, payload: usize) -> Message {
        let mut writer = Writer::new();
        writer.fixed(&[number; 40]);
        writer.payload(vec![!number; payload].into());
        writer.fixed(&[number; 4]);
        writer.finish()
    }

    #[test]
    fn all_bytes_leave_in_order_for_each_step_size() {
        let sizes = [0, 5, COPY_BYTES_MAX - 60, COPY_BYTES_MAX, 3, 30_000, 30_001, 0, 1];
        let mut whole = Vec::new();
        let fill = |whole: &mut Vec<u8>| {
            let mut outbox = Outbox::default();
            for (number, size) in (0..).zip(sizes).cycle().take(3 * sizes.len()) {
                let reply = reply(number, size);
                whole.extend_from_slice(&mark(reply.len()));
                whole.extend_from_slice(&reply.clone().into_bytes());
                outbox.push(reply);
            }
            assert_eq!(outbox.len(), whole.len());
            outbox
        };
        for step in [7, 44, 1000, 8191, 50_000, usize::MAX] {
            whole.clear();
            let outbox = fill(&mut whole);
            assert!(drain(outbox, step) == whole, "in steps of {step}");
        }
    }

    #[test]
    fn more_pieces_than_one_send_takes_go_out_in_order() {
        let mut outbox = Outbox::default();
        let mut whole = Vec::new();
        for number in 0..100 {
            let reply = reply(number, COPY_BYTES_MAX);
            whole.extend_from_slice(&mark(reply.len()));
            whole.extend_from_slice(&reply.clone().into_bytes());
            outbox.push(reply);
        }
        assert!(drain(outbox, usize::MAX) == whole);
    }

    #[test]
    fn large_reply_keeps_its_memory_until_all_is_sent() {
        let mut outbox = Outbox::default();
        outbox.push(reply(0, 1 << 20));
        let whole = outbox.memory();
        assert!(whole > 1 << 20);
        outbox.advance(outbox.len() - 1);
        assert_eq!(outbox.memory(), whole);
        outbox.advance(1);
        assert_eq!(outbox.memory(), 0);
    }

    /// A client that always leaves a few bytes unread must not make the buffer grow.
    #[test]
    fn sent_words_release_their_memory() {
        let mut outbox = Outbox::default();
        outbox.push(reply(0, 0));
        for number in 0..200 {
            for _ in 0..100 {
                outbox.push(reply(number, 0));
            }
            outbox.advance(outbox.len() - 1);
        }
        assert!(outbox.words.len() < 4 * COPY_BYTES_MAX, "{} bytes", outbox.words.len());
    }

    #[test]
    fn small_reply_releases_its_memory() {
        let mut outbox = Outbox::default();
        assert!(outbox.push(reply(1, 100)).is_some_and(|writer| writer.is_empty()));
        assert!(outbox.push(reply(1, COPY_BYTES_MAX)).is_none());
    }
}
