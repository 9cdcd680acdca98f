//! The data that a running server shows on the control socket, to browsers and to scrapers.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_serve::{Nfs4, Service};
use leasehold_shell::http::{HTML, JSON, Page, Server};
use leasehold_shell::inherited_sockets::{InheritedSockets, Purpose};
use leasehold_shell::{Running, own};
use leasehold_store_dir::DirStore;
use leasehold_store_replica::Metaserver;
use leasehold_view::{MetaserverView, PAGE, Source, SyncView, metrics};

use crate::failure::{Failure, Kind};
use crate::options::Durability;
use crate::server_state::Serving;
use crate::volumes::Volumes;

/// Builds the source of all data that the live view shows.
pub(crate) fn source(
    running: &Running,
    (service, nfs4): (&Arc<Service>, Option<Arc<Nfs4>>),
    durability: Durability,
    addresses: &[SocketAddr],
    serving: &Arc<Serving>,
) -> Arc<Source> {
    let (volumes, joined) = (Volumes::of(serving), serving.metaserver());
    let crossing = Arc::clone(serving);
    let (serving, guarded) = (Arc::clone(serving), Arc::clone(serving));
    Arc::new(Source {
        reporter: running.reporter(),
        service: Arc::clone(service),
        nfs4,
        durability: match durability {
            Durability::Disk => "disk",
            Durability::Memory => "memory",
        },
        addresses: addresses.iter().map(ToString::to_string).collect(),
        syncs: Box::new(move || syncs(&serving.stores())),
        guards_refused: Box::new(move || {
            guarded.stores().iter().map(|one| one.refused_guards()).sum()
        }),
        descriptors_lacked: Box::new(leasehold_store_dir::descriptors_lacked),
        crossed: Box::new(move || crossing.crossed()),
        metaserver: Box::new(move || joined.as_ref().map(among)),
        volumes: Box::new(move || volumes.told()),
    })
}

/// Returns the state of a metaserver within the group of metaservers of its file system.
fn among(metaserver: &Metaserver) -> MetaserverView {
    let (number, of) = metaserver.number();
    MetaserverView { number, of, serves: metaserver.is_open(), calls: metaserver.messages() }
}

/// Returns the sum of the syncs of all stores.
fn syncs(stores: &[Arc<DirStore>]) -> SyncView {
    let sum = |of: fn(&leasehold_store_dir::SyncCounts) -> &AtomicU64| {
        stores.iter().map(|store| of(store.syncs()).load(Ordering::Relaxed)).sum::<u64>()
    };
    #[allow(clippy::cast_precision_loss, reason = "below 2^53 for a hundred days of syncs")]
    let time_s = sum(|counts| &counts.nanoseconds) as f64 / 1e9;
    SyncView { done: sum(|counts| &counts.done), failed: sum(|counts| &counts.failed), time_s }
}

/// A bound HTTP socket for browsers and scrapers, before the server accepts requests on it.
pub(crate) struct Http {
    server: Server,
    address: SocketAddr,
}

impl Http {
    /// Binds the address, if one is configured.
    pub(crate) fn bind(
        asked: Option<SocketAddr>,
        names: &[String],
        given: &mut InheritedSockets,
    ) -> Result<Option<Self>, Failure> {
        let Some(asked) = asked else { return Ok(None) };
        let server = match given.listener(Purpose::Http, asked) {
            Some(socket) => Server::of(socket),
            None => Server::new(asked),
        };
        let bound = server.and_then(|server| {
            let address = server.address()?;
            let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
            let server = server.named(names.iter().cloned().chain([machine]));
            Ok(Some(Self { server, address }))
        });
        bound.map_err(|error| {
            let text = format!("cannot bind {asked} for --http: {error}; choose another port");
            Kind::Address.because(text)
        })
    }

    /// Returns the bound address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Duplicates the socket for a successor of this server; `None` without a free descriptor.
    pub(crate) fn socket(&self) -> Option<OwnedFd> {
        self.server.socket().ok()
    }

    /// Serves until the process ends.
    pub(crate) fn start(self, source: Arc<Source>) -> Result<(), Failure> {
        if !self.address.ip().is_loopback() {
            tracing::warn!(
                address = %self.address,
                "all programs that reach this address can read the names of exports and clients"
            );
        }
        let pages = move |path: &str| page(&source, path);
        let server = self.server;
        let started = own::spawn("http", move || server.run(&Arc::new(pages)));
        started
            .map(drop)
            .map_err(|error| Kind::Running.because(format!("cannot start a thread: {error}")))
    }
}

fn page(source: &Source, path: &str) -> Option<Page> {
    match path {
        "/" => Some(Page { content_type: HTML, text: PAGE.into() }),
        "/metrics" => {
            let text = metrics::text(&source.snapshot(), &(source.volumes)());
            Some(Page { content_type: metrics::CONTENT_TYPE, text: text.into() })
        }
        "/live.json" => {
            let text = serde_json::to_string(&source.snapshot()).ok()?;
            Some(Page { content_type: JSON, text: text.into() })
        }
        _ => None,
    }
}
