//! Files on servers without a mount: lookup, listing, reading and copying.
//!
//! [`Servers`] connects to the servers of `nfs://` addresses and finds objects there. [`entries`]
//! lists a directory, [`write_out`] reads a file in order, and [`copy()`] copies trees between this
//! machine and servers. A caller gets the counts of a copy through [`Watch`]; this crate prints
//! nothing.

mod copy;
mod failure;
mod file;
mod holes;
mod list;
mod place;
mod read;
mod server;
mod tally;
mod volatile;

pub use copy::{Copy, copy};
pub use failure::{Cause, Failure};
pub use file::Error;
pub use list::entries;
pub use place::Place;
pub use read::write_out;
pub use server::{Follow, Options, Remote, Servers};
pub use tally::{Copied, Watch};
