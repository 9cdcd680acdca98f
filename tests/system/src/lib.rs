//! What tests of the whole system need: the built server, real clients, and a witness.
//!
//! Here are real time, real sockets and real kernels; a test waits for a state with a bound and
//! never for a time. What a test needs and the machine lacks fails the test and says so.

mod capture;
mod guest;
mod link;
mod scratch;
mod server;
mod tool;

pub use capture::Capture;
pub use guest::{Ended, Guest, Mount, Version};
pub use link::Link;
pub use scratch::Scratch;
pub use server::Server;
pub use tool::{output, program};
