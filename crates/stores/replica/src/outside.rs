//! What a metaserver needs of the world.

use core::future::Future;
use core::pin::Pin;
use core::time::Duration;

use bytes::Bytes;
use futures_channel::oneshot;
use leasehold_base::units::{FileTime, Time};

use crate::{Notice, Traffic};

/// Something that ends later.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How soon a record is to be on stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// With the next that is, or within a second.
    Soon,
    /// At once: somebody waits.
    Now,
}

/// Why a call has no results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoResults {
    /// The peer did not run the procedure, or answered what nobody can read.
    Refused,
    /// Nothing came of it in time.
    Silence,
}

/// What a metaserver needs of the world.
pub trait Outside: Send + Sync {
    /// The time.
    fn now(&self) -> Time;

    /// The time of day.
    fn wall(&self) -> FileTime;

    /// Waits so long.
    fn sleep(&self, span: Duration) -> Later<()>;

    /// Calls a procedure of a peer with these arguments; gives its results, if there are any within
    /// the time that a call may take, less than a window.
    fn call(&self, peer: u32, procedure: u32, args: Bytes) -> Later<Result<Bytes, NoResults>>;

    /// What has gone to and from a peer so far. It is asked for within a step: it must neither wait nor
    /// call the metaserver.
    fn traffic(&self, peer: u32) -> Traffic;

    /// Adds records behind all that were added before. It is told when they are on stable storage;
    /// if they cannot be it is never.
    fn append(&self, records: Vec<Vec<u8>>, urgency: Urgency) -> oneshot::Receiver<()>;

    /// Says what an administrator is to know.
    fn notice(&self, notice: &Notice);
}
