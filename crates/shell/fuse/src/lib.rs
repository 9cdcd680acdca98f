//! A session with the kernel's FUSE: requests in, answers when they are there.
//!
//! Criteria in order of weight: a process that waits for an answer can be killed; the threads that
//! read the device never wait for anything else; an answer that is there at once costs no change of
//! thread; file data is copied as rarely as can be.
//!
//! [`mount()`] makes the mount and gives the device, [`Session`] speaks on it for a [`FileSystem`].
//! A request is a future: it is polled once where it was read, and parked if it must wait; when it
//! is woken it goes on where that comes about, unless its answer may be long. An
//! INTERRUPT ends a parked request only when its process is about to die, as a hard mount of the
//! kernel's own client has it; see `docs/design/0015-fuse.md`.

mod attributes;
mod dying;
mod init;
mod listing;
mod mount;
mod notify;
mod reply;
mod request;
mod session;
mod tasks;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use attributes::{Attributes, Moment};
pub use listing::{Listing, ListingEntry};
pub use mount::{MountError, MountOptions, device, is_mounted, mount, set_read_ahead, unmount};
pub use notify::Notifier;
pub use reply::{Created, Entry, Opened, Reply, Space};
pub use request::{AttributeChanges, CallerId, NodeId, Operation, Request, RequestId, TimeChange};
pub use rustix::io::Errno;
pub use session::{End, InFlight, Session};

/// The largest READ and WRITE that the kernel is asked for, in bytes.
pub const TRANSFER_BYTES_MAX: u32 = 1024 * 1024;

/// What an operation will come to.
pub type Answer = Pin<Box<dyn Future<Output = Result<Reply, Errno>> + Send>>;

/// What the requests of a mount are about.
pub trait FileSystem: Send + Sync + 'static {
    /// Answers one request. The future is polled by any thread of the session, or by the one that
    /// wakes it, before `wake` returns: whoever wakes it holds no lock that it takes. It is dropped
    /// unfinished when the process that asked dies.
    fn call(self: Arc<Self>, request: Request) -> Answer;

    /// Whether the kernel is to use the pages that it has of a file only while the attributes that
    /// it was told of are valid, and to drop them when it is then told of others.
    fn checks_pages(&self) -> bool {
        false
    }

    /// Takes back that the kernel was told of a node so many times; never waits.
    fn forget(&self, node: NodeId, lookups: u64);
}
