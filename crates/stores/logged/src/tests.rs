//! Crashes, damages and failures of log and file system.

mod conformance;
mod device;
mod forgetful;
mod power_cuts;
