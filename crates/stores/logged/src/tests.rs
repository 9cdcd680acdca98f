//! Crashes, damages and failures of log and file system.

mod conformance;
mod device;
