//! The types that all layers share: units, limits, file attributes, seeded random numbers and the
//! XDR codec.
//!
//! This crate does no I/O and reads no clock. It checks each length from outside before it
//! allocates memory of that length.

pub mod attributes;
pub mod groups;
pub mod limits;
pub mod random;
pub mod shown;
pub mod units;
pub mod xdr;
