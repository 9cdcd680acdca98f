//! Reading, writing and making safe.

use bytes::{Bytes, BytesMut};
use leasehold_fuse::{Errno, Reply};
use leasehold_session::{Credential, Error};
use leasehold_wire::nfs3::write::Stability;

use crate::convert;
use crate::files::{Files, failed};
use crate::nodes::Node;
use crate::open::Open;
use crate::unstable::Piece;

/// How much of a file is written and not committed at most: what is kept for a restart of the
/// server.
const UNSTABLE_BYTES_MAX: usize = 16 * 1024 * 1024;

impl Files {
    /// Reads as much as is asked for, or to the end of the file.
    pub(crate) async fn read(&self, open: &Open, offset: u64, size: u32) -> Result<Reply, Errno> {
        let mut parts = BytesMut::new();
        let mut left = size;
        loop {
            let at = offset + u64::from(size - left);
            let count = left.min(self.bounds.read_bytes);
            let reply = self.nfs.read(&open.who, &open.node.handle, at, count).await;
            let done = reply.map_err(failed)?.done().map_err(convert::of_status)?;
            left = left.saturating_sub(done.count);
            let ends = done.end || done.data.is_empty() || left == 0;
            if ends && parts.is_empty() {
                return Ok(Reply::Data(done.data));
            }
            parts.extend_from_slice(&done.data);
            if ends {
                return Ok(Reply::Data(parts.freeze()));
            }
        }
    }

    /// Writes. What comes from the kernel's page cache is in no other place: its error is kept for
    /// whoever asks by fsync or close.
    pub(crate) async fn write(
        &self,
        open: &Open,
        offset: u64,
        data: Bytes,
        cached: bool,
    ) -> Result<Reply, Errno> {
        let node = &open.node;
        let _order = node.unstable.order.lock().await;
        let whole = u32::try_from(data.len()).map_err(|_| Errno::INVAL)?;
        let written = match self.put(open, offset, data).await {
            Ok(count) => count,
            Err(errno) if cached => {
                node.unstable.fail(errno);
                whole
            }
            Err(errno) => return Err(errno),
        };
        if node.unstable.bytes() >= UNSTABLE_BYTES_MAX
            && let Err(errno) = self.commit(node, &open.who).await
        {
            node.unstable.fail(errno);
        }
        Ok(Reply::Written(written))
    }

    /// Writes all of it, in as many pieces as the server likes; less only where it fails then.
    async fn put(&self, open: &Open, offset: u64, mut data: Bytes) -> Result<u32, Errno> {
        let mut written = 0;
        while !data.is_empty() {
            let length = data.len().min(self.bounds.write_bytes as usize);
            let at = offset + u64::from(written);
            let piece = data.slice(..length);
            match self.put_piece(&open.node, &open.who, at, piece, Stability::Unstable).await {
                Ok((count, stable, verifier)) => {
                    let taken = data.split_to(count as usize);
                    if !stable {
                        open.node.unstable.keep(at, taken, verifier);
                    }
                    written += count;
                }
                Err(_) if written > 0 => break,
                Err(error) => return Err(convert::errno(&error)),
            }
        }
        Ok(written)
    }

    /// Has the server take a piece or a part of it: how much, whether it is safe, and under which
    /// verifier.
    async fn put_piece(
        &self,
        node: &Node,
        who: &Credential,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<(u32, bool, [u8; 8]), Error> {
        let reply = self.nfs.write(who, &node.handle, offset, (data, stability)).await?;
        let done = reply.done()?;
        self.saw(node, &done.file);
        if done.count == 0 {
            // It would be asked for ever.
            return Err(Error::Failed(leasehold_wire::nfs3::Status::Io));
        }
        Ok((done.count, done.stability != Stability::Unstable, done.verifier))
    }

    /// Makes safe what was written, and tells an error that waits.
    pub(crate) async fn flush(&self, open: &Open) -> Result<Reply, Errno> {
        let settled = self.settle(&open.node, &open.who).await;
        match open.node.unstable.take_error() {
            Some(errno) => Err(errno),
            None => settled.map(|()| Reply::Done),
        }
    }

    /// Makes safe what was written.
    pub(crate) async fn settle(&self, node: &Node, who: &Credential) -> Result<(), Errno> {
        let _order = node.unstable.order.lock().await;
        self.commit(node, who).await
    }

    /// Makes safe what was written; the caller holds the order.
    async fn commit(&self, node: &Node, who: &Credential) -> Result<(), Errno> {
        loop {
            let pieces = node.unstable.pieces();
            if pieces.is_empty() {
                return Ok(());
            }
            let verifier = match self.nfs.commit(who, &node.handle, 0, 0).await {
                Ok(reply) => match reply.done() {
                    Ok(done) => {
                        self.saw(node, &done.file);
                        done.verifier
                    }
                    Err(status) => {
                        // Whether any of it is safe cannot be known; it is not said to be.
                        pieces.iter().for_each(|piece| node.unstable.done(piece.number));
                        return Err(convert::of_status(status));
                    }
                },
                Err(error) => return Err(convert::errno(&error)),
            };
            for piece in pieces {
                if piece.verifier == verifier {
                    node.unstable.done(piece.number);
                } else {
                    self.put_again(node, who, &piece).await?;
                }
            }
        }
    }

    /// Writes again what a restart of the server may have lost, safely this time.
    async fn put_again(&self, node: &Node, who: &Credential, piece: &Piece) -> Result<(), Errno> {
        let mut data = piece.data.clone();
        let mut offset = piece.offset;
        while !data.is_empty() {
            let length = data.len().min(self.bounds.write_bytes as usize);
            let part = data.slice(..length);
            match self.put_piece(node, who, offset, part, Stability::FileSync).await {
                Ok((count, _, _)) => {
                    data = data.split_off(count as usize);
                    offset += u64::from(count);
                }
                Err(error) => {
                    if let Error::Failed(_) = error {
                        node.unstable.done(piece.number);
                    }
                    return Err(convert::errno(&error));
                }
            }
        }
        node.unstable.done(piece.number);
        Ok(())
    }

    /// Closes; what stood for a file that was removed while open goes with the last opening.
    pub(crate) async fn release(&self, handle: u64) -> Result<Reply, Errno> {
        let Some((open, last)) = self.openings.remove(handle) else { return Ok(Reply::Done) };
        if !last {
            return Ok(Reply::Done);
        }
        let hidden = open.node.state().hidden.take();
        if let Some(place) = hidden {
            return self.unhide(&open, &place).await;
        }
        if let Err(errno) = self.settle(&open.node, &open.who).await {
            tracing::error!(%errno, "what was written last to a closed file may be lost");
        }
        Ok(Reply::Done)
    }
}
