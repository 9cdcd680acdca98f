//! The operations of a worker, encoded as calls and replies of version 3.

use std::ops::Range;

use bytes::Bytes;
use leasehold_base::xdr::Decode;
use leasehold_wire::nfs3::write::Stability;
use leasehold_wire::nfs3::{
    Attributes, Handle, Made, Path, Reply, SetAttributes, Status, Wcc, commit, create, getattr,
    link, mkdir, mknod, remove, rename, rmdir, setattr, symlink, write,
};

use super::content::{BLOCK_BYTES, Verifier};
use super::tree::Tree;
use crate::nfs::{Encoded, decoded};

/// An object, by its number at the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) u32);

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    pub(crate) directory: Key,
    pub(crate) name: String,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Create { spot: Spot, how: create::How },
    Mkdir { spot: Spot, attributes: SetAttributes },
    Symlink { spot: Spot, target: String },
    Fifo { spot: Spot },
    Remove { spot: Spot },
    Rmdir { spot: Spot },
    Rename { from: Spot, to: Spot },
    Link { object: Key, spot: Spot },
    Setattr { object: Key, changes: SetAttributes },
    Write { file: Key, blocks: Range<usize>, stamp: u64, stability: Stability },
    Commit { file: Key, blocks: Range<usize> },
    Getattr { object: Key },
}

/// The contents of a successful reply.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// The new object.
    pub(crate) object: Option<Handle>,
    /// Attributes of the new, changed, or requested object.
    pub(crate) attributes: Option<Attributes>,
    /// Attributes of the directory with the changed names; for RENAME the directory of the old
    /// name.
    pub(crate) directory: Option<Attributes>,
    /// Attributes of the directory of the new name.
    pub(crate) target: Option<Attributes>,
    /// The verifier of WRITE and COMMIT.
    pub(crate) verifier: Option<Verifier>,
    /// The number of blocks that a WRITE wrote, from the first.
    pub(crate) written: Option<usize>,
}

impl Op {
    /// Returns the names that the operation changes.
    pub(crate) fn spots(&self) -> Vec<&Spot> {
        match self {
            Self::Create { spot, .. }
            | Self::Mkdir { spot, .. }
            | Self::Symlink { spot, .. }
            | Self::Fifo { spot }
            | Self::Remove { spot }
            | Self::Rmdir { spot }
            | Self::Link { spot, .. } => vec![spot],
            Self::Rename { from, to } => vec![from, to],
            Self::Setattr { .. }
            | Self::Write { .. }
            | Self::Commit { .. }
            | Self::Getattr { .. } => Vec::new(),
        }
    }

    /// Returns the status of a second call if the first one succeeded and its reply was lost;
    /// `None` if the operation is idempotent.
    pub(crate) const fn if_done_already(&self) -> Option<Status> {
        match self {
            Self::Create { how: create::How::Guarded(_), .. }
            | Self::Mkdir { .. }
            | Self::Symlink { .. }
            | Self::Fifo { .. }
            | Self::Link { .. } => Some(Status::AlreadyExists),
            Self::Remove { .. } | Self::Rmdir { .. } | Self::Rename { .. } => {
                Some(Status::NotFound)
            }
            Self::Create { .. }
            | Self::Setattr { .. }
            | Self::Write { .. }
            | Self::Commit { .. }
            | Self::Getattr { .. } => None,
        }
    }

    /// Returns true if a retry may find its own effect: a metaserver creates a file before it
    /// requests the size of the file from I/O daemons, and may then return a retry-later status.
    pub(crate) const fn may_find_itself(&self) -> bool {
        matches!(
            self,
            Self::Create { how: create::How::Guarded(SetAttributes { size: Some(_), .. }), .. }
        )
    }

    /// Splits the operation into the done and the remaining part: for a WRITE while an I/O daemon
    /// is down.
    pub(crate) fn parts(&self, done: &Done) -> (Option<Self>, Option<Self>) {
        let Self::Write { file, blocks, stamp, stability } = self else {
            return (Some(self.clone()), None);
        };
        let part = |blocks: Range<usize>| {
            let (file, stamp, stability) = (*file, *stamp, *stability);
            (!blocks.is_empty()).then_some(Self::Write { file, blocks, stamp, stability })
        };
        let end = blocks.start + done.written.unwrap_or(blocks.len());
        (part(blocks.start..end), part(end..blocks.end))
    }

    /// Returns the procedure's number, and the encoded arguments.
    pub(crate) fn call(&self, tree: &Tree) -> (u32, Encoded) {
        match self {
            Self::Create { spot, how } => {
                let args = create::Args { place: tree.place(spot), how: *how };
                (create::NUMBER, Encoded::of(&args))
            }
            Self::Mkdir { spot, attributes } => {
                let args = mkdir::Args { place: tree.place(spot), attributes: *attributes };
                (mkdir::NUMBER, Encoded::of(&args))
            }
            Self::Symlink { spot, target } => {
                let (place, target) = (tree.place(spot), Path(target.as_bytes()));
                let args = symlink::Args { place, attributes: SetAttributes::default(), target };
                (symlink::NUMBER, Encoded::of(&args))
            }
            Self::Fifo { spot } => {
                let node = mknod::Node::Fifo(SetAttributes::default());
                (mknod::NUMBER, Encoded::of(&mknod::Args { place: tree.place(spot), node }))
            }
            Self::Remove { spot } => (remove::NUMBER, Encoded::of(&tree.place(spot))),
            Self::Rmdir { spot } => (rmdir::NUMBER, Encoded::of(&tree.place(spot))),
            Self::Rename { from, to } => {
                let args = rename::Args { from: tree.place(from), to: tree.place(to) };
                (rename::NUMBER, Encoded::of(&args))
            }
            Self::Link { object, spot } => {
                let args = link::Args { file: tree.handle(*object), link: tree.place(spot) };
                (link::NUMBER, Encoded::of(&args))
            }
            Self::Setattr { object, changes } => {
                let (object, attributes) = (tree.handle(*object), *changes);
                let args = setattr::Args { object, attributes, guard: None };
                (setattr::NUMBER, Encoded::of(&args))
            }
            Self::Write { file, blocks, stamp, stability } => {
                let content = tree.content(*file);
                let data = Bytes::from(content.bytes(blocks.clone(), *stamp));
                let (offset, count) = content.place(blocks);
                let (file, stability) = (tree.handle(*file), *stability);
                let args = write::Args { file, offset, count, stability, data };
                (write::NUMBER, Encoded::of(&args))
            }
            Self::Commit { file, blocks } => {
                let (offset, count) = tree.content(*file).place(blocks);
                let args = commit::Args { file: tree.handle(*file), offset, count };
                (commit::NUMBER, Encoded::of(&args))
            }
            Self::Getattr { object } => {
                let args = getattr::Args { object: tree.handle(*object) };
                (getattr::NUMBER, Encoded::of(&args))
            }
        }
    }

    /// Decodes results.
    ///
    /// # Panics
    /// Panics if they are not results of the operation.
    pub(crate) fn outcome(&self, results: &Bytes) -> Result<Done, Status> {
        match self {
            Self::Create { .. } | Self::Mkdir { .. } | Self::Symlink { .. } | Self::Fifo { .. } => {
                read::<Made, Wcc>(results).map(|made| Done {
                    object: made.object,
                    attributes: made.attributes,
                    directory: made.directory.after,
                    ..Done::default()
                })
            }
            Self::Remove { .. } | Self::Rmdir { .. } => read::<Wcc, Wcc>(results)
                .map(|wcc| Done { directory: wcc.after, ..Done::default() }),
            Self::Rename { .. } => read::<rename::Done, rename::Done>(results).map(|done| Done {
                directory: done.from.after,
                target: done.to.after,
                ..Done::default()
            }),
            Self::Link { .. } => read::<link::Done, link::Done>(results).map(|done| Done {
                attributes: done.attributes,
                directory: done.directory.after,
                ..Done::default()
            }),
            Self::Setattr { .. } => read::<Wcc, Wcc>(results)
                .map(|wcc| Done { attributes: wcc.after, ..Done::default() }),
            Self::Write { blocks, stability, .. } => {
                read::<write::Done, Wcc>(results).map(|done| {
                    let count = done.count as usize;
                    assert_eq!(count % BLOCK_BYTES, 0, "stripes end where blocks do");
                    assert!(count <= blocks.len() * BLOCK_BYTES, "not more than was asked for");
                    assert!(done.stability >= *stability, "not less stable than was asked for");
                    let (attributes, verifier) = (done.file.after, Some(done.verifier));
                    let written = Some(count / BLOCK_BYTES);
                    Done { attributes, verifier, written, ..Done::default() }
                })
            }
            Self::Commit { .. } => read::<commit::Done, Wcc>(results).map(|done| {
                let (attributes, verifier) = (done.file.after, Some(done.verifier));
                Done { attributes, verifier, ..Done::default() }
            }),
            Self::Getattr { .. } => read::<getattr::Done, ()>(results)
                .map(|done| Done { attributes: Some(done.attributes), ..Done::default() }),
        }
    }
}

fn read<'a, T: Decode<'a>, Failed: Decode<'a>>(results: &'a Bytes) -> Result<T, Status> {
    match decoded::<Reply<T, Failed>>(results) {
        Reply::Done(done) => Ok(done),
        Reply::Failed(status, _) => Err(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_partial_write_is_its_unwritten_blocks() {
        let op =
            |blocks| Op::Write { file: Key(1), blocks, stamp: 7, stability: Stability::Unstable };
        let parts = |written| op(2..6).parts(&Done { written: Some(written), ..Done::default() });
        assert_eq!(parts(4), (Some(op(2..6)), None));
        assert_eq!(parts(1), (Some(op(2..3)), Some(op(3..6))));
        assert_eq!(parts(0), (None, Some(op(2..6))));
    }
}
