//! The state machines: protocol logic that does no I/O.
//!
//! Each is driven by `step(now, event, &mut effects)`: what happened goes in, what is to be done
//! comes out, and `next_wake()` says when time alone will be an event. None reads a clock, holds
//! a lock or calls back, so the same code runs under the shell and under a seeded simulator.
//! `check()` audits a whole state and panics where it contradicts itself.

pub mod cache;
pub mod calls;
pub mod flow;
pub mod leases;
pub mod replica;
pub mod replies;
pub mod stripes;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests read their dialogues from files")]
mod dialogue;
