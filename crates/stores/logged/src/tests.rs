//! Tests of crashes, and of damage and failures of the log and the file system.

mod conformance;
mod device;
mod failures;
mod forgetful;
mod power_cuts;
