//! The store over temporary directories.

mod basics;
mod borders;
mod conformance;
mod data;
mod harness;
mod syncs;
mod witness;
