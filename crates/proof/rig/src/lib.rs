//! What tests of clients need: servers over memory, poor ones too, and a bad cable to them.

mod cable;
mod manners;
mod server;

pub use cable::{Cable, Counters, Cut, Faults};
pub use manners::Manners;
pub use server::{EXPORT, MemServer};
