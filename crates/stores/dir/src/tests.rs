//! The store over temporary directories.

mod basics;
mod conformance;
mod harness;
mod syncs;
