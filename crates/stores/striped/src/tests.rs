//! The store over stores in memory.

mod conformance;
mod copies;
mod together;
mod volume;
