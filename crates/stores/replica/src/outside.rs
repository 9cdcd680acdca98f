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

/// The time within which a record must be on stable storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Together with the next urgent record, or within a second.
    Soon,
    /// As soon as possible, because an operation waits for the record.
    Now,
}

/// The reason why a call to a peer has no results.
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

    /// Returns a future that completes after a time span.
    fn sleep(&self, span: Duration) -> Later<()>;

    /// Calls a procedure of a peer with encoded arguments, and returns its encoded results. A call
    /// times out in less than a staleness window.
    fn call(&self, peer: u32, procedure: u32, args: Bytes) -> Later<Result<Bytes, NoResults>>;

    /// Returns the traffic to and from a peer so far. The caller holds the lock of the metaserver's
    /// state, so an implementation must neither wait nor call the metaserver.
    fn traffic(&self, peer: u32) -> Traffic;

    /// Appends records after all earlier records. The receiver completes when the records are on
    /// stable storage, and reports a dropped sender if the records cannot be stored.
    fn append(&self, records: Vec<Vec<u8>>, urgency: Urgency) -> oneshot::Receiver<()>;

    /// Reports an event to the administrator.
    fn notice(&self, notice: &Notice);
}
