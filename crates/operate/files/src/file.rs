//! Copies the data of one file, with several requests in flight.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::iter;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use leasehold_session as session;
use leasehold_wire::nfs3::write::Stability;
use leasehold_wire::nfs3::{SetAttributes, Status};

use crate::Remote;
use crate::holes::{filled, has_holes, next_data};
use crate::tally::Tally;
use crate::volatile::Volatile;

/// The maximum number of times that data is written again because its server restarted.
const ROUNDS_MAX: u32 = 16;

/// The maximum number of successive WRITEs that write nothing, or READs that return nothing before
/// the end of a file.
const IDLE_MAX: u32 = 3;

/// The minimum size of a piece. If a server has a smaller limit for READ or WRITE, one piece needs
/// several calls.
const PIECE_BYTES_MIN: u32 = 64 << 10;

/// The maximum number of bytes of a stream that the copy keeps in memory until they are on the
/// server's stable storage. They must be kept because a stream cannot be read again.
const STREAM_BYTES_MAX: usize = 32 << 20;

/// The maximum number of bytes of a stream in one WRITE.
const STREAM_PIECE_BYTES: usize = 1 << 20;

/// The reason why a file was not copied.
#[derive(Debug)]
pub enum Error {
    /// An error of a server.
    There(session::Error),
    /// An error of this machine.
    Here(io::Error),
    /// A server reports success, but transfers no data.
    Idle,
    /// A server restarts repeatedly.
    Restarts,
    /// A directory contains itself, or is so deep that it probably does.
    Loop,
    /// A listing exceeds the maximum number of names, or returns to an earlier position.
    Endless,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::There(error) => error.fmt(f),
            Self::Here(error) => error.fmt(f),
            Self::Idle => f.write_str("the server repeatedly transfers no data"),
            Self::Restarts => f.write_str("the server repeatedly loses written data"),
            Self::Loop => f.write_str("the directory lies within itself, or too deep"),
            Self::Endless => f.write_str("the server's listing does not end"),
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Here(error)
    }
}

impl From<session::Error> for Error {
    fn from(error: session::Error) -> Self {
        Self::There(error)
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::There(status.into())
    }
}

/// A source file.
pub(crate) enum Source {
    Local(File),
    Remote(Remote),
}

/// An empty destination file.
pub(crate) enum Sink {
    Local(File),
    Remote(Remote),
}

/// A piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    at: u64,
    length: u32,
}

/// A file that is read in pieces.
pub(crate) struct Reading {
    source: Source,
    size: u64,
    piece_bytes: u32,
    in_flight: usize,
    /// True if the file has holes, which the copy keeps.
    has_holes: bool,
}

impl Reading {
    pub(crate) fn new(source: Source, in_flight: usize) -> Self {
        let (size, bytes, has_holes) = match &source {
            Source::Local(file) => match file.metadata() {
                Ok(metadata) => (metadata.len(), 1 << 20, has_holes(&metadata)),
                Err(_) => (0, 1 << 20, false),
            },
            Source::Remote(it) => {
                let known = &it.attributes;
                (known.size, it.mounted.bounds.read_bytes, known.used < known.size)
            }
        };
        Self { source, size, piece_bytes: bytes.max(PIECE_BYTES_MIN), in_flight, has_holes }
    }

    /// Returns all pieces up to the initial size of the file, except holes of a local file. The
    /// iterator computes each piece on demand and stores none, because a server may report any
    /// size.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Piece> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let at = self.data_from(from).filter(|at| *at < self.size)?;
            let length = u32::try_from(self.size - at).unwrap_or(u32::MAX).min(self.piece_bytes);
            from = at + u64::from(length);
            Some(Piece { at, length })
        })
    }

    /// Returns the start of the first piece with data at or after `from`.
    fn data_from(&self, from: u64) -> Option<u64> {
        let Source::Local(file) = &self.source else { return Some(from) };
        if !self.has_holes || from >= self.size {
            return Some(from);
        }
        // If the search for data fails, treat the range as data: the read that follows then reports
        // the error.
        let data = next_data(file, from).unwrap_or(Some(from))?;
        let bytes = u64::from(self.piece_bytes);
        Some((data / bytes * bytes).max(from))
    }

    /// Returns the pieces of a range of the file.
    fn pieces_of(&self, part: Range<u64>) -> impl Iterator<Item = Piece> + use<> {
        let bytes = self.piece_bytes;
        let mut from = part.start;
        std::iter::from_fn(move || {
            let at = from;
            let rest = part.end.checked_sub(at).filter(|rest| *rest > 0)?;
            let length = u32::try_from(rest).unwrap_or(u32::MAX).min(bytes);
            from += u64::from(length);
            Some(Piece { at, length })
        })
    }

    /// Returns the piece that begins at an offset.
    pub(crate) const fn piece_at(&self, at: u64) -> Piece {
        Piece { at, length: self.piece_bytes }
    }

    /// Reads a piece, up to its end or the end of the file.
    pub(crate) async fn read(&self, piece: Piece) -> Result<Read, Error> {
        match &self.source {
            Source::Local(file) => Ok(read_local(file, piece)?),
            Source::Remote(remote) => read_remote(remote, piece).await,
        }
    }
}

/// The result of a read.
pub(crate) struct Read {
    pub(crate) at: u64,
    pub(crate) data: Bytes,
    /// True if the data reaches the end of the file; false if the server did not report the end.
    pub(crate) is_last: bool,
}

fn read_local(file: &File, piece: Piece) -> io::Result<Read> {
    let mut data = vec![0; piece.length as usize];
    let mut have = 0;
    while have < data.len() {
        match file.read_at(&mut data[have..], piece.at + have as u64) {
            Ok(0) => break,
            Ok(count) => have += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    data.truncate(have);
    let is_last = have < piece.length as usize;
    Ok(Read { at: piece.at, data: data.into(), is_last })
}

async fn read_remote(remote: &Remote, piece: Piece) -> Result<Read, Error> {
    let came = |data, is_last| Read { at: piece.at, data, is_last };
    let mut data = BytesMut::new();
    let mut idle = 0;
    loop {
        let have = u32::try_from(data.len()).unwrap_or(piece.length);
        let count = (piece.length - have).min(remote.mounted.bounds.read_bytes);
        let at = piece.at + u64::from(have);
        let read = remote.nfs().read(&remote.who, &remote.handle, at, count).await?.done()?;
        if data.is_empty() && (read.end || read.count == piece.length) {
            // In the usual case one reply contains the whole piece: return it without a copy.
            return Ok(came(read.data, read.end));
        }
        data.extend_from_slice(&read.data);
        if read.end || data.len() == piece.length as usize {
            return Ok(came(data.freeze(), read.end));
        }
        idle = if read.count == 0 { idle + 1 } else { 0 };
        if idle > IDLE_MAX {
            return Err(Error::Idle);
        }
    }
}

/// The state of a written piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// The piece is on stable storage.
    Safe,
    /// The piece is unstable: a COMMIT that returns this verifier makes it stable.
    If([u8; 8]),
    /// The server restarted between two WRITEs of the piece, so a part of the piece may be lost.
    InParts,
}

impl Written {
    /// Combines the states of two parts of a piece.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Safe, one) | (one, Self::Safe) => one,
            (Self::If(one), Self::If(other)) if one == other => self,
            _ => Self::InParts,
        }
    }
}

/// A copied piece.
struct Moved {
    at: u64,
    /// The offset at which the data of the piece ends.
    end: u64,
    /// The offset at which the written part of the piece ends. A hole may follow it, or the whole
    /// piece may be a hole.
    written_end: u64,
    is_last: bool,
    written: Written,
}

/// Copies all data, and commits it to stable storage if the destination is a server.
pub(crate) async fn copy(reading: &Reading, sink: &Sink, tally: &Tally<'_>) -> Result<(), Error> {
    let mut volatile = Volatile::default();
    let (mut end, mut written_end) = (0, 0);
    // The end of the file as reported by a READ. The size in the attributes is not reliable,
    // because the file may have changed since.
    let told_end = Cell::new(None::<u64>);
    let is_before_end = |piece: &Piece| told_end.get().is_none_or(|end| piece.at < end);
    let pieces = stream::iter(reading.pieces().take_while(is_before_end));
    let moves = pieces.map(|piece| move_piece(reading, sink, piece, reading.has_holes));
    let mut moves = moves.buffer_unordered(reading.in_flight);
    let mut note = |one: &Moved| {
        tally.add_bytes(one.end - one.at, false);
        written_end = written_end.max(one.written_end);
        // A piece beyond the end of the file has no data: ignore it when determining the end of the
        // data.
        if one.end > one.at {
            end = end.max(one.end);
        }
        volatile.note(one);
    };
    while let Some(one) = moves.next().await {
        let one = one?;
        note(&one);
        if one.is_last {
            told_end.set(Some(told_end.get().map_or(one.end, |end| end.min(one.end))));
        }
    }
    drop(moves);
    // Copy the bytes that were appended after the start, or all bytes of a file that reports no
    // size.
    let mut from = reading.size;
    while told_end.get().is_none() {
        let piece = reading.piece_at(from);
        let one = move_piece(reading, sink, piece, reading.has_holes).await?;
        note(&one);
        from = one.end;
        if one.is_last {
            told_end.set(Some(from));
        }
    }
    let end = told_end.get().map_or(end, |told| end.max(told));
    if written_end < end {
        lengthen(sink, end).await?;
    }
    match sink {
        Sink::Local(_) => Ok(()),
        Sink::Remote(remote) => settle(reading, sink, remote, volatile, tally).await,
    }
}

/// Commits written data to the server's stable storage, and writes data again that the server lost
/// in a restart.
async fn settle(
    reading: &Reading,
    sink: &Sink,
    remote: &Remote,
    mut volatile: Volatile,
    tally: &Tally<'_>,
) -> Result<(), Error> {
    for _ in 0..ROUNDS_MAX {
        if volatile.is_empty() {
            return Ok(());
        }
        let commit = remote.nfs().commit(&remote.who, &remote.handle, 0, 0).await?.done()?;
        let lost = std::mem::take(&mut volatile).lost(commit.verifier);
        let pieces = lost.into_iter().flat_map(|part| reading.pieces_of(part));
        let moves = stream::iter(pieces).map(|piece| move_piece(reading, sink, piece, false));
        let mut moves = moves.buffer_unordered(reading.in_flight);
        while let Some(one) = moves.next().await {
            let one = one?;
            tally.add_bytes(one.end - one.at, true);
            volatile.note(&one);
        }
    }
    Err(Error::Restarts)
}

impl Volatile {
    fn note(&mut self, one: &Moved) {
        match one.written {
            Written::Safe => {}
            Written::If(verifier) => self.add(one.at..one.end, Some(verifier)),
            Written::InParts => self.add(one.at..one.end, None),
        }
    }
}

/// Extends a copy that ends with a hole to its size.
async fn lengthen(sink: &Sink, size: u64) -> Result<(), Error> {
    match sink {
        Sink::Local(file) => Ok(file.set_len(size)?),
        Sink::Remote(remote) => {
            let wanted = SetAttributes { size: Some(size), ..SetAttributes::default() };
            remote.nfs().setattr(&remote.who, &remote.handle, &wanted, None).await?.done()?;
            Ok(())
        }
    }
}

/// Copies a piece; omits ranges of zeros if they can become holes of the copy.
async fn move_piece(
    reading: &Reading,
    sink: &Sink,
    piece: Piece,
    leaves_holes: bool,
) -> Result<Moved, Error> {
    let Read { at, data, is_last } = reading.read(piece).await?;
    let end = at.checked_add(data.len() as u64).ok_or(Error::Endless)?;
    // A file that reports no size ends with an empty piece.
    let is_last = is_last || data.is_empty();
    let parts = match leaves_holes && sink.is_file() {
        true => filled(&data),
        false if data.is_empty() => Vec::new(),
        false => iter::once(0..data.len()).collect(),
    };
    let (mut written, mut written_end) = (Written::Safe, 0);
    for part in parts {
        let start = at + part.start as u64;
        written_end = at + part.end as u64;
        let data = data.slice(part);
        written = written.and(match sink {
            Sink::Local(file) => {
                file.write_all_at(&data, start)?;
                Written::Safe
            }
            Sink::Remote(remote) => write_remote(remote, start, data).await?,
        });
    }
    Ok(Moved { at, end, written_end, is_last, written })
}

impl Sink {
    /// Returns true if the destination is a regular file. Unwritten bytes of a regular file are
    /// zeros, so it can have holes; a device keeps its old bytes.
    fn is_file(&self) -> bool {
        match self {
            Self::Local(file) => file.metadata().is_ok_and(|metadata| metadata.is_file()),
            Self::Remote(_) => true,
        }
    }
}

async fn write_remote(remote: &Remote, mut at: u64, mut data: Bytes) -> Result<Written, Error> {
    let bytes_max = remote.mounted.bounds.write_bytes as usize;
    let mut written = Written::Safe;
    let mut idle = 0;
    while !data.is_empty() {
        let part = data.slice(..data.len().min(bytes_max));
        let call = remote.nfs().write(&remote.who, &remote.handle, at, (part, Stability::Unstable));
        let done = call.await?.done()?;
        idle = if done.count == 0 { idle + 1 } else { 0 };
        if idle > IDLE_MAX {
            return Err(Error::Idle);
        }
        if done.stability != Stability::FileSync {
            written = written.and(Written::If(done.verifier));
        }
        at += u64::from(done.count);
        data = data.slice(done.count as usize..);
    }
    Ok(written)
}

/// Copies a stream, such as a pipe, to a server until the stream ends. Commits the data in parts,
/// because uncommitted data must stay in memory.
pub(crate) async fn copy_stream(
    mut stream: File,
    remote: &Remote,
    in_flight: usize,
    tally: &Tally<'_>,
) -> Result<(), Error> {
    let mut at = 0;
    loop {
        let mut pieces = Vec::new();
        let mut held = 0;
        while held < STREAM_BYTES_MAX {
            let data = read_stream(&mut stream)?;
            if data.is_empty() {
                break;
            }
            held += data.len();
            pieces.push((at, data.clone()));
            at += data.len() as u64;
        }
        if pieces.is_empty() {
            return Ok(());
        }
        write_safely(remote, &pieces, in_flight, tally).await?;
    }
}

/// Writes the pieces of a stream, and writes them again if the server restarts, until they are on
/// the server's stable storage.
async fn write_safely(
    remote: &Remote,
    pieces: &[(u64, Bytes)],
    in_flight: usize,
    tally: &Tally<'_>,
) -> Result<(), Error> {
    let mut pieces = pieces.to_vec();
    for round in 0..ROUNDS_MAX {
        let write = |(at, data): (u64, Bytes)| async move {
            let written = write_remote(remote, at, data.clone()).await?;
            Ok::<_, Error>((at, data, written))
        };
        let mut writes = stream::iter(pieces).map(write).buffer_unordered(in_flight);
        let mut unsafe_pieces = Vec::new();
        while let Some(done) = writes.next().await {
            let (at, data, written) = done?;
            tally.add_bytes(data.len() as u64, round > 0);
            if written != Written::Safe {
                unsafe_pieces.push((at, data, written));
            }
        }
        if unsafe_pieces.is_empty() {
            return Ok(());
        }
        let commit = remote.nfs().commit(&remote.who, &remote.handle, 0, 0).await?.done()?;
        let is_lost = |written: &Written| *written != Written::If(commit.verifier);
        let lost = unsafe_pieces.into_iter().filter(|(_, _, written)| is_lost(written));
        pieces = lost.map(|(at, data, _)| (at, data)).collect();
        if pieces.is_empty() {
            return Ok(());
        }
    }
    Err(Error::Restarts)
}

/// Returns the next bytes of a stream; no bytes at its end.
fn read_stream(stream: &mut File) -> io::Result<Bytes> {
    let mut data = vec![0; STREAM_PIECE_BYTES];
    let mut have = 0;
    while have < data.len() {
        match stream.read(&mut data[have..]) {
            Ok(0) => break,
            Ok(count) => have += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    data.truncate(have);
    Ok(data.into())
}
