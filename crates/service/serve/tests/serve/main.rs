//! The server at its external interface: bytes in, bytes out.

mod access;
mod cookies;
mod epochs;
mod iods;
mod leases;
mod mount;
mod notes;
mod recovery;
mod refusals;
mod rpc;
mod statuses;
mod support;
mod version2;
mod version3;
mod version4;
