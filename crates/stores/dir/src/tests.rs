//! The store over temporary directories.

mod basics;
mod harness;
