//! The only home of sockets, threads, clocks and signals: event loops around a pure service.
//!
//! One loop per core, non-blocking. Batching decides the speed, not the runtime: a loop receives
//! once, answers every whole call of what came, and sends once. Criteria in order of weight: no
//! client can stop or starve another; memory is bounded by limits of ours and not by what a client
//! sends; file data is not copied; few system calls per call.
//!
//! What must wait is a future that is parked in its loop and costs no thread; what blocks runs on
//! a small pool. See `docs/design/0002-runtime.md`.

mod bench;
pub mod binding;
mod buffers;
mod caller;
mod census;
pub mod client;
pub mod clock;
mod connection;
pub mod control;
mod counters;
mod datagrams;
mod departures;
mod event_loop;
pub mod given;
mod handler;
pub mod http;
mod leases;
pub mod limits;
pub mod log;
mod meter;
mod notebook;
mod outbox;
pub mod own;
mod ownership;
mod peer;
mod periodic;
mod pool;
pub mod private;
pub mod process;
mod rate;
pub mod records;
mod remote;
mod report;
mod rpcbind;
mod server;
mod slab;
mod sockets;
mod spin;
pub mod state;
mod sys;
pub mod systemd;
mod tasks;
mod threshold;
pub mod users;
mod verifier;

pub use counters::Counters;
pub use handler::Handler;
pub use leases::LeaseLedger;
pub use notebook::{Changes, Notebook};
pub use ownership::{GivenLock, Ownership, lock};
pub use peer::{Policy, reserved_ports_end};
pub use periodic::Periodic;
pub use pool::Pool;
pub use rate::Rate;
pub use report::{LoopReport, Report, Reporter};
pub use rpcbind::{RegisterError, Registration};
pub use server::{BindError, Options, Running, Server, usual_loops};
pub use verifier::{leave_verifier, take_verifier};
