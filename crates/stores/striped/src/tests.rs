//! The store over stores in memory.

mod conformance;
mod copies;
mod direct;
mod paced;
mod shapes;
mod together;
mod volume;
