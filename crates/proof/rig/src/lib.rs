//! Tools for tests of clients: servers over memory, also minimal ones, a faulty link (cable) to
//! them, and programs that record each byte they wrote.

mod cable;
mod load;
mod manners;
mod server;

pub use cable::{Cable, Counters, Cut, Faults};
pub use load::{Files, Ledger, Load};
pub use manners::Manners;
pub use server::{EPOCH_KEY, EXPORT, MemServer};
