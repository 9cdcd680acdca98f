//! Tests of the client side of the shell against real servers over memory, and over faulty links.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod cables;
mod files;
mod support;
