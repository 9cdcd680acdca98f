//! Discrete-event simulation of the laboratory's models.
//!
//! An [`Engine`] runs one replication of a model: general service times, priorities, finite
//! queues, timeouts and retransmission, bursts, forks over stripes, caches with leases, crashes
//! and traces. A [`Study`] runs several, removes the warm-up and gives confidence intervals. There
//! is no clock, no thread and no I/O here: a caller with threads hands them in, WebAssembly goes
//! without. One seed gives the same bits on every machine, and each use of chance has a stream of
//! its own, named after class and centre, so that two variants of a model meet the same luck.

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
