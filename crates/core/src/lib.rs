//! The state machines: protocol logic that does no I/O.
//!
//! The owner of a state machine calls `step(now, event, &mut effects)` for each event, and then
//! performs the actions in `effects`. `next_wake()` returns the next time at which the passing of
//! time alone requires a step. No state machine reads a clock, holds a lock or calls its owner, so
//! the same code runs in the server and in a seeded simulator. `check()` audits the whole state and
//! panics if it is inconsistent.

pub mod cache;
pub mod calls;
pub mod changes;
pub mod drc;
pub mod flow;
pub mod leases;
pub mod locks;
pub mod opens;
pub mod owners;
pub mod replica;
pub mod sessions;
pub mod stripes;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests read their dialogues from files")]
mod dialogue;
