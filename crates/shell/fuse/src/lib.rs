//! A session with the kernel's FUSE: receives requests and replies when the results are ready.
//!
//! Criteria in order of weight: a process that waits for a reply can be killed; the threads that
//! read the device never block on anything except the device; an immediate reply costs no thread
//! switch; file data is copied as rarely as possible.
//!
//! [`mount()`] creates the mount and returns the device; [`Session`] serves it for a
//! [`FileSystem`]. A request is a future. The thread that reads a request polls the future once,
//! and stores (parks) the request if the request must wait. The thread that wakes the request
//! continues it, unless the reply may be long; a worker thread then continues the request. An
//! INTERRUPT ends a parked request only if its process is about to die, as on a hard mount of the
//! kernel's own client; see `docs/design/0015-fuse.md`.

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

/// The maximum size of a READ or WRITE that the session permits the kernel to send, in bytes.
pub const TRANSFER_BYTES_MAX: u32 = 1024 * 1024;

/// The future result of an operation.
pub type Answer = Pin<Box<dyn Future<Output = Result<Reply, Errno>> + Send>>;

/// The file system behind a mount.
pub trait FileSystem: Send + Sync + 'static {
    /// Handles one request. Any thread of the session may poll the future. The thread that wakes
    /// the future may also poll it, inside `wake`, so a thread must not hold a mutex that the
    /// future acquires while it calls `wake`. If the requesting process dies, the session drops the
    /// future before its end.
    fn call(self: Arc<Self>, request: Request) -> Answer;

    /// Returns true if the kernel must use its cached pages of a file only while the file's
    /// attributes are valid. When the validity has ended, the kernel requests the attributes, and
    /// drops the pages if the attributes have changed.
    fn checks_pages(&self) -> bool {
        false
    }

    /// Removes `lookups` references of the kernel to a node. This method must not block.
    fn forget(&self, node: NodeId, lookups: u64);
}
