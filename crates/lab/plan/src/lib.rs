//! Functions on models as pure code that the command line and the page share.
//!
//! | file | question |
//! | --- | --- |
//! | `template` | a system from a few numbers: clients, cores, daemons, block size, lease term |
//! | `knob` | the same model with one number turned |
//! | `slo` | a bound on a response time, and times in words |
//! | `effective` | caches, leases and forks folded into a network that the solvers cover |
//! | `spread` | percentiles of a response from mean times at centres |
//! | `view` | everything about one model at once: curve, bounds, knee, bars, slopes, verdict |
//! | `verdict` | the largest load that holds, and it all in one sentence |
//!
//! This crate has no clock, thread or file: a caller that simulates passes the function that
//! advances replications.

pub mod effective;
pub mod knob;
pub mod slo;
pub mod spread;
pub mod template;
pub mod verdict;
pub mod view;
