//! The client's side of the shell: sockets, a thread and a clock for sessions.
//!
//! A [`Runtime`] is one thread that receives for any number of sessions, opens their connections
//! and keeps their timers. The thread that first polls a call sends it directly, without the
//! runtime's thread; the reply wakes the waiting task. [`mount`] finds a server and mounts one of
//! its exports. A server that calls other servers lets its own loops receive the replies
//! ([`Runtime::beside_loops`]).

mod find;
mod hub;
mod link;
mod links;
mod sockets;

pub use find::{Mounted, NotFound, Target, mount};
pub use futures_executor::block_on;
pub use hub::Runtime;
pub(crate) use hub::Seat;
pub(crate) use link::PutOff;
pub use sockets::SourcePort;
