//! The client's side of the shell against real servers over memory, and over bad cables.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cables;
mod files;
mod support;
