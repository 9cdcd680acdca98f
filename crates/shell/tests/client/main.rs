//! The client's side of the shell against a real server over a store in memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod files;
mod support;
