//! What fuzzers feed: every decoder ([`bytes`]), sequences of calls to the whole server over a
//! store in memory ([`calls`]), the portmapper ([`portmap`]) and a metaserver's peers ([`replica`]).
//!
//! The bodies of the targets are here, apart from the fuzzer, so that ordinary tests run them too:
//! on starters, on inputs that once failed (`fuzz/seeds`) and on random ones.

pub mod bytes;
pub mod calls;
pub mod portmap;
pub mod replica;

/// A target: what a fuzzer runs on its inputs.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name; also that of its program, and of the folders of its inputs.
    pub name: &'static str,
    /// Runs it on one input; panics when the input shows a fault.
    pub run: fn(&[u8]),
    /// Inputs that a fuzzer starts from.
    pub starters: fn() -> Vec<Vec<u8>>,
}

/// Every target.
pub const TARGETS: [Target; 4] = [
    Target { name: "bytes", run: bytes::run, starters: bytes::starters },
    Target { name: "calls", run: calls::run, starters: calls::starters },
    Target { name: "portmap", run: portmap::run, starters: portmap::starters },
    Target { name: "replica", run: replica::run, starters: replica::starters },
];
