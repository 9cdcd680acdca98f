//! The targets of the fuzzers: every decoder ([`bytes`]), sequences of calls to the whole server
//! over a store in memory ([`calls`]), the portmapper ([`portmap`]) and a metaserver's peers
//! ([`replica`]).
//!
//! The bodies of the targets are here, separate from the fuzzer, so that ordinary tests run them
//! too: with starters, with inputs that once failed (`fuzz/seeds`) and with random ones.

pub mod bytes;
pub mod calls;
pub mod portmap;
pub mod replica;

/// A target: a function that a fuzzer runs on its inputs.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of the target, of its program, and of the folders of its inputs.
    pub name: &'static str,
    /// Runs the target on one input; panics if the input reveals a fault.
    pub run: fn(&[u8]),
    /// The initial inputs of a fuzzer.
    pub starters: fn() -> Vec<Vec<u8>>,
}

/// Every target.
pub const TARGETS: [Target; 4] = [
    Target { name: "bytes", run: bytes::run, starters: bytes::starters },
    Target { name: "calls", run: calls::run, starters: calls::starters },
    Target { name: "portmap", run: portmap::run, starters: portmap::starters },
    Target { name: "replica", run: replica::run, starters: replica::starters },
];
