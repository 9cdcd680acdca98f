//! `leasehold serve`.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold_serve::Service;
use leasehold_serve::access::Network;
use leasehold_shell::process::{self, Asked, Termination};
use leasehold_shell::{self as shell, Periodic, Policy, Server, users};
use leasehold_store_logged::Standing;
use tracing_subscriber::filter::LevelFilter;

use crate::checks;
use crate::config::{Plan, grant};
use crate::control::{self, Desk};
use crate::events::Log;
use crate::failure::{Failure, Kind};
use crate::live::{self, Http};
use crate::notes;
use crate::options::{LogFormat, Serve};
use crate::portmap::Telling;
use crate::ready::{Exported, Ready};
use crate::reload;
use crate::serving::Serving;
use crate::stable_log::{self, StableLog};
use crate::verifier;

/// How long the server goes on with what it has received when it is asked to end.
const GRACE: Duration = Duration::from_secs(5);

/// How often files that nobody writes any more are closed for writing, so that programs on this
/// machine can be run from them.
const IDLE: Duration = Duration::from_secs(2);

/// How often hosts that rules name are looked up again.
const LOOK_UP: Duration = Duration::from_secs(60);

/// Serves until it is asked to end.
pub(crate) fn run(options: &Serve) -> Result<(), Failure> {
    let mut plan = Plan::of(options)?;
    start_logging(&plan);
    // Without a file there is nothing to read again, and a terminal that hangs up ends it.
    let termination = Termination::prepare_with(plan.file.is_some());
    let descriptors = process::prepare();
    for unknown in plan.look_up() {
        tracing::warn!("a rule names a host without an address: {unknown}");
    }
    let log = match plan.exports.as_slice() {
        [only] => stable_log::check(&plan.server, &only.directory)?,
        _ => None,
    };
    let state = plan.state.clone();
    let key = checks::handle_key(&state)?;
    let server = Server::bind(server_options(&plan, descriptors))
        .map_err(|error| Kind::Address.because(checks::address_advice(&error)))?;
    let addresses = server.addresses().to_vec();
    let telling = Telling::prepare(&plan.server, &addresses, descriptors)?;
    let http = Http::bind(plan.server.http)?;
    let only = plan.exports.first().map(|export| export.directory.clone()).unwrap_or_default();
    let standing = stable_log::standing(log.as_deref(), &only, &state)?;
    let verifier = verifier::begin(&state)?;
    let (durability, log_mib) = (plan.durability(), plan.stable_log_mib);
    let (exported, open) = (exported(&plan), open_to_everybody(&plan, &addresses));
    let serving = Serving::open(plan, options.server.clone(), verifier, descriptors / 4)?;
    let log = log_before(&serving, log.as_deref().zip(Some(log_mib)), &state, standing)?;
    let serving = Arc::new(serving);
    let _upkeep = upkeep(&serving)?;

    let service = Service::offering(serving.offers()?, key, Box::new(Log::new()))
        .with_users(Box::new(users::ServerGroups::default()));
    // Behind the address: a server that was just killed has given up that, and its notes too.
    let (service, notebook) = notes::begin(service, &state, durability);
    let service = Arc::new(service);
    serving.followed_by(Arc::clone(&service));
    let running = server
        .start(Arc::new(Arc::clone(&service)))
        .map_err(|error| Kind::Running.because(format!("cannot start to serve: {error}")))?;
    let telling = telling.start()?;
    let source = live::source(&running, &service, durability, &addresses, &serving);
    let control = control::begin(&state, Desk::new(Arc::clone(&source), Arc::clone(&serving)));
    let shown = http.map(|http| http.start(source)).transpose()?;
    Ready::new(&addresses, telling.found(), exported, durability)
        .with_http(shown)
        .with_open(open)
        .announce(options.json)
        .map_err(|error| Kind::Running.because(format!("cannot write to stdout: {error}")))?;

    while termination.next() == Asked::Reload {
        // What came of it is in the log.
        let _ = reload::reload(&serving);
    }
    tracing::info!("asked to end");
    drop(control);
    telling.stop(GRACE);
    running.stop(GRACE);
    notes::end(notebook);
    if let Some(log) = log {
        log.close();
    }
    verifier::end(&state, &serving.stores());
    Ok(())
}

/// Has a log of so many MiB answer in place of the only directory, where one is asked for.
fn log_before(
    serving: &Serving,
    log: Option<(&Path, u32)>,
    state: &Path,
    standing: Standing,
) -> Result<Option<StableLog>, Failure> {
    let Some(((path, mib), (directory, store))) = log.zip(serving.only()) else { return Ok(None) };
    let log = StableLog::open(path, mib, (&directory, &store), state, standing)?;
    serving.answer_by(&log.store());
    Ok(Some(log))
}

/// Has done what is to be done again and again.
fn upkeep(serving: &Arc<Serving>) -> Result<[Periodic; 2], Failure> {
    let failed = |error| Kind::Running.because(format!("cannot start to serve: {error}"));
    let (idle, named) = (Arc::clone(serving), Arc::clone(serving));
    let close_idle = move || idle.stores().iter().for_each(|store| store.close_idle());
    let closing = Periodic::start("closing", IDLE, close_idle).map_err(failed)?;
    let looking = Periodic::start("hosts", LOOK_UP, move || named.look_up_again());
    Ok([closing, looking.map_err(failed)?])
}

/// How the server is to be, where it may have so many descriptors.
fn server_options(plan: &Plan, descriptors: usize) -> shell::Options {
    let policy = Policy {
        privileged: process::can_act_as_others(),
        uid: rustix::process::geteuid().as_raw(),
        reserved_ports_end: shell::reserved_ports_end(),
    };
    let usual = shell::Options::new(plan.listen(), policy);
    let connections_max = plan.limits.connections.map_or(usual.connections_max, usize::from);
    shell::Options {
        loops: plan.server.threads().unwrap_or(usual.loops),
        connections_max: connections_max.min(descriptors / 2),
        connections_of_client_max: plan.limits.connections_per_client.map(usize::from),
        ..usual
    }
}

fn exported(plan: &Plan) -> Vec<Exported> {
    let one = |export: &crate::config::Planned| Exported {
        name: export.name.clone(),
        path: export.directory.to_string_lossy().into_owned(),
        read_only: export.read_only,
    };
    plan.exports.iter().map(one).collect()
}

/// What everybody may do, where other machines reach the server and no rule says who may.
fn open_to_everybody(plan: &Plan, addresses: &[SocketAddr]) -> Vec<String> {
    let Some(address) = addresses.iter().find(|address| !address.ip().is_loopback()) else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    for export in &plan.exports {
        let open = export.rules.iter().find(|rule| {
            let mut networks = rule.clients.iter().flat_map(|clients| &clients.networks);
            networks.any(Network::is_everywhere)
        });
        if let Some(rule) = open {
            let (name, may) = (&export.name, grant(rule, export.read_only));
            lines.push(format!("Everybody who reaches {address} {may}: {name}."));
        }
    }
    lines
}

fn start_logging(plan: &Plan) {
    let log = tracing_subscriber::fmt()
        .with_max_level(plan.server.log.unwrap_or(LevelFilter::INFO))
        .with_writer(io::stderr)
        .with_target(false)
        .with_ansi(false);
    match plan.server.log_format.unwrap_or_default() {
        LogFormat::Plain => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}
