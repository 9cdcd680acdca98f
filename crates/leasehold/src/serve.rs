//! `leasehold serve`.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use leasehold_fs::{Export, ExportId, Store};
use leasehold_serve::Service;
use leasehold_shell::limits::CONNECTIONS_MAX;
use leasehold_shell::process::{self, Termination};
use leasehold_shell::{self as shell, Policy, Server};
use leasehold_store_mem::MemStore;

use crate::checks;
use crate::events::Log;
use crate::failure::{Failure, Kind};
use crate::options::Serve;
use crate::ready::{Exported, Ready};

/// How long the server goes on with what it has received when it is asked to end.
const GRACE: Duration = Duration::from_secs(5);

/// Serves until it is asked to end.
pub(crate) fn run(options: &Serve) -> Result<(), Failure> {
    start_logging(options);
    let termination = Termination::prepare();
    let descriptors = process::prepare();
    let directory = checks::directory(&options.directory)?;
    let name = checks::name(options.name.as_deref(), &directory)?;
    let key = checks::handle_key(options.state.as_deref())?;
    let server = Server::bind(shell::Options {
        listen: options.listen.clone(),
        loops: options.threads.unwrap_or_else(one_per_processor),
        connections_max: CONNECTIONS_MAX.min(descriptors / 2),
        policy: Policy {
            privileged: process::can_act_as_others(),
            uid: rustix::process::geteuid().as_raw(),
            insecure: options.insecure,
        },
    })
    .map_err(|error| Kind::Address.because(checks::address_advice(&error)))?;

    let path = directory.to_string_lossy().into_owned();
    let exported =
        Exported { name: name.clone(), path: path.clone(), read_only: options.read_only };
    let export =
        Export { id: ExportId(1), name, path, read_only: options.read_only, store: open() };
    let service = Arc::new(Service::new(vec![export], key, Box::new(Log::new())));
    let addresses = server.addresses().to_vec();
    let running = server
        .start(Arc::new(service))
        .map_err(|error| Kind::Running.because(format!("cannot start to serve: {error}")))?;
    Ready::new(&addresses, vec![exported], options.durability)
        .announce(options.json)
        .map_err(|error| Kind::Running.because(format!("cannot write to stdout: {error}")))?;

    termination.wait();
    tracing::info!("asked to end");
    running.stop(GRACE);
    Ok(())
}

fn open() -> Arc<dyn Store> {
    Arc::new(MemStore::default())
}

fn start_logging(options: &Serve) {
    tracing_subscriber::fmt()
        .with_max_level(options.log)
        .with_writer(io::stderr)
        .with_target(false)
        .with_ansi(false)
        .init();
}

fn one_per_processor() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
