//! A server over a store in memory, and a client for it.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use leasehold_fs::{Export, ExportId};
use leasehold_serve::{Deaf, HandleKey, Service};
use leasehold_session::{Credential, Options as Calling};
use leasehold_shell::client::{Mounted, Runtime, Target, block_on, mount};
use leasehold_shell::{Options, Policy, Running, Server};
use leasehold_store_mem::MemStore;

/// The name of the export.
pub(crate) const EXPORT: &str = "data";

/// The longest time that a call may take in a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server on a port of its own.
pub(crate) struct Mem {
    pub(crate) address: SocketAddr,
    pub(crate) store: Arc<MemStore>,
    running: Option<Running>,
}

impl Mem {
    pub(crate) fn start() -> Self {
        Self::start_on("127.0.0.1:0".parse().unwrap(), Arc::default())
    }

    pub(crate) fn start_on(address: SocketAddr, store: Arc<MemStore>) -> Self {
        let policy = Policy { privileged: true, uid: 0, reserved_ports_end: 1024 };
        let options = Options { loops: NonZeroUsize::MIN, ..Options::new(vec![address], policy) };
        let server = Server::bind(options).unwrap();
        let address = server.addresses()[0];
        let export = Export {
            id: ExportId(1),
            name: EXPORT.to_owned(),
            path: "/srv/data".to_owned(),
            read_only: false,
            store: Arc::<MemStore>::clone(&store),
        };
        let service = Service::new(vec![export], HandleKey([7; 16]), Box::new(Deaf));
        let running = Some(server.start(Arc::new(Arc::new(service))).unwrap());
        Self { address, store, running }
    }

    /// Stops it; says where it was and what it had.
    pub(crate) fn stop(mut self) -> (SocketAddr, Arc<MemStore>) {
        self.running.take().unwrap().stop(Duration::ZERO);
        (self.address, Arc::clone(&self.store))
    }

    /// What mounts its export.
    pub(crate) fn target(&self, calling: Calling) -> Target {
        let host = self.address.ip().to_string();
        let path = format!("/{EXPORT}").into_bytes();
        Target { port: Some(self.address.port()), ..Target::new(&host, &path, calling) }
    }
}

impl Drop for Mem {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop(Duration::ZERO);
        }
    }
}

/// The superuser.
pub(crate) fn root() -> Credential {
    Credential::system("test", 0, 0, &[])
}

/// Mounts with a runtime of its own.
pub(crate) fn mounted(target: &Target) -> Mounted {
    let runtime = Runtime::start().unwrap();
    block_on(mount(&runtime, target, &root())).unwrap()
}
