//! One file's data, from one place to another, with several requests on their way.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use leasehold_session as session;
use leasehold_wire::nfs3::Status;
use leasehold_wire::nfs3::write::Stability;

use super::progress::Progress;
use super::server::Remote;

/// How often data is written again because its server was started anew, before that is a failure.
const ROUNDS_MAX: u32 = 16;

/// How often a server may take nothing of a WRITE, or give nothing before the end of a file.
const IDLE_MAX: u32 = 3;

/// The smallest piece: where a server takes less at once, one piece is several calls.
const PIECE_BYTES_MIN: u32 = 64 << 10;

/// Why a file was not copied.
#[derive(Debug)]
pub(super) enum Error {
    /// On a server.
    There(session::Error),
    /// Here.
    Here(io::Error),
    /// A server says that it did something and does nothing.
    Idle,
    /// A server is started anew again and again.
    Restarts,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::There(error) => error.fmt(f),
            Self::Here(error) => error.fmt(f),
            Self::Idle => f.write_str("the server transfers nothing, again and again"),
            Self::Restarts => f.write_str("the server forgets what was written, again and again"),
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

/// A file to be read.
pub(super) enum Source {
    Local(File),
    Remote(Remote),
}

/// A file to be written, which is empty.
pub(super) enum Sink {
    Local(File),
    Remote(Remote),
}

/// A piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    at: u64,
    length: u32,
}

/// A file that is read piece by piece.
pub(super) struct Reading {
    source: Source,
    size: u64,
    piece_bytes: u32,
    in_flight: usize,
}

impl Reading {
    pub(super) fn new(source: Source, in_flight: usize) -> Self {
        let (size, bytes) = match &source {
            Source::Local(file) => (file.metadata().map_or(0, |it| it.len()), 1 << 20),
            Source::Remote(it) => (it.attributes.size, it.mounted.bounds.read_bytes),
        };
        Self { source, size, piece_bytes: bytes.max(PIECE_BYTES_MIN), in_flight }
    }

    pub(super) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// All pieces, as the file was when it was found.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Piece> + use<> {
        let (size, bytes) = (self.size, self.piece_bytes);
        (0..size.div_ceil(bytes.into())).map(move |number| {
            let at = number * u64::from(bytes);
            Piece { at, length: u32::try_from(size - at).unwrap_or(bytes).min(bytes) }
        })
    }

    /// The piece that begins there.
    pub(super) const fn piece_at(&self, at: u64) -> Piece {
        Piece { at, length: self.piece_bytes }
    }

    /// The data of a piece: all of it, or what there is to the end of the file.
    pub(super) async fn read(&self, piece: Piece) -> Result<Read, Error> {
        match &self.source {
            Source::Local(file) => Ok(read_local(file, piece)?),
            Source::Remote(remote) => read_remote(remote, piece).await,
        }
    }
}

/// What was read.
pub(super) struct Read {
    pub(super) at: u64,
    pub(super) data: Bytes,
    /// Whether it is known to reach to the end of the file.
    pub(super) is_last: bool,
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
            // The usual case: what came is what was asked for, and nothing is copied.
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

/// What became of a piece that was written.
enum Written {
    /// It is safe.
    Safe,
    /// It is safe when a COMMIT gives this verifier.
    If([u8; 8]),
    /// The server was started anew in its midst.
    InParts,
}

/// A piece that was copied.
struct Moved {
    piece: Piece,
    /// Where its data ends.
    end: u64,
    is_last: bool,
    written: Written,
}

/// Copies all data, and has it on stable storage where it goes to a server.
pub(super) async fn copy(reading: &Reading, sink: &Sink, progress: &Progress) -> Result<(), Error> {
    let mut pieces: Vec<Piece> = reading.pieces().collect();
    for round in 0..ROUNDS_MAX {
        let mut moved = Vec::new();
        let moves = stream::iter(pieces).map(|piece| move_piece(reading, sink, piece));
        let mut moves = moves.buffer_unordered(reading.in_flight);
        while let Some(one) = moves.next().await {
            let one = one?;
            progress.add_bytes(one.end - one.piece.at, round > 0);
            moved.push(one);
        }
        drop(moves);
        if round == 0 {
            follow_the_end(reading, sink, progress, &mut moved).await?;
        }
        pieces = match sink {
            Sink::Local(_) => return Ok(()),
            Sink::Remote(remote) => lost(remote, moved).await?,
        };
        if pieces.is_empty() {
            return Ok(());
        }
    }
    Err(Error::Restarts)
}

/// Copies what was added since the file was found, or all where it does not say its size.
async fn follow_the_end(
    reading: &Reading,
    sink: &Sink,
    progress: &Progress,
    moved: &mut Vec<Moved>,
) -> Result<(), Error> {
    let mut end = reading.size;
    while !moved.iter().any(|one| one.is_last) {
        let one = move_piece(reading, sink, reading.piece_at(end)).await?;
        progress.add_bytes(one.end - end, false);
        end = one.end;
        moved.push(one);
    }
    Ok(())
}

/// Has a server put what was written on stable storage; the pieces that it does not have any more.
async fn lost(remote: &Remote, mut moved: Vec<Moved>) -> Result<Vec<Piece>, Error> {
    moved.retain(|one| !matches!(one.written, Written::Safe));
    if moved.is_empty() {
        return Ok(Vec::new());
    }
    let commit = remote.nfs().commit(&remote.who, &remote.handle, 0, 0).await?.done()?;
    moved.retain(|one| !matches!(one.written, Written::If(it) if it == commit.verifier));
    Ok(moved.into_iter().map(|one| one.piece).collect())
}

async fn move_piece(reading: &Reading, sink: &Sink, piece: Piece) -> Result<Moved, Error> {
    let Read { at, data, is_last } = reading.read(piece).await?;
    let end = at + data.len() as u64;
    // What a file that does not say its size ends with.
    let is_last = is_last || data.is_empty();
    let written = match sink {
        Sink::Local(file) => {
            file.write_all_at(&data, at)?;
            Written::Safe
        }
        Sink::Remote(remote) => write_remote(remote, at, data).await?,
    };
    Ok(Moved { piece, end, is_last, written })
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
            written = match written {
                Written::Safe => Written::If(done.verifier),
                Written::If(before) if before == done.verifier => Written::If(before),
                Written::If(_) | Written::InParts => Written::InParts,
            };
        }
        at += u64::from(done.count);
        data = data.slice(done.count as usize..);
    }
    Ok(written)
}
