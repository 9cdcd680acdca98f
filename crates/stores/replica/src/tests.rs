//! Metaservers in one process. Calls take no time, and the tests set the clock.

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
