//! What folders and blocks do when one operation comes after another.

pub(crate) mod block;
pub(crate) mod folder;
