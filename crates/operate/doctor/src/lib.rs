//! Faults of this machine that impair a server or a mount.
//!
//! [`Facts::gather`] reads the state of the machine; [`findings()`] is a pure function of the facts.
//! [`below`] and [`mountinfo`] find the file systems of served directories for other commands too.

pub mod below;
mod facts;
mod findings;
mod firewall;
pub mod mountinfo;

pub use facts::{Directory, Facts, Planned, Telling, opened_to_look};
pub use findings::{Finding, REPLACED, Verdict, findings};
