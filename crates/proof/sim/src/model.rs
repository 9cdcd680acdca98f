//! The sequential behaviour of folders and blocks.

pub(crate) mod block;
pub(crate) mod folder;
