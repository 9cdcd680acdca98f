//! All messages between a case and a server.
//!
//! The record is for a failed case: as text for people, and as a capture file for other tools. Its
//! size is bounded, and the oldest messages go first.

mod capture;
mod plain;
mod text;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;

pub(crate) use text::procedure_name;

/// The bytes of messages that are kept of one case.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// The transport of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Tcp,
    Udp,
}

/// The two ends of a connection, or of a socket for datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Side {
    pub(crate) carrier: Carrier,
    pub(crate) local: SocketAddr,
    pub(crate) server: SocketAddr,
}

/// A procedure of a program's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Procedure {
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) number: u32,
}

/// One recorded message or event.
struct Said {
    at: Duration,
    side: Side,
    what: What,
}

enum What {
    /// A message to the server.
    Call(Bytes),
    /// Bytes to the server that may be no messages.
    Bytes(Bytes),
    /// A message of the server.
    Reply(Bytes),
    /// An event beside messages.
    Note(String),
}

impl What {
    fn len(&self) -> usize {
        match self {
            Self::Call(bytes) | Self::Bytes(bytes) | Self::Reply(bytes) => bytes.len(),
            Self::Note(note) => note.len(),
        }
    }
}

struct Inner {
    start: Instant,
    said: VecDeque<Said>,
    kept_bytes: usize,
    forgotten: usize,
    /// The procedure of each call, to decode its reply.
    calls: BTreeMap<u32, Procedure>,
    timings: BTreeMap<Procedure, Vec<Duration>>,
}

/// The messages of one case; clones write to the same record.
#[derive(Clone)]
pub(crate) struct Talk(Rc<RefCell<Inner>>);

impl Talk {
    pub(crate) fn new() -> Self {
        Self(Rc::new(RefCell::new(Inner {
            start: Instant::now(),
            said: VecDeque::new(),
            kept_bytes: 0,
            forgotten: 0,
            calls: BTreeMap::new(),
            timings: BTreeMap::new(),
        })))
    }

    pub(crate) fn sent(&self, side: Side, message: &[u8]) {
        if let Some((xid, procedure)) = text::call_of(message) {
            self.0.borrow_mut().calls.insert(xid, procedure);
        }
        self.add(side, What::Call(Bytes::copy_from_slice(message)));
    }

    pub(crate) fn sent_bytes(&self, side: Side, bytes: &[u8]) {
        self.add(side, What::Bytes(Bytes::copy_from_slice(bytes)));
    }

    pub(crate) fn received(&self, side: Side, message: &Bytes) {
        self.add(side, What::Reply(message.clone()));
    }

    pub(crate) fn note(&self, side: Side, note: &str) {
        self.add(side, What::Note(note.to_owned()));
    }

    /// Records the duration of a call.
    pub(crate) fn took(&self, procedure: Procedure, time: Duration) {
        self.0.borrow_mut().timings.entry(procedure).or_default().push(time);
    }

    /// Returns the durations of the calls, by procedure.
    pub(crate) fn timings(&self) -> BTreeMap<Procedure, Vec<Duration>> {
        std::mem::take(&mut self.0.borrow_mut().timings)
    }

    fn add(&self, side: Side, what: What) {
        let inner = &mut *self.0.borrow_mut();
        inner.kept_bytes += what.len();
        inner.said.push_back(Said { at: inner.start.elapsed(), side, what });
        while inner.kept_bytes > KEPT_BYTES_MAX {
            let oldest = inner.said.pop_front().expect("the counted entries exist");
            inner.kept_bytes -= oldest.what.len();
            inner.forgotten += 1;
        }
    }

    /// Returns the last calls and replies as text for people.
    pub(crate) fn text(&self, lines_max: usize) -> String {
        let inner = self.0.borrow();
        let skipped = inner.said.len().saturating_sub(lines_max);
        text::text(inner.said.iter().skip(skipped), inner.forgotten + skipped, &inner.calls)
    }

    /// Returns the whole record as a capture file.
    pub(crate) fn capture(&self) -> Vec<u8> {
        capture::capture(&self.0.borrow().said)
    }
}
