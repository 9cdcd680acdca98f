//! Events for administrators.

use core::net::SocketAddr;

use leasehold_fs::FsError;

use crate::Epoch;
use crate::exports::Exports;

/// An event with its details; the observer decides how to report it.
pub enum Event<'a> {
    /// A client received the handle of a directory.
    Mounted {
        /// The client.
        from: SocketAddr,
        /// The requested path.
        path: &'a [u8],
    },
    /// A client was refused a directory.
    MountRefused {
        /// The client.
        from: SocketAddr,
        /// The requested path.
        path: &'a [u8],
        /// The reason for the refusal.
        error: FsError,
        /// The requested export, if no rule makes it visible to the client.
        hidden: Option<&'a str>,
        /// All exports.
        exports: &'a Exports,
    },
    /// A client sent a handle of an export that no rule makes visible to the client.
    HandleRefused {
        /// The client.
        from: SocketAddr,
        /// The export's name.
        export: &'a str,
    },
    /// The grace period of version 4 has begun.
    GraceBegan {
        /// The number of clients that may reclaim opens and locks.
        clients: usize,
    },
    /// The grace period of version 4 has ended.
    GraceEnded {
        /// The number of clients that may not reclaim any more, although they have not completed
        /// their reclaims.
        missing: usize,
    },
    /// A metaserver with a superseded epoch called, and was refused.
    EpochOver {
        /// The metaserver.
        from: SocketAddr,
        /// The epoch in its call.
        epoch: Epoch,
        /// The number of the latest epoch of this metaserver or of its successor.
        last: u64,
    },
    /// An iod refused a call that came neither from a metaserver of its cluster nor from a client
    /// with a layout for the access that the call needs.
    Stranger {
        /// The caller.
        from: SocketAddr,
    },
    /// The server does not trust a client's credential, because nothing verifies the credential.
    NotBelieved {
        /// The client.
        from: SocketAddr,
        /// True if the call is refused; otherwise the caller is the anonymous user.
        refused: bool,
    },
}

/// An observer of events, called on the thread on which they happen; it must not block.
pub trait Observer: Send + Sync {
    /// Processes one event.
    fn event(&self, event: &Event<'_>);
}

/// An observer that ignores all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deaf;

impl Observer for Deaf {
    fn event(&self, _: &Event<'_>) {}
}
