//! The state machines: protocol logic that does no I/O.
//!
//! Each is driven by `step(now, event, &mut effects)`: an event goes in, actions come out, and
//! `next_wake()` returns the next time at which the passing of time alone requires a step. None
//! reads a clock, holds a lock or calls back, so the same code runs in the server and in a seeded
//! simulator. `check()` audits the whole state and panics if it is inconsistent.

pub mod cache;
pub mod calls;
pub mod drc;
pub mod flow;
pub mod leases;
pub mod replica;
pub mod stripes;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests read their dialogues from files")]
mod dialogue;
