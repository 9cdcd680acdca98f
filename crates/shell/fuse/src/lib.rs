//! A session with the kernel's FUSE: receives requests and replies when the results are ready.
//!
//! Criteria in order of weight: a process that waits for a reply can be killed; the threads that
//! read the device never block on anything else; an immediate reply costs no thread switch; file
//! data is copied as rarely as possible.
//!
//! [`mount()`] creates the mount and returns the device; [`Session`] serves it for a
//! [`FileSystem`]. A request is a future: the reading thread polls it once, and parks it if it must
//! wait; the thread that wakes it continues it, unless its reply may be long. An INTERRUPT ends a
//! parked request only if its process is about to die, as on a hard mount of the kernel's own
//! client; see `docs/design/0015-fuse.md`.

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

/// The largest READ and WRITE to request from the kernel, in bytes.
pub const TRANSFER_BYTES_MAX: u32 = 1024 * 1024;

/// The future result of an operation.
pub type Answer = Pin<Box<dyn Future<Output = Result<Reply, Errno>> + Send>>;

/// The file system behind a mount.
pub trait FileSystem: Send + Sync + 'static {
    /// Handles one request. Any thread of the session may poll the future, or the thread that wakes
    /// it, before `wake` returns: the waking thread must not hold a lock that the future takes. The
    /// session drops the future unfinished if the requesting process dies.
    fn call(self: Arc<Self>, request: Request) -> Answer;

    /// Returns true if the kernel must use its pages of a file only while the file's attributes are
    /// valid, and drop the pages when it then receives other attributes.
    fn checks_pages(&self) -> bool {
        false
    }

    /// Removes the given number of the kernel's references to a node; must not block.
    fn forget(&self, node: NodeId, lookups: u64);
}
