//! What a running server did, for people and programs.
//!
//! A [`Snapshot`] holds all that was counted since the server was started; it is put together when
//! somebody asks and travels as JSON. From one is made a page of text ([`status`]) and the metrics
//! of a scrape ([`metrics`]), from two what happened between them ([`Span`]), which the live
//! view ([`top`]) shows.

pub mod metrics;
mod snapshot;
mod span;
pub mod status;
pub mod top;
mod units;
mod volumes;

/// The live view as a page for browsers, which asks for `live.json` beside it each second. It is
/// built from `page/` by `cargo xtask page`; the test step `page` builds it anew and compares.
pub const PAGE: &str = include_str!("../assets/live.html");

pub use snapshot::{
    ClientView, ExportView, Latency, LeaseView, LoopView, MetaserverView, ProcedureView, ReplyView,
    Snapshot, Source, SyncView, Work,
};
pub use span::Span;
pub use volumes::{IodView, PeerView, VolumeView};
