//! Tests of the caching client against real servers over memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

#[path = "../client/support.rs"]
mod support;

mod datagrams;
mod leases;
mod load;
mod names;
mod nodes;
mod paths;
mod times;
