//! Discrete-event simulation of the laboratory's models.
//!
//! An [`Engine`] runs one replication of a model: general service times, priorities, finite queues,
//! timeouts and retransmission, bursts, forks over stripes, caches with leases, crashes and traces.
//! A [`Study`] runs several replications, removes the warm-up and gives confidence intervals. This
//! crate has no clock, thread or I/O: a caller with threads passes a function that uses them, and
//! WebAssembly runs without. One seed gives the same bits on every machine. Each use of randomness
//! has its own stream, named after class and centre, so that two variants of a model use common
//! random numbers.

mod calendar;
mod ending;
mod engine;
mod filling;
mod histogram;
mod interval;
mod law;
mod lru;
mod metric;
mod program;
mod study;
mod tally;
mod zipf;

pub use ending::{Shortfall, StudyError};
pub use engine::{Engine, Runaway};
pub use interval::{Interval, student_quantile};
pub use metric::{Metric, Outcome, Quantity};
pub use study::{Options, Replication, Study, in_turn};
pub use tally::Tally;
