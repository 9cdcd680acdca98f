//! The store over stores in memory.

mod conformance;
mod copies;
mod paced;
mod together;
mod volume;
