//! Attacks on servers and clients, as a stranger on the network or an ordinary user would try them.
//!
//! Each test states the behaviour that holds under its attack; SECURITY.md lists the attacks. A
//! module has the attacks on one target. Every attack is bounded, so that the whole suite runs in
//! four minutes on a slow machine.

mod cluster;
mod control;
mod http;
mod malicious;
mod mount_program;
mod nfs;
mod wire;
