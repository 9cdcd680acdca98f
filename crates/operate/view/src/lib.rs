//! The activity of a running server, for people and programs.
//!
//! A [`Snapshot`] contains all counts since the server started; it is built on request and
//! serialized as JSON. One snapshot yields a text page ([`status`]) or the metrics of a scrape
//! ([`metrics`]). Two snapshots yield the activity between them ([`Span`]), which the live view
//! ([`top`]) shows.

pub mod metrics;
mod nfs4;
mod snapshot;
mod span;
pub mod status;
pub mod top;
mod units;
mod volumes;

/// The live view as a page for browsers, which requests `live.json` each second. `cargo xtask page`
/// builds it from `page/`; the test step `page` rebuilds it and compares.
pub const PAGE: &str = include_str!("../assets/live.html");

pub use nfs4::{Nfs4View, OperationView};
pub use snapshot::{
    ClientView, ExportView, Latency, LeaseView, LoopView, MetaserverView, ProcedureView, ReplyView,
    Snapshot, Source, SyncView, Work,
};
pub use span::Span;
pub use units::span;
pub use volumes::{IodView, PeerView, VolumeView};
