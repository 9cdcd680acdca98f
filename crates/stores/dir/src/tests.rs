//! Tests of the store over temporary directories.

mod basics;
mod borders;
mod change_detector;
mod conformance;
mod crossing;
mod data;
mod guards;
mod handles;
mod harness;
mod held;
mod mounts;
mod script;
mod sync_table;
mod syncs;
