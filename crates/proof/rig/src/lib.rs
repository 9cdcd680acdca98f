//! Tools for tests of clients: servers over memory, including servers with minimal features, a
//! faulty link (cable) to them, and programs that record each byte they write.

mod cable;
mod load;
mod manners;
mod server;

pub use cable::{Cable, Counters, Cut, Faults};
pub use load::{Files, Ledger, Load};
pub use manners::Manners;
pub use server::{EPOCH_KEY, EXPORT, MemServer};
