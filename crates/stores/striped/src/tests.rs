//! The store over stores in memory.

mod conformance;
mod together;
mod volume;
