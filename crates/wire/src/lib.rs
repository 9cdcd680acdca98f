//! The messages: ONC RPC, and one module for each program and version.
//!
//! A module knows the layout of its messages and nothing of what they mean. Each structure's
//! declaration is its encoding; names are the RFCs', without the number that the RFC appends to
//! tell versions apart, because the module does that: `nfs3::read::Args` is `READ3args`.

#[macro_use]
mod declare;
#[macro_use]
mod mirror;
#[cfg(test)]
#[macro_use]
mod testing;

pub mod binding;
pub mod every;
pub mod lease;
pub mod list;
pub mod mount;
pub mod nfs2;
pub mod nfs3;
pub mod nqnfs;
pub mod outcome;
pub mod portmap;
pub mod record;
pub mod replica;
pub mod rpc;
