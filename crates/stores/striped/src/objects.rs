//! Access to all objects of a file in parallel.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use leasehold_core::stripes::Piece;
use leasehold_fs::{FsError, ObjectId, Stability, Verifier};

use crate::Striped;
use crate::copies::is_told;
use crate::file::Objects;
use crate::iod::Extent;

/// The number of an iod and the verifier that it returned.
pub(crate) type Said = (u16, Verifier);

/// The maximum number of pieces of one READ or WRITE that are in progress at once.
const AT_ONCE: usize = 64;

/// The maximum number of attempts of a WRITE if an iod restarts during the WRITE.
const TRIES: u32 = 3;

impl Striped {
    /// Reads a range within the file. Bytes beyond the end of their object are zero (a hole).
    ///
    /// # Errors
    /// [`FsError::Stale`] if an object is shorter than its known size because another metaserver
    /// has removed the file.
    pub(crate) async fn gather(
        &self,
        metafile: &ObjectId,
        file: &Objects,
        offset: u64,
        length: u64,
    ) -> Result<Bytes, FsError> {
        let mut pieces = file.head.layout.pieces(offset, length);
        if let (Some(piece), None) = (pieces.next(), pieces.next()) {
            // Most READs are within one stripe unit. Return the data of such a READ without a copy.
            let (offset, count) = (piece.object_offset, length32(piece.length));
            let part = self.ask(file, piece.object, move |iod, name| iod.read(name, offset, count));
            let part = part.await?;
            self.is_hole(metafile, file, [(&piece, &part)]).await?;
            return Ok(filled(part, size(length)));
        }
        let pieces: Vec<Piece> = file.head.layout.pieces(offset, length).collect();
        let reads: Vec<_> = pieces
            .iter()
            .map(|piece| {
                let (offset, length) = (piece.object_offset, length32(piece.length));
                self.ask(file, piece.object, move |iod, name| iod.read(name, offset, length))
            })
            .collect();
        let parts: Result<Vec<Bytes>, FsError> = all(reads).await.into_iter().collect();
        let parts = parts?;
        self.is_hole(metafile, file, pieces.iter().zip(&parts)).await?;
        let mut whole = BytesMut::with_capacity(size(length));
        for (piece, part) in pieces.iter().zip(&parts) {
            fill(&mut whole, part, size(piece.length));
        }
        Ok(whole.freeze())
    }

    /// Returns an error if an object is too short because the file no longer exists, and not
    /// because of a hole.
    async fn is_hole<'p>(
        &self,
        metafile: &ObjectId,
        file: &Objects,
        parts: impl IntoIterator<Item = (&'p Piece, &'p Bytes)>,
    ) -> Result<(), FsError> {
        let lacks_some = |(piece, part): (&Piece, &Bytes)| {
            let known = file.size_of_object(piece.object).saturating_sub(piece.object_offset);
            (part.len() as u64) < known.min(piece.length)
        };
        let is_short = self.options.shared && parts.into_iter().any(lacks_some);
        if is_short && self.is_gone(metafile).await { Err(FsError::Stale) } else { Ok(()) }
    }

    /// Writes to the iods. Returns the number of bytes that are written without a gap from the
    /// start, and the verifiers of the iods. Fails if this number is zero. If a client may write
    /// the objects directly, a partial write also fails when an iod does not answer (rule 8 of the
    /// module `direct`): the iod may execute its part later, so the caller must repeat the same
    /// write before it writes newer data to the range. For the meaning of `metafile` see
    /// [`Self::change`].
    pub(crate) async fn spread(
        &self,
        metafile: Option<&ObjectId>,
        file: &Objects,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<(u32, Vec<Said>), FsError> {
        for _ in 0..TRIES {
            let (count, said) = self.spread_once(metafile, file, offset, &data, stability).await?;
            // If an iod returned two verifiers, it restarted during the write and may have lost
            // unstable pieces. So repeat the write.
            if stability > Stability::Unstable || agree(&said) {
                return Ok((count, said));
            }
        }
        Err(FsError::Io)
    }

    async fn spread_once(
        &self,
        metafile: Option<&ObjectId>,
        file: &Objects,
        offset: u64,
        data: &Bytes,
        stability: Stability,
    ) -> Result<(u32, Vec<Said>), FsError> {
        let pieces: Vec<Piece> = file.head.layout.pieces(offset, data.len() as u64).collect();
        let writes: Vec<_> = pieces
            .iter()
            .map(|piece| {
                let start = size(piece.file_offset - offset);
                let part = data.slice(start..start + size(piece.length));
                let offset = piece.object_offset;
                self.change(metafile, file, piece.object, move |iod, name| {
                    iod.write(name, offset, part.clone(), stability)
                })
            })
            .collect();
        let mut said = Vec::new();
        let (mut count, mut failed) = (0, None);
        for (piece, written) in pieces.iter().zip(all(writes).await) {
            match written {
                Ok(copies) => {
                    for (iod, written) in copies {
                        file.grown(piece.object, written.extent);
                        said.push((iod, written.verifier));
                    }
                    if failed.is_none() {
                        count += length32(piece.length);
                    }
                }
                Err(error) => {
                    file.doubt();
                    failed = failed.or(Some(error));
                }
            }
        }
        match failed {
            Some(error) if count == 0 || (file.is_given_out() && !is_told(error)) => Err(error),
            Some(_) | None => Ok((count, said)),
        }
    }

    /// Returns the extent of each object of a file.
    pub(crate) async fn extents(&self, file: &Objects) -> Result<Vec<Extent>, FsError> {
        let objects = 0..file.head.layout.width();
        let asked = objects.map(|object| self.ask(file, object, |iod, name| iod.extent(name)));
        join_all(asked).await.into_iter().collect()
    }

    /// Sets the size of the file: truncates the objects, or extends the file by a hole.
    pub(crate) async fn resize(
        &self,
        metafile: Option<&ObjectId>,
        file: &Objects,
        size: u64,
    ) -> Result<(), FsError> {
        let resized = resized(file, size);
        let resizes = resized.iter().map(|&(object, size)| {
            self.change(metafile, file, object, move |iod, name| iod.resize(name, size))
        });
        let mut result = Ok(());
        for (&(object, _), done) in resized.iter().zip(join_all(resizes).await) {
            match done {
                Ok(copies) => copies.iter().for_each(|(_, extent)| file.resized(object, *extent)),
                Err(error) => result = Err(error),
            }
        }
        result
    }

    pub(crate) async fn commit_objects(
        &self,
        metafile: Option<&ObjectId>,
        file: &Objects,
    ) -> Result<Vec<Said>, FsError> {
        let objects = 0..file.head.layout.width();
        let commits =
            objects.map(|object| self.change(metafile, file, object, |iod, name| iod.commit(name)));
        let said: Result<Vec<_>, FsError> = join_all(commits).await.into_iter().collect();
        Ok(said?.concat())
    }
}

/// Returns a part of the file, with zeros for the bytes beyond the end of the object.
fn filled(part: Bytes, wanted: usize) -> Bytes {
    if part.len() == wanted {
        return part;
    }
    let mut whole = BytesMut::with_capacity(wanted);
    fill(&mut whole, &part, wanted);
    whole.freeze()
}

fn fill(whole: &mut BytesMut, part: &[u8], wanted: usize) {
    let part = &part[..part.len().min(wanted)];
    whole.extend_from_slice(part);
    whole.resize(whole.len() + wanted - part.len(), 0);
}

/// Returns the objects whose size must change when the file gets this size. An object that ends in
/// a hole stays short, except the object with the last byte, which determines the size of the file.
/// If there are two copies, all objects are resized, because a WRITE without a reply may have left
/// one copy longer.
pub(crate) fn resized(file: &Objects, size: u64) -> Vec<(u16, u64)> {
    let layout = file.head.layout;
    let last = size.checked_sub(1).map(|last| layout.place(last));
    let sizes = (0..).zip(file.extents()).map(|(object, extent)| match last {
        Some((holder, place)) if holder == object => (object, extent.size, place + 1),
        Some(_) | None => (object, extent.size, extent.size.min(layout.object_size(object, size))),
    });
    let twice = file.head.copies > 1;
    sizes
        .filter(|(_, old, new)| old != new || twice)
        .map(|(object, _, new)| (object, new))
        .collect()
}

/// Runs futures, at most [`AT_ONCE`] at once, and returns their results in order.
async fn all<T>(mut pieces: Vec<impl Future<Output = T>>) -> Vec<T> {
    match pieces.pop() {
        // Most WRITEs are within a stripe, and one piece needs no list of pending futures.
        Some(only) if pieces.is_empty() => vec![only.await],
        last => stream::iter(pieces.into_iter().chain(last)).buffered(AT_ONCE).collect().await,
    }
}

/// Returns true if no iod returned two different verifiers.
fn agree(said: &[Said]) -> bool {
    let mut first = BTreeMap::new();
    said.iter().all(|&(iod, verifier)| *first.entry(iod).or_insert(verifier) == verifier)
}

/// Converts a length within one request.
fn size(length: u64) -> usize {
    usize::try_from(length).expect("a request has a bound")
}

fn length32(length: u64) -> u32 {
    u32::try_from(length).expect("a request has a bound")
}
