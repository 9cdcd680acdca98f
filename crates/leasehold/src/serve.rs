//! `leasehold serve`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leasehold_fs::{Export, ExportId, Store, Verifier};
use leasehold_serve::access::Access;
use leasehold_serve::{Offer, Service};
use leasehold_shell::process::{self, Termination};
use leasehold_shell::{self as shell, Periodic, Policy, Pool, Server};
use leasehold_store_dir::{self as dir, DirStore};

use crate::checks;
use crate::control::{self, Desk};
use crate::events::Log;
use crate::failure::{Failure, Kind};
use crate::live::{self, Http};
use crate::notes;
use crate::options::{Durability, LogFormat, Serve};
use crate::portmap::Telling;
use crate::ready::{Exported, Ready};
use crate::stable_log::{self, StableLog};
use crate::stripes;
use crate::verifier;

/// How long the server goes on with what it has received when it is asked to end.
const GRACE: Duration = Duration::from_secs(5);

/// How often files that nobody writes any more are closed for writing, so that programs on this
/// machine can be run from them.
const IDLE: Duration = Duration::from_secs(2);

/// Serves until it is asked to end.
pub(crate) fn run(options: &Serve) -> Result<(), Failure> {
    start_logging(options);
    let termination = Termination::prepare();
    let descriptors = process::prepare();
    let directory = checks::directory(&options.directory)?;
    let name = checks::name(options.name.as_deref(), &directory)?;
    let log = stable_log::check(options, &directory)?;
    let stripes = stripes::check(options, &directory)?;
    let state = checks::state(options.state.as_deref(), &directory)?;
    let key = checks::handle_key(&state)?;
    let server = Server::bind(server_options(options, descriptors))
        .map_err(|error| Kind::Address.because(checks::address_advice(&error)))?;
    let addresses = server.addresses().to_vec();
    let telling = Telling::prepare(options, &addresses, descriptors)?;
    let http = Http::bind(options.http)?;
    let standing = stable_log::standing(log.as_deref(), &directory, &state)?;
    let verifier = verifier::begin(&state)?;
    let each = descriptors / 4 / (1 + stripes.len());
    let store = Arc::new(open(&directory, verifier, options, each)?);
    let disks = stripes.iter().map(|path| Ok(Arc::new(open(path, verifier, options, each)?)));
    let disks: Vec<Arc<DirStore>> = disks.collect::<Result<_, Failure>>()?;
    let (mib, below) = (options.stable_log_size, (directory.as_path(), &store));
    let log = log.map(|path| StableLog::open(&path, mib, below, &state, standing)).transpose()?;
    let stores: Vec<_> = [&store].into_iter().chain(&disks).map(Arc::clone).collect();
    let _closing = close_idle(stores.clone())?;

    let path = directory.to_string_lossy().into_owned();
    let exported =
        Exported { name: name.clone(), path: path.clone(), read_only: options.read_only };
    let export = Export {
        id: ExportId(1),
        name,
        path,
        read_only: options.read_only,
        store: served(options, &store, log.as_ref(), &stripes, &disks)?,
    };
    let offer =
        Offer { access: Access::everybody(options.insecure), ..Offer::to_everybody(export) };
    let service = Service::offering(vec![offer], key, Box::new(Log::new()));
    // Behind the address: a server that was just killed has given up that, and its notes too.
    let (service, notebook) = notes::begin(service, &state, options.durability);
    let service = Arc::new(service);
    let running = server
        .start(Arc::new(Arc::clone(&service)))
        .map_err(|error| Kind::Running.because(format!("cannot start to serve: {error}")))?;
    let telling = telling.start()?;
    let source = live::source(&running, &service, options.durability, &addresses, stores);
    let control = control::begin(&state, Desk::new(Arc::clone(&source)));
    let shown = http.map(|http| http.start(source)).transpose()?;
    Ready::new(&addresses, telling.found(), vec![exported], options.durability)
        .with_http(shown)
        .announce(options.json)
        .map_err(|error| Kind::Running.because(format!("cannot write to stdout: {error}")))?;

    termination.wait();
    tracing::info!("asked to end");
    drop(control);
    telling.stop(GRACE);
    running.stop(GRACE);
    notes::end(notebook);
    if let Some(log) = log {
        log.close();
    }
    verifier::end(&state, [&store].into_iter().chain(&disks).map(|store| &**store));
    Ok(())
}

/// What clients reach: the directory, behind its log, or with the data in others.
fn served(
    options: &Serve,
    store: &Arc<DirStore>,
    log: Option<&StableLog>,
    stripes: &[PathBuf],
    disks: &[Arc<DirStore>],
) -> Result<Arc<dyn Store>, Failure> {
    match log {
        Some(log) => Ok(log.store()),
        None if disks.is_empty() => Ok(Arc::<DirStore>::clone(store)),
        None => stripes::open(options, store, stripes, disks),
    }
}

/// Has files closed that nobody writes any more.
fn close_idle(stores: Vec<Arc<DirStore>>) -> Result<Periodic, Failure> {
    let close = move || stores.iter().for_each(|store| store.close_idle());
    Periodic::start("closing", IDLE, close)
        .map_err(|error| Kind::Running.because(format!("cannot start to serve: {error}")))
}

/// How the server is to be, where it may have so many descriptors.
fn server_options(options: &Serve, descriptors: usize) -> shell::Options {
    let policy = Policy {
        privileged: process::can_act_as_others(),
        uid: rustix::process::geteuid().as_raw(),
        reserved_ports_end: shell::reserved_ports_end(),
    };
    let usual = shell::Options::new(options.listen.clone(), policy);
    shell::Options {
        loops: options.threads.unwrap_or(usual.loops),
        connections_max: usual.connections_max.min(descriptors / 2),
        ..usual
    }
}

/// Opens the directory as a store that keeps so many descriptors at most.
fn open(
    directory: &Path,
    verifier: Verifier,
    how: &Serve,
    descriptors_max: usize,
) -> Result<DirStore, Failure> {
    let options = dir::Options {
        blocking: Arc::new(Pool::new()),
        verifier,
        durability: match how.durability {
            Durability::Disk if how.stable_log.is_some() => dir::Durability::Log,
            Durability::Disk => dir::Durability::Disk,
            Durability::Memory => dir::Durability::Memory,
        },
        descriptors_max,
        handles: dir::HandleSource::Probe,
    };
    DirStore::open(directory, options).map_err(|error| {
        Kind::Directory.because(format!("cannot serve {}: {error}", directory.display()))
    })
}

fn start_logging(options: &Serve) {
    let log = tracing_subscriber::fmt()
        .with_max_level(options.log)
        .with_writer(io::stderr)
        .with_target(false)
        .with_ansi(false);
    match options.log_format {
        LogFormat::Plain => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}
