//! The store over stores in memory.

mod conformance;
mod copies;
mod direct;
mod folder;
mod full;
mod health;
mod judged;
mod names;
mod outage;
mod paced;
mod patient;
mod removals;
mod search;
mod shapes;
mod together;
mod volume;
