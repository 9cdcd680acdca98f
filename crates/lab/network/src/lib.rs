//! Queueing networks: the model file and its analytic solvers.
//!
//! A [`model::Model`] is the file that a user writes (JSON, with units and the origin of each
//! number); a [`Network`] is the input of the solvers (seconds, vectors, checked). This crate has
//! no I/O, clock or randomness, and all arithmetic uses basic operations or `libm`, so that every
//! target, including WebAssembly, gives the same bits.
//!
//! | file | method |
//! | --- | --- |
//! | `mva` | exact Mean Value Analysis over the whole population lattice (Reiser, Lavenberg 1980) |
//! | `convolution` | normalising constants (Buzen 1973; Reiser, Kobayashi 1975), positive terms |
//! | `rates` | load-dependent centres, and how open customers slow them for closed ones |
//! | `exact` | open, closed and mixed networks by the methods above |
//! | `approximate` | Bard-Schweitzer (1979) and Linearizer (Chandy, Neuse 1982) |
//! | `bounds` | asymptotic (Denning, Buzen 1978) and balanced (Zahorjan et al. 1982) |
//! | `sensitivity` | exact derivatives of throughput and response time by each demand |
//! | `ethernet` | the load-dependent network of the seed (Metcalfe, Boggs 1976) |

pub mod approximate;
pub mod bounds;
mod convolution;
pub mod ethernet;
pub mod exact;
mod lattice;
pub mod model;
mod mva;
mod network;
pub mod rates;
pub mod sensitivity;
mod solution;
mod wide;

pub use convolution::idle_probability;
pub use exact::{Surface, solve, surface};
pub use network::{Centre, CentreKind, Class, ClassKind, Network};
pub use solution::{Solution, SolveError};
