//! The messages: ONC RPC, and one module for each program and version.
//!
//! A module contains the layout of its messages and not their semantics. Each structure's
//! declaration is its encoding. Names are equal to the names in the RFCs without the version number
//! that the RFC appends, because the module states the version: `nfs3::read::Args` is `READ3args`.

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
pub mod nfs4;
pub mod nqnfs;
pub mod outcome;
pub mod portmap;
pub mod record;
pub mod replica;
pub mod rpc;
