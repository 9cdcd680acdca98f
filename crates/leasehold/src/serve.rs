//! `leasehold serve`.

use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leasehold_cluster::{Served, Tending};
use leasehold_serve::{HandleKey, Nfs4, Router, Service};
use leasehold_shell::client::block_on;
use leasehold_shell::control::Control;
use leasehold_shell::inherited_sockets::{InheritedSockets, Purpose};
use leasehold_shell::log::Target;
use leasehold_shell::process::{self, Termination};
use leasehold_shell::systemd::{self, State};
use leasehold_shell::{
    self as shell, GivenLock, Ownership, Periodic, Policy, Rate, ReplyJournal, Running, Server,
    own, users,
};
use leasehold_store_logged::Standing;
use tracing_subscriber::filter::LevelFilter;

use crate::checks;
use crate::cluster::options::{Iod, Meta};
use crate::config::options::Server as Said;
use crate::config::{IodCallers, Plan};
use crate::control::{self, Desk};
use crate::events::Log;
use crate::failure::{Failure, Kind};
use crate::find::{Known, Naming};
use crate::leases;
use crate::live::{self, Http};
use crate::logging;
use crate::nfs4;
use crate::notes;
use crate::options::Serve;
use crate::place;
use crate::portmap::{Telling, Told};
use crate::ready::{Exported, Ready};
use crate::restart::{self, Sockets};
use crate::running::REPLACED;
use crate::server_state::Serving;
use crate::stable_log::{self, StableLog};
use crate::verifier;

/// The interval at which the server closes idle files that it has open for writing. While a file is
/// open for writing, programs on this machine cannot execute it.
const IDLE: Duration = Duration::from_secs(2);

/// The minimum interval between two log lines on a lack of descriptors.
const LACK_INTERVAL: Duration = Duration::from_secs(10);

/// The number of descriptors that the server reserves for connections to the control socket,
/// scrapers and running operations.
const DESCRIPTORS_AHEAD: usize = 24;

/// The interval at which the server resolves the host names in rules again.
const LOOK_UP: Duration = Duration::from_secs(60);

/// Serves until a signal ends the process.
pub(crate) fn run(options: &Serve) -> Result<(), Failure> {
    serve(|| Plan::of(options), &options.server, options.json)
}

/// Serves as a metaserver until a signal ends the process.
pub(crate) fn meta(options: &Meta) -> Result<(), Failure> {
    serve(|| Plan::of_meta(options), &options.server, options.json)
}

/// Serves as an iod until a signal ends the process.
pub(crate) fn iod(options: &Iod) -> Result<(), Failure> {
    serve(|| Plan::of_iod(options), &options.server, options.json)
}

/// Serves the planned exports. `said` contains the options of the command line, which a later
/// reload also applies.
fn serve(
    plan: impl FnOnce() -> Result<Plan, Failure>,
    said: &Said,
    json: bool,
) -> Result<(), Failure> {
    let (mut given, lock) = (given()?, GivenLock::take());
    let mut plan = plan()?;
    // Without a file to reload, SIGHUP ends the server, as a hangup of the terminal does.
    let termination = Termination::prepare_server(plan.file.is_some());
    start_own_work(&plan)?;
    let descriptors = process::prepare();
    look_up_hosts(&mut plan);
    let owned = own_state(&plan, lock)?;
    let log = match plan.exports.as_slice() {
        [only] => stable_log::check(&plan.server, &only.directory)?,
        _ => None,
    };
    let state = plan.state.clone();
    let key = plan.handle_key(&state)?;
    let wanted = server_options(&plan, &given, descriptors);
    let server = Server::bind_given(wanted, Purpose::Nfs, &mut given)
        .map_err(|error| Kind::Address.because(checks::address_advice(&error)))?;
    let addresses = server.addresses().to_vec();
    let telling = Telling::prepare(&plan.server, &addresses, descriptors, &mut given)?;
    let http = Http::bind(plan.server.http, &plan.server.http_name, &mut given)?;
    let is_handed_over = given.is_handed_over();
    drop(given);
    let only = plan.exports.first().map(|export| export.directory.clone()).unwrap_or_default();
    let standing = stable_log::standing(log.as_deref(), &only, &state)?;
    let verifier = verifier::begin(&state)?;
    let (durability, log_mib) = (plan.durability(), plan.stable_log_mib);
    let (callers, naming) = (plan.callers()?, Naming::of(&plan));
    let (of_server, lacks_v4) = (plan.server.clone(), plan.lacks_v4);
    let (exported, open) = (exported(&plan), plan.open_to_everybody(&addresses));
    let serving = Serving::open(plan, said.clone(), verifier, descriptors / 4)?;
    let log = log_before(&serving, log.as_deref().zip(Some(log_mib)), &state, standing)?;
    let serving = Arc::new(serving);
    let _upkeep = upkeep(&serving)?;

    must_suffice(descriptors, serving.loops())?;
    let service = service(&serving, key, callers.as_ref())?.with_versions(of_server.versions());
    let (service, journal) = notes::begin(service, &state, durability, &serving.stores())?;
    let (service, last_epoch) = leases::begin(service, &state)?;
    serving.followed_by(Arc::clone(&service))?;
    let nfs4 = nfs4::begin(&service, (key, of_server.versions()), (&state, last_epoch))?;
    let running = server
        .start(Arc::new(router(&service, &serving, nfs4.as_ref())))
        .map_err(|error| Kind::Running.because(format!("cannot start to serve: {error}")))?;
    call_clients_by(&running, &service, nfs4.as_ref());
    let telling = telling.start()?;
    let source = live::source(&running, (&service, nfs4), durability, &addresses, &serving);
    let control = control::begin(&state, Desk::new(Arc::clone(&source), Arc::clone(&serving)));
    let shown = http.as_ref().map(Http::address);
    let http_socket = http.as_ref().and_then(Http::socket);
    let _watched = watched(&running)?;
    http.map(|http| http.start(source)).transpose()?;
    let known = Arc::new(naming.begin(&state, &exported, &addresses));
    let _load = known.follow(running.reporter(), serving.metaserver())?;
    serving.known_by(Arc::clone(&known));
    let tending = Tending::begin(&(Arc::clone(&serving) as Arc<dyn Served>))?;
    let ready = Ready::new(&addresses, telling.found(), exported, durability)
        .with_options(&of_server, lacks_v4)
        .with_http(shown)
        .with_open(open);
    say(&ready.for_metaservers_if(callers.is_some()), is_handed_over, json);

    let again = restart::wait(&termination, &serving);
    Live { owned, serving, log, running, telling, http_socket, control, known, journal, tending }
        .end(again)
}

/// Resolves the host names in the rules.
fn look_up_hosts(plan: &mut Plan) {
    for unknown in plan.look_up() {
        tracing::warn!("a rule names a host that has no address: {unknown}");
    }
}

/// Returns the router of all programs.
fn router(service: &Arc<Service>, serving: &Serving, nfs4: Option<&Arc<Nfs4>>) -> Router {
    let mut programs = serving.programs(service);
    programs.extend(nfs4.map(Nfs4::row));
    Router::new(Arc::clone(service), programs)
}

/// Sets the sender of the server's calls to clients.
fn call_clients_by(running: &Running, service: &Service, nfs4: Option<&Arc<Nfs4>>) {
    service.call_clients_by(running.post());
    if let Some(nfs4) = nfs4 {
        nfs4.call_clients_by(running.post());
    }
}

/// Creates the service of all exports; the service of an iod authenticates its callers by
/// `callers`.
fn service(
    serving: &Serving,
    key: HandleKey,
    callers: Option<&IodCallers>,
) -> Result<Service, Failure> {
    let service = Service::offering(serving.offers()?, key, Box::new(Log::new()))
        .with_users(Box::new(users::ServerGroups::default()));
    Ok(match callers {
        Some(IodCallers { key, noted, clients }) => service.as_iod(*key, noted, *clients),
        None => service,
    })
}

/// The parts of a running server that end in order.
struct Live {
    owned: Ownership,
    serving: Arc<Serving>,
    log: Option<StableLog>,
    running: Running,
    telling: Told,
    http_socket: Option<OwnedFd>,
    control: Option<Control>,
    known: Arc<Known>,
    journal: Option<Arc<ReplyJournal>>,
    tending: Tending,
}

impl Live {
    /// Ends the server, or hands over to the next process if `again` is true.
    fn end(self, again: bool) -> Result<(), Failure> {
        systemd::tell(if again { State::Restarting } else { State::Stopping });
        if again {
            // Write the changes to the disk now, while the server still serves clients. Less work
            // then remains for the interval in which clients wait.
            self.log.iter().for_each(StableLog::checkpoint);
            verifier::prepare(&self.serving.stores());
        } else {
            tracing::info!("a signal ends the server");
        }
        self.known.end(again);
        drop(self.tending);
        drop(self.control);
        let mut sockets = Sockets::new(again);
        sockets.keep(Purpose::Http, self.http_socket);
        self.telling.end(&mut sockets);
        sockets.end(Purpose::Nfs, self.running);
        // No call removes a file after this point, so all pending removals are known: complete
        // them.
        let volumes = self.serving.volumes();
        volumes.iter().for_each(|(_, volume)| block_on(volume.striped.end_removals()));
        notes::end(self.journal);
        if let Some(log) = self.log {
            log.close();
        }
        verifier::end(self.owned.directory(), &self.serving.stores());
        sockets.go_on(&self.owned)
    }
}

/// Locks the state directory for this server before the server reads any file in it. Without the
/// lock, another server could change a file after this server has read it.
fn own_state(plan: &Plan, lock: GivenLock) -> Result<Ownership, Failure> {
    place::take_over(plan)?;
    Ownership::take(&plan.state, lock, &plan.served()).map_err(|error| {
        let text = match error.error.kind() == ErrorKind::WouldBlock {
            true => "end that server, or name another directory with --state DIR",
            false => "choose another place with --state DIR",
        };
        Kind::State.because(format!("{error}; {text}"))
    })
}

/// Takes the sockets that the process inherited.
fn given() -> Result<InheritedSockets, Failure> {
    InheritedSockets::take()
        .map_err(|error| Kind::Address.because(format!("cannot serve: {error}")))
}

/// Reports that clients can mount. Reports nothing if this process continues a server that has
/// already reported this.
fn say(ready: &Ready, is_handed_over: bool, json: bool) {
    systemd::tell(State::Ready);
    if is_handed_over {
        tracing::info!("continues with the sockets of the previous server");
    } else if let Err(error) = ready.announce(json) {
        // The server serves even if no process reads its ready message, so the failure is only
        // logged.
        tracing::warn!(%error, "cannot write to stdout that the server is ready");
    }
}

/// Notifies systemd's watchdog periodically while all loops run, if systemd requests it.
fn watched(running: &Running) -> Result<Option<Periodic>, Failure> {
    let Some(interval) = systemd::watchdog_interval() else { return Ok(None) };
    let reporter = running.reporter();
    let look = move || {
        if reporter.report().silent == 0 {
            systemd::tell(State::Alive);
        }
    };
    Periodic::start("watchdog", interval / 3, look)
        .map(Some)
        .map_err(|error| Kind::Running.because(format!("cannot start to serve: {error}")))
}

/// Opens a write-ahead log with this size in MiB for the only directory, if the plan contains a
/// log.
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

/// Refuses to serve with too few descriptors: the server would reply "try later" to each call.
/// Connections can take half of the descriptors, stores a quarter, and all other uses the rest.
fn must_suffice(descriptors: usize, loops: NonZeroUsize) -> Result<(), Failure> {
    // Reserve descriptors for the loops, administrators, scrapers and operations, because they open
    // their descriptors later.
    let Some(open) = process::open_descriptors() else { return Ok(()) };
    let needed = open + 4 * loops.get() + DESCRIPTORS_AHEAD;
    if descriptors >= needed {
        if descriptors < 4 * needed {
            tracing::warn!(
                descriptors,
                "the limit on open files is low, so only few clients can connect: raise it"
            );
        }
        return Ok(());
    }
    Err(Kind::Running.because(format!(
        "this process may open {descriptors} files, and needs {needed} to serve: raise its \
         limit (`ulimit -n {needed}`, LimitNOFILE={needed} of its unit)"
    )))
}

/// Starts the periodic work.
fn upkeep(serving: &Arc<Serving>) -> Result<[Periodic; 2], Failure> {
    let failed = |error| Kind::Running.because(format!("cannot start to serve: {error}"));
    let (idle, named) = (Arc::clone(serving), Arc::clone(serving));
    let (mut told, rate) = (0, Rate::one_in(LACK_INTERVAL));
    let tend = move || {
        idle.close_idle();
        let lacked = leasehold_store_dir::descriptors_lacked();
        if lacked != told && rate.pass().is_some() {
            tracing::warn!(
                calls = lacked - told,
                "the server replies \"try later\": the limit on open files is reached; raise it \
                 (`ulimit -n`, LimitNOFILE= of its unit)"
            );
            told = lacked;
        }
    };
    let closing = Periodic::start("closing", IDLE, tend).map_err(failed)?;
    let mut replaced = Vec::new();
    let looking = Periodic::start("hosts", LOOK_UP, move || {
        named.look_up_again();
        tell_replaced(&named, &mut replaced);
    });
    Ok([closing, looking.map_err(failed)?])
}

/// Logs each directory that was removed or replaced while the server had it open; logs each
/// directory once.
fn tell_replaced(serving: &Serving, told: &mut Vec<PathBuf>) {
    let replaced = serving.replaced();
    for path in replaced.iter().filter(|path| !told.contains(path)) {
        tracing::error!("{} {REPLACED}", path.display());
    }
    *told = replaced;
}

/// Returns the options of the server for this limit on descriptors.
fn server_options(plan: &Plan, given: &InheritedSockets, descriptors: usize) -> shell::Options {
    let policy = Policy {
        privileged: process::can_act_as_others(),
        uid: rustix::process::geteuid().as_raw(),
        reserved_ports_end: shell::reserved_ports_end(),
    };
    // Without a `--listen` option the server keeps the addresses of the inherited sockets.
    let listen = match plan.server.listen.is_empty() {
        true => Some(given.addresses(Purpose::Nfs)).filter(|addresses| !addresses.is_empty()),
        false => None,
    };
    let usual = shell::Options::new(listen.unwrap_or_else(|| plan.listen()), policy);
    let connections_max = plan.limits.connections.map_or(usual.connections_max, usize::from);
    shell::Options {
        loops: plan.server.loops(),
        connections_max: connections_max.min(descriptors / 2),
        connections_of_client_max: plan.limits.connections_per_client.map(usize::from),
        replies_in_turn: plan.is_iod(),
        datagrams: plan.server.answers_datagrams(),
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

/// Starts the threads of the server's own work, and its log. This function must run before any
/// thread takes the identity of a caller, because the new threads inherit the identity of this
/// thread.
fn start_own_work(plan: &Plan) -> Result<(), Failure> {
    own::begin()
        .map_err(|error| Kind::Running.because(format!("cannot start to serve: {error}")))?;
    let level = plan.server.log.unwrap_or(LevelFilter::INFO);
    logging::start(Target::Stderr, level, plan.server.log_format.unwrap_or_default())
}
