//! Metaservers in one process, whose calls cost no time and whose clock is told.

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
