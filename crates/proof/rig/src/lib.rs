//! What tests of clients need: servers over memory, poor ones too, a bad cable to them, and
//! programs that know each byte they wrote.

mod cable;
mod load;
mod manners;
mod server;

pub use cable::{Cable, Counters, Cut, Faults};
pub use load::{Files, Ledger, Load};
pub use manners::Manners;
pub use server::{EPOCH_KEY, EXPORT, MemServer};
