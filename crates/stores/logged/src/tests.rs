//! Crashes, damages and failures of log and file system.

mod conformance;
mod device;
mod failures;
mod forgetful;
mod power_cuts;
