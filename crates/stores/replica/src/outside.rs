//! The interface between a metaserver and its environment.

use core::future::Future;
use core::pin::Pin;
use core::time::Duration;

use bytes::Bytes;
use futures_channel::oneshot;
use leasehold_base::units::{FileTime, Time};

use crate::{Notice, Traffic};

/// A boxed future.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The deadline for a record to reach stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// With the next urgent record, or within a second.
    Soon,
    /// Immediately, because an operation waits.
    Now,
}

/// The reason for which a call has no results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoResults {
    /// The peer did not run the procedure, or its reply cannot be decoded.
    Refused,
    /// No reply arrived in time.
    Silence,
}

/// The environment of a metaserver: clocks, calls to peers, and stable storage.
pub trait Outside: Send + Sync {
    /// Returns the monotonic time.
    fn now(&self) -> Time;

    /// Returns the time of day.
    fn wall(&self) -> FileTime;

    /// Waits for a time span.
    fn sleep(&self, span: Duration) -> Later<()>;

    /// Calls a procedure of a peer with encoded arguments, and returns its encoded results. A call
    /// times out in less than a staleness window.
    fn call(&self, peer: u32, procedure: u32, args: Bytes) -> Later<Result<Bytes, NoResults>>;

    /// Returns the traffic to and from a peer so far. The caller holds the state's lock: an
    /// implementation must neither wait nor call the metaserver.
    fn traffic(&self, peer: u32) -> Traffic;

    /// Appends records after all earlier records. The receiver fires when they are on stable
    /// storage; it never yields a value if they cannot be stored.
    fn append(&self, records: Vec<Vec<u8>>, urgency: Urgency) -> oneshot::Receiver<()>;

    /// Reports an event to the administrator.
    fn notice(&self, notice: &Notice);
}
