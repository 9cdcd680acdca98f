//! A test server over a store in memory.

use core::net::SocketAddr;
use core::num::NonZeroUsize;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_fs::{Export, ExportId};
use leasehold_serve::{Deaf, EpochKey, HandleKey, Ledger, Remembered, Service};
use leasehold_shell::{
    BindError, Handler, Options, Policy, Running, Server, clock, reserved_ports_end,
};
use leasehold_store_mem::MemStore;

use crate::manners::{Mannered, Manners};

/// The name of the export.
pub const EXPORT: &str = "data";

/// The key under which metaservers report their epochs to a server that they use as an iod.
pub const EPOCH_KEY: EpochKey = EpochKey([8; 16]);

/// The epoch of the next server that starts.
static EPOCHS: AtomicU64 = AtomicU64::new(1);

/// A stable list of clients with leases that stores nothing.
struct Forgetful;

impl Ledger for Forgetful {
    fn write(&self, _: u64, _: &[([u8; 16], u64)], done: Box<dyn FnOnce(bool) + Send>) {
        done(true);
    }
}

/// A server over a store in memory, on the loopback, with TCP and UDP on one port; dropping it
/// stops the server. The server trusts callers from a privileged port or from this machine. Its
/// handles stay valid after a restart over the same store.
pub struct MemServer {
    address: SocketAddr,
    store: Arc<MemStore>,
    running: Option<Running>,
}

impl MemServer {
    /// Starts a server with an empty store on a free port.
    ///
    /// # Panics
    /// Panics if the system has no free port, descriptor or thread, because the test cannot
    /// continue.
    #[must_use]
    pub fn start(manners: Manners) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::start_over(any, Arc::default(), manners).expect("a port is free")
    }

    /// Starts a server at an address over an existing store, for example at the address of a
    /// stopped server.
    ///
    /// # Errors
    /// Returns an error if the address is not available.
    ///
    /// # Panics
    /// Like [`MemServer::start`].
    pub fn start_over(
        address: SocketAddr,
        store: Arc<MemStore>,
        manners: Manners,
    ) -> Result<Self, BindError> {
        let reserved_ports_end = reserved_ports_end();
        let policy = Policy { privileged: true, uid: 0, reserved_ports_end };
        let usual = Options::new(vec![address], policy);
        let server = Server::bind(Options { loops: NonZeroUsize::MIN, ..usual })?;
        let address = server.addresses()[0];
        let export = Export {
            id: ExportId(1),
            name: EXPORT.to_owned(),
            path: format!("/srv/{EXPORT}"),
            read_only: false,
            store: Arc::<MemStore>::clone(&store),
        };
        let service = Service::new(vec![export], HandleKey([7; 16]), Box::new(Deaf));
        let service = service.with_epochs(EPOCH_KEY, &[]);
        // Each server has a new epoch and does not know earlier leases, as after a crash that lost
        // the list of clients.
        let epoch = EPOCHS.fetch_add(1, Ordering::Relaxed);
        let remembered = Remembered { epoch, list: Vec::new() };
        let service = service.with_leases(remembered, Arc::new(Forgetful), clock::now());
        let service = Arc::new(service);
        let handler: Arc<dyn Handler> = match manners {
            Manners::Full => Arc::new(Arc::clone(&service)),
            Manners::Stingy | Manners::Version2Only => {
                Arc::new(Mannered::new(Arc::clone(&service), manners))
            }
        };
        let running = server.start(handler).expect("the system has threads left");
        service.call_clients_by(running.post());
        Ok(Self { address, store, running: Some(running) })
    }

    /// Returns the server's address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the server's store.
    #[must_use]
    pub const fn store(&self) -> &Arc<MemStore> {
        &self.store
    }
}

impl Drop for MemServer {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop(Duration::ZERO);
        }
    }
}
