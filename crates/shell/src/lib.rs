//! The runtime: sockets, threads, clocks and signals around a pure service. Only the crates of this
//! folder use sockets, threads, clocks and signals.
//!
//! There is one non-blocking event loop for each core. The speed results from batching: a loop
//! receives once, answers every complete call in the received data, and sends once. Criteria in
//! order of weight: no client can stop or starve another client; memory is bounded by fixed limits
//! and not by the clients' requests; file data is not copied; there are few system calls for each
//! RPC call.
//!
//! A waiting call is a future that its loop stores (a parked call), and occupies no thread.
//! Blocking work runs on a small pool of threads. See `docs/design/0002-runtime.md`.

pub mod binding;
mod buffers;
mod busy_poll;
mod caller;
pub mod client;
mod client_records;
pub mod clock;
mod connection;
mod connection_counts;
pub mod control;
mod counters;
mod datagrams;
mod event_loop;
mod handler;
pub mod http;
pub mod inherited_sockets;
mod leases;
pub mod limits;
pub mod log;
mod loop_context;
mod metering;
mod outbox;
pub mod own;
mod ownership;
mod peer;
mod periodic;
mod pool;
pub mod private;
pub mod process;
mod rate;
mod rcvlowat;
pub mod records;
mod remote;
mod reply_journal;
mod report;
mod rpcbind;
mod send_scheduler;
mod server;
mod slab;
mod sockets;
pub mod state;
mod sys;
pub mod systemd;
mod tasks;
pub mod users;
mod verifier;

pub use client_records::StableClients;
pub use counters::Counters;
pub use handler::Handler;
pub use leases::LeaseLedger;
pub use ownership::{GivenLock, Ownership, lock};
pub use peer::{Policy, reserved_ports_end};
pub use periodic::Periodic;
pub use pool::Pool;
pub use rate::Rate;
pub use reply_journal::{Changes, ReplyJournal};
pub use report::{LoopReport, Report, Reporter};
pub use rpcbind::{RegisterError, Registration};
pub use server::{BindError, Options, Running, Server, usual_loops};
pub use verifier::{leave_verifier, take_verifier};
