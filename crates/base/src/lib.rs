//! What every tier shares: units, limits, what files have for attributes, seeded random numbers and
//! the XDR codec.
//!
//! Nothing here does I/O, reads a clock or allocates by a length that came from outside
//! before that length was checked.

pub mod attributes;
pub mod groups;
pub mod limits;
pub mod random;
pub mod shown;
pub mod units;
pub mod xdr;
