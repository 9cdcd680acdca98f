//! Tests of the striped store, with names and iods in memory.

mod conformance;
mod copies;
mod direct;
mod file_iod;
mod flow_controlled_iod;
mod full;
mod health;
mod held;
mod layout_policies;
mod names;
mod outage;
mod removals;
mod retrying_iod;
mod search;
mod together;
mod verified_iod;
mod volume;
