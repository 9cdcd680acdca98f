//! The program as a user runs it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod below;
mod clients;
mod cluster;
mod config;
mod control;
mod copies;
mod descriptors;
mod direct;
mod doctor;
mod hostile;
mod iods;
mod leases;
mod lent;
mod listing;
mod log;
mod metaservers;
mod metrics;
mod names;
mod nearest;
mod older;
mod one_file;
mod one_or_several;
mod over;
mod portmap;
mod remote;
mod removals;
mod repair;
mod replaced;
mod replies;
mod restart;
mod restarts;
mod serve;
mod stable_log;
mod state;
mod stripes;
mod support;
mod transfer;
mod trial;
mod truth;
mod upgrade;
mod verifier;
