//! The environment of system tests: the built server, real clients, and an independent decoder.
//!
//! System tests use real time, real sockets and real kernels; a test waits for a state with a bound
//! and never for a fixed time. A test fails with a message if the machine lacks a prerequisite.

mod capture;
mod cluster;
pub mod crash;
mod disk;
mod ground;
mod guest;
pub mod history;
pub mod kernel_server;
mod link;
mod machine;
pub mod mounted;
mod network;
mod nfs;
pub mod posix;
mod rig;
mod scratch;
mod server;
pub mod sharing;
pub mod soak;
mod tool;

pub use capture::Capture;
pub use cluster::{Cluster, Group};
pub use disk::FileSystem;
pub use ground::{Attempt, Ground};
pub use guest::{Ended, Guest, Mount, Version};
pub use link::Link;
pub use machine::{IODS, Machine, Site};
pub use network::{add_address, on_own_network};
pub use nfs::{Breaker, Client, Encoded, Lost};
pub use rig::Rig;
pub use scratch::Scratch;
pub use server::{Server, built, built_examples, built_rig, copy_built};
pub use tool::{output, program, tools_folder};
