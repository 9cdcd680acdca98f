//! The files of an NFS server as a mount's: what the kernel's FUSE asks, asked of a client.
//!
//! What is known of the server, and what was written and is not safe yet, is in the
//! [`leasehold_client::Client`]; here is what the kernel may keep besides, in its page and name
//! caches, and for how long:
//!
//! - **Attributes and names** are given to the kernel with the time for which the client trusts
//!   them, and no longer.
//! - **Pages** stay over a close while the client has not found the file changed elsewhere: OPEN
//!   asks the server, unless the mount is told that nobody else is there. Of files that stay open
//!   they are dropped when the client finds so, and it looks when its trust has run out
//!   ([`Files::look_again`]).
//! - **With leases** attributes and pages stay until the lease on the file is wanted back or near
//!   its end: then they are dropped before it is given back. What is read without a lease is dropped
//!   behind the answer. Names stay for some seconds where all can be taken back at once, and are asked
//!   for each time where not; either way the client's cache answers.
//! - **Nothing written is here alone**: the kernel hands on each write before it ends; stores by a
//!   mapping come later, and are taken whatever was refused before.
//! - **O_DIRECT** goes past all caches. **O_APPEND** goes past the kernel's, which would write at
//!   the end as it was known when the file was opened.
//!
//! The client names the calling user as AUTH_SYS, groups included, and the server decides, unless
//! the mount has the kernel judge by mode bits ([`Judge`]). Reads and writes of an open file go by
//! the user who opened it.

mod caller;
mod convert;
mod data;
mod files;
mod kept;
mod listing;
mod names;
mod open;
mod positions;
mod withdraw;

pub use files::{Files, Holdings, Judge};
