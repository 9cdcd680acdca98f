//! The client's side of the shell: sockets, a thread and a clock for sessions.
//!
//! A [`Runtime`] is one thread that receives messages for any number of sessions, opens their
//! connections and runs their timers. The thread that first polls a call sends the call itself,
//! without the runtime's thread. The reply wakes the task that waits for the call. [`mount`] finds
//! a server and mounts an export of that server. In a server that calls other servers, the server's
//! own loops can receive the replies ([`Runtime::beside_loops`]).

mod find;
mod hub;
mod link;
mod links;
mod sockets;
mod url;

pub use find::{Mounted, NotFound, Target, mount};
pub use futures_executor::block_on;
pub use hub::Runtime;
pub(crate) use hub::Seat;
pub(crate) use link::PutOff;
pub use sockets::SourcePort;
pub use url::{Address, SCHEME};
