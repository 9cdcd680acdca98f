//! Tests with several metaservers in one process. Calls take no time unless a test sets a delay,
//! and the tests advance the clock.

mod conformance;
mod covers;
mod data;
mod gone;
mod lan;
mod names;
mod replaced;
mod slow;
mod strict;
mod taken;
mod together;
