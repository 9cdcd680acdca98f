//! What an administrator may want to know as it happens.

use core::net::SocketAddr;

use leasehold_fs::FsError;

use crate::Epoch;
use crate::exports::Exports;

/// Something that happened, with its particulars; whoever listens decides what becomes of it.
pub enum Event<'a> {
    /// A client was given the handle of a directory.
    Mounted {
        /// The client.
        from: SocketAddr,
        /// The path that it asked for.
        path: &'a [u8],
    },
    /// A client asked for a directory that it was not given.
    MountRefused {
        /// The client.
        from: SocketAddr,
        /// The path that it asked for.
        path: &'a [u8],
        /// Why it was refused.
        error: FsError,
        /// The export that was meant and that no rule lets it find.
        hidden: Option<&'a str>,
        /// What there is.
        exports: &'a Exports,
    },
    /// A client came with a handle of an export that no rule lets it find.
    HandleRefused {
        /// The client.
        from: SocketAddr,
        /// The export's name.
        export: &'a str,
    },
    /// A metaserver called in an epoch that is over, and was refused.
    EpochOver {
        /// The metaserver.
        from: SocketAddr,
        /// What it said.
        epoch: Epoch,
        /// The last that it has begun, or who took its place.
        last: u64,
    },
    /// An iod refused a call that came neither from a metaserver of its cluster nor from a client
    /// that a metaserver has sent for the access that the call needs.
    Stranger {
        /// The caller.
        from: SocketAddr,
    },
    /// A client's word about its user is not believed, as nothing vouches for it.
    NotBelieved {
        /// The client.
        from: SocketAddr,
        /// Whether it is refused; otherwise it is the anonymous user.
        refused: bool,
    },
}

/// Is told of events, on the thread where they happen; it must not block.
pub trait Observer: Send + Sync {
    /// Takes one event.
    fn event(&self, event: &Event<'_>);
}

/// Does not listen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deaf;

impl Observer for Deaf {
    fn event(&self, _: &Event<'_>) {}
}
