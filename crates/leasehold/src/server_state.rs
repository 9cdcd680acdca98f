//! The state of a running server, and its changes without a restart.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use leasehold_cluster::{
    self as cluster, Clients, Layout, Names, Referral, Served, Volume, keep_removals, keep_turns,
};
use leasehold_fs::{Export, Store, Verifier};
use leasehold_serve::access::Access;
use leasehold_serve::router::Row;
use leasehold_serve::{Offer, Service};
use leasehold_shell::{Pool, Rate, clock, own, state};
use leasehold_store_dir::{self as dir, Crossing, DirStore, Origin};
use leasehold_store_replica::Metaserver;
use leasehold_store_striped::Striped;

use crate::config::options::Server;
use crate::config::{Difference, Facts, Plan, Planned, is_name};
use crate::crossings::Noted;
use crate::failure::{Failure, Kind};
use crate::find::Known;
use crate::options::{Durability, Question};
use crate::running::About;
use crate::why::{self, Answer};
use crate::{checks, ids, place};

/// The stores of a server, and the exports that it offers.
pub(crate) struct Serving {
    service: Mutex<Option<Arc<Service>>>,
    /// The running announcement and registration of this server.
    known: OnceLock<Arc<Known>>,
    /// The options of the command line, which override the file also after a reload.
    said: Server,
    how: How,
    /// The recorded numbers of the file systems that are mounted below exports.
    noted: Arc<Noted>,
    state: Mutex<State>,
}

struct State {
    plan: Plan,
    facts: Facts,
    stores: BTreeMap<PathBuf, Opened>,
}

/// The properties with which the server opens all directories.
#[derive(Clone, Copy)]
struct How {
    durability: dir::Durability,
    /// The number of event loops.
    loops: NonZeroUsize,
    /// The maximum number of descriptors of all stores together.
    descriptors_max: usize,
    /// True if the server enforces client leases against programs of this machine.
    heeds_programs: bool,
}

/// A served directory, with its stores.
#[derive(Clone)]
struct Opened {
    directory: Arc<DirStore>,
    /// The directories with the stripes of its files, if the stripes lie on this machine outside
    /// the directory.
    disks: Vec<Arc<DirStore>>,
    /// The layout with which the server opened the directory.
    layout: Layout,
    /// The origin of the opened directory, by which the server detects that the path leads to
    /// another directory later.
    origin: Option<Origin>,
    /// The store that also contains the file systems mounted below the directory; `None` if clients
    /// cannot enter them.
    crossing: Option<Arc<Crossing>>,
    /// The store that serves the directory: the directory's own store, a write-ahead log before it,
    /// or a store that joins the names with their stripes.
    store: Arc<dyn Store>,
    /// The volume, if the directory contains the names of files with stripes.
    volume: Option<Volume>,
    /// The metaserver that shares the names with other metaservers; `None` if this server is the
    /// only metaserver.
    metaserver: Option<Metaserver>,
    /// The open directories whose locks keep other processes from the names and stripes of the
    /// volume.
    _claims: Arc<[OwnedFd]>,
}

/// The descriptors of an export are divided by this number: each file system below the export
/// receives one part.
const BELOW_SHARES: usize = 8;

/// The minimum useful number of descriptors of a store. With fewer, the store would reopen a file
/// for almost each operation.
const DESCRIPTORS_FEW: usize = 64;

/// Returns the store that serves a directory without stripes.
fn answering(crossing: Option<&Arc<Crossing>>, directory: &Arc<DirStore>) -> Arc<dyn Store> {
    match crossing {
        Some(crossing) => Arc::<Crossing>::clone(crossing),
        None => Arc::<DirStore>::clone(directory),
    }
}

/// The descriptors of all stores are divided by this number: each directory receives one part.
const SHARES: usize = 4;

impl Serving {
    /// Opens the directories of a plan.
    pub(crate) fn open(
        plan: Plan,
        said: Server,
        verifier: Verifier,
        descriptors_max: usize,
    ) -> Result<Self, Failure> {
        let durability = match plan.durability() {
            Durability::Disk if plan.server.stable_log.is_some() => dir::Durability::Log,
            Durability::Disk => dir::Durability::Disk,
            Durability::Memory => dir::Durability::Memory,
        };
        let heeds_programs = !plan.server.no_local_coherence;
        let loops = plan.server.loops();
        let how = How { durability, loops, descriptors_max, heeds_programs };
        let noted = Noted::read(&plan.state)?;
        let mut stores = BTreeMap::new();
        let share = if plan.exports.len() > 1 { SHARES } else { 1 };
        for export in &plan.exports {
            let opened = how.open(export, verifier, share, (&plan.state, &noted))?;
            stores.insert(export.directory.clone(), opened);
        }
        let facts = Facts::of(&plan);
        let state = Mutex::new(State { plan, facts, stores });
        let (service, known) = (Mutex::default(), OnceLock::new());
        Ok(Self { service, known, said, how, noted, state })
    }

    /// Returns the number of event loops.
    pub(crate) fn loops(&self) -> NonZeroUsize {
        self.how.loops
    }

    /// Returns the only directory and its store, if the server has exactly one.
    pub(crate) fn only(&self) -> Option<(PathBuf, Arc<DirStore>)> {
        let state = self.lock();
        let mut all = state.stores.iter().map(|(path, one)| (path, &one.directory));
        let (path, store) = all.next().filter(|_| all.next().is_none())?;
        Some((path.clone(), Arc::clone(store)))
    }

    /// Replaces the store of the only directory.
    pub(crate) fn answer_by(&self, store: &Arc<dyn Store>) {
        self.lock().stores.values_mut().for_each(|opened| opened.store = Arc::clone(store));
    }

    /// Returns the metaserver, if this server is one of several.
    pub(crate) fn metaserver(&self) -> Option<Metaserver> {
        self.lock().stores.values().find_map(|opened| opened.metaserver.clone())
    }

    /// Returns the programs of this server that are not in the procedure table.
    pub(crate) fn programs(&self, service: &Arc<Service>) -> Vec<Row> {
        let several = self.volumes().into_iter().find_map(|(name, volume)| {
            let number = volume.striped.options().volume;
            let (group, metaserver) = volume.group?;
            let referral = Referral::of(&name, number, &group, metaserver.clone());
            Some(cluster::programs(service, &metaserver, referral))
        });
        several.unwrap_or_default()
    }

    /// Returns the current exports, with their permanent export numbers.
    pub(crate) fn offers(&self) -> Result<Vec<Offer>, Failure> {
        let state = self.lock();
        offers(&state.plan, &state.stores, &state.plan.state)
    }

    /// Connects a service, to which this object passes each later change of the exports.
    pub(crate) fn followed_by(&self, service: Arc<Service>) -> Result<(), Failure> {
        let state = self.lock();
        let offers = offers(&state.plan, &state.stores, &state.plan.state)?;
        self.how.heed(&service, &offers, state.stores.values());
        drop(state);
        *self.service.lock().unwrap_or_else(PoisonError::into_inner) = Some(service);
        Ok(())
    }

    /// Connects the announcements, to which this object passes each later change of the exports.
    pub(crate) fn known_by(&self, known: Arc<Known>) {
        // `set` cannot fail, because the caller connects the announcements only once.
        drop(self.known.set(known));
    }

    /// Returns the configuration file, if there is one.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.lock().plan.file.clone()
    }

    /// Returns the store of every served directory.
    pub(crate) fn stores(&self) -> Vec<Arc<DirStore>> {
        let state = self.lock();
        let all = |opened: &Opened| {
            let own = [&opened.directory].into_iter().chain(&opened.disks).cloned();
            let below = opened.crossing.iter().flat_map(|crossing| crossing.stores());
            own.chain(below).collect::<Vec<_>>()
        };
        state.stores.values().flat_map(all).collect()
    }

    /// Returns the number of open file systems below exports.
    pub(crate) fn crossed(&self) -> usize {
        let state = self.lock();
        let crossings = state.stores.values().filter_map(|opened| opened.crossing.as_ref());
        crossings.map(|crossing| crossing.stores().len()).sum()
    }

    /// Closes idle files. See [`DirStore::close_idle`] and [`Crossing::close_idle`].
    pub(crate) fn close_idle(&self) {
        let (own, crossings) = {
            let state = self.lock();
            let all = state.stores.values();
            let own = all.clone().flat_map(|one| [&one.directory].into_iter().chain(&one.disks));
            let crossings = all.filter_map(|one| one.crossing.clone());
            (own.cloned().collect::<Vec<_>>(), crossings.collect::<Vec<_>>())
        };
        own.iter().for_each(|store| store.close_idle());
        crossings.iter().for_each(|crossing| crossing.close_idle());
    }

    /// Returns the volume whose directory of names contains `path`, and that directory.
    pub(crate) fn volume_of(&self, path: &Path) -> Option<(PathBuf, Volume)> {
        let state = self.lock();
        let mut above = path.ancestors();
        above.find_map(|directory| {
            let volume = state.stores.get(directory)?.volume.clone()?;
            Some((directory.to_owned(), volume))
        })
    }

    /// Returns a description of the server, with the directories that it serves.
    pub(crate) fn about(&self) -> About {
        let replaced = self.replaced();
        let state = self.lock();
        let exports = &state.plan.exports;
        About {
            pid: std::process::id(),
            directories: exports.iter().map(|export| export.directory.clone()).collect(),
            names: exports.iter().map(|export| export.name.clone()).collect(),
            file: state.plan.file.as_deref().map(place::of_file),
            replaced,
        }
    }

    /// Returns the directories that were removed or replaced after they were opened.
    pub(crate) fn replaced(&self) -> Vec<PathBuf> {
        let opened: Vec<_> = {
            let state = self.lock();
            state.stores.iter().map(|(path, opened)| (path.clone(), opened.origin)).collect()
        };
        let replaced =
            opened.into_iter().filter(|(path, origin)| is_replaced(path, origin.as_ref()));
        replaced.map(|(path, _)| path).collect()
    }

    /// Returns the current configuration as text.
    pub(crate) fn facts(&self) -> Facts {
        self.lock().facts.clone()
    }

    /// Explains if a client may run an operation under the current configuration.
    ///
    /// # Errors
    /// A path outside all exports.
    pub(crate) fn why(&self, question: &Question) -> Result<Answer, Failure> {
        let (exports, stores, answers_datagrams) = {
            let state = self.lock();
            let answers_datagrams = state.plan.server.answers_datagrams();
            (state.plan.exports.clone(), state.stores.clone(), answers_datagrams)
        };
        let store = |export: &Planned| {
            let opened = stores.get(&export.directory).map(|opened| Arc::clone(&opened.store));
            opened.ok_or_else(|| Kind::Running.because(format!("{} is not open", export.name)))
        };
        let told = why::answer(&exports, question, store)?;
        Ok(told.with_carriers(answers_datagrams))
    }

    /// Reloads the file and applies the whole file or nothing. Running calls, connections and
    /// handles are unaffected.
    ///
    /// # Errors
    /// The fault in the file; the server is then unchanged.
    pub(crate) fn reload(&self) -> Result<Difference, Failure> {
        let file = self.lock().plan.file.clone();
        let file = file.ok_or_else(|| {
            let text = "there is no file to read again: the server was started with a directory";
            Kind::Options.because(text)
        })?;
        let mut plan = Plan::read(&file, &self.said)?;
        for unknown in plan.look_up() {
            tracing::warn!("a rule names a host that has no address: {unknown}");
        }
        let mut state = self.lock();
        let difference = state.facts.difference(&Facts::of(&plan));
        // A reload keeps all settings that require a restart, including the state directory. So
        // check the new exports against the current state directory.
        let directories: Vec<_> = plan.exports.iter().map(|one| one.directory.as_path()).collect();
        checks::state(Some(state.plan.state.clone()), &directories)?;
        let place = state.plan.state.clone();
        stays_in_its_group(&state.plan, &plan)?;
        if self.how.durability == dir::Durability::Log
            && directories.iter().any(|directory| !state.stores.contains_key(*directory))
        {
            let text = "replacing a directory with a stable log requires a restart";
            return Err(Kind::Options.because(text));
        }
        let mut stores = BTreeMap::new();
        for export in &plan.exports {
            let opened = match state.stores.get(&export.directory) {
                Some(opened)
                    if opened.layout == export.layout
                        && opened.crossing.is_some() == export.cross =>
                {
                    opened.clone()
                }
                Some(opened) if opened.layout == export.layout => {
                    let crossing =
                        self.how.crossing(export, &opened.directory, SHARES, &self.noted)?;
                    let store = answering(crossing.as_ref(), &opened.directory);
                    Opened { crossing, store, ..opened.clone() }
                }
                Some(_) => {
                    let name = &export.name;
                    let text = format!("{name}: a change of stripes requires a restart");
                    return Err(Kind::Options.because(text));
                }
                // An earlier server may have had unstable writes here, so the store gets a new
                // verifier: clients then send these writes again.
                None => {
                    let at = (&*place, &self.noted);
                    self.how.open(export, random_verifier()?, SHARES, at)?
                }
            };
            stores.insert(export.directory.clone(), opened);
        }
        let offers = offers(&plan, &stores, &place)?;
        let facts = state.facts.reloaded(&Facts::of(&plan));
        let is_new = |path: &PathBuf| !state.stores.contains_key(path);
        let new = stores.iter().filter(|(path, _)| is_new(path)).map(|(_, opened)| opened);
        if let Some(service) = &*self.service.lock().unwrap_or_else(PoisonError::into_inner) {
            self.how.heed(service, &offers, new);
            service.offer(offers);
        }
        let gone = state.stores.iter().filter(|(path, _)| !stores.contains_key(*path));
        gone.for_each(|(_, opened)| opened.directory.end_watch());
        if let Some(known) = self.known.get() {
            let names: Vec<_> = plan.exports.iter().map(|export| export.name.as_str()).collect();
            known.exports_are(&names);
        }
        *state = State { plan: Plan { state: place, ..plan }, facts, stores };
        Ok(difference)
    }

    /// Resolves the host names in the rules again; does nothing if no rule contains a host name.
    pub(crate) fn look_up_again(&self) {
        let exports = {
            let state = self.lock();
            let rules: Vec<_> =
                state.plan.exports.iter().map(|export| export.rules.clone()).collect();
            rules
        };
        let named = |rules: &Vec<_>| {
            let all = rules.iter().flat_map(|rule: &leasehold_serve::access::Rule| &rule.clients);
            all.into_iter().any(is_name)
        };
        if !exports.iter().any(named) {
            return;
        }
        let mut found = exports.clone();
        for rules in &mut found {
            // If a host name cannot be resolved now, its rule keeps the earlier addresses: ignore
            // the error.
            let _ = crate::config::look_up(rules);
        }
        let mut state = self.lock();
        let current = state.plan.exports.iter().map(|export| &export.rules);
        if found == exports || !current.eq(exports.iter()) {
            return;
        }
        for (export, rules) in state.plan.exports.iter_mut().zip(found) {
            export.rules = rules;
        }
        let offered = offers(&state.plan, &state.stores, &state.plan.state);
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let (Ok(offers), Some(service)) = (offered, service) {
            tracing::info!("the addresses of hosts in rules have changed");
            service.offer(offers);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic cannot leave the state inconsistent, because the plan and its stores are replaced
        // in one step: the lock is used even if it is poisoned.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Served for Serving {
    fn volumes(&self) -> Vec<(String, Volume)> {
        let state = self.lock();
        let of = |export: &Planned| {
            let volume = state.stores.get(&export.directory)?.volume.clone()?;
            Some((export.name.clone(), volume))
        };
        state.plan.exports.iter().filter_map(of).collect()
    }

    fn homes(&self) -> Vec<(PathBuf, u32, Volume)> {
        let state = self.lock();
        let of = |(directory, opened): (&PathBuf, &Opened)| {
            let volume = opened.volume.clone()?;
            Some((directory.clone(), opened.layout.scrub_after_s, volume))
        };
        state.stores.iter().filter_map(of).collect()
    }
}

/// Rejects a change that would make the server join or leave a group of metaservers. Such a change
/// needs a restart, because the start determines the key of the handles and the program for peers.
fn stays_in_its_group(served: &Plan, next: &Plan) -> Result<(), Failure> {
    let grouped = |plan: &Plan| {
        let grouped = plan.exports.iter().filter(|export| export.layout.group.is_some());
        grouped.map(|export| export.directory.clone()).collect::<Vec<_>>()
    };
    if grouped(served) == grouped(next) {
        return Ok(());
    }
    let text = "changing the exports of several metaservers requires a restart";
    Err(Kind::Options.because(text))
}

/// Returns the directories of an export that only one process at a time may use: the names of a
/// volume, its stripes on this machine, and the directory of an iod. If two processes created
/// stripe objects there, each would take the other's objects for its own.
fn claimed(export: &Planned) -> impl Iterator<Item = &Path> {
    let layout = &export.layout;
    let is_claimed = layout.is_spread() || export.secret.is_some();
    let stripes = layout.paths.iter().map(PathBuf::as_path);
    is_claimed.then_some(export.directory.as_path()).into_iter().chain(stripes)
}

/// Returns true if the path of an opened directory now leads to another directory or to no
/// directory.
fn is_replaced(path: &Path, opened: Option<&Origin>) -> bool {
    let Some(opened) = opened else { return false };
    match Origin::of(path) {
        Ok(now) => !opened.may_be(&now),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

impl How {
    fn open(
        self,
        export: &Planned,
        verifier: Verifier,
        share: usize,
        (state, noted): (&Path, &Arc<Noted>),
    ) -> Result<Opened, Failure> {
        let layout = export.layout.clone();
        let share = share * (1 + layout.paths.len());
        let one = |path: &Path| self.directory(path, verifier, share).map(Arc::new);
        let directory = one(&export.directory)?;
        let disks = layout.paths.iter().map(|path| one(path)).collect::<Result<Vec<_>, _>>()?;
        let claims = claimed(export).map(cluster::claim).collect::<Result<Vec<_>, _>>()?;
        let (volume, metaserver) = match disks.as_slice() {
            [] if layout.is_spread() => {
                let sync = self.durability != dir::Durability::Memory;
                let names = Names { sync, verifier, loops: self.loops };
                let opened = cluster::open_iods(&layout, &export.directory, &directory, &names)?;
                (Some(opened.0), opened.1)
            }
            [] => {
                // Nothing wraps this store, so the store itself may hand over waiting operations.
                directory.hand_over_waits();
                (None, None)
            }
            disks => (Some(cluster::open(&layout, &directory, disks)?), None),
        };
        if let Some(volume) = &volume {
            let sync = self.durability != dir::Durability::Memory;
            keep_removals(&volume.striped, &export.directory, state, sync);
            keep_turns(volume, &export.directory, state)?;
        }
        let crossing = self.crossing(export, &directory, share, noted)?;
        let store: Arc<dyn Store> = match &volume {
            Some(volume) => Arc::<Striped>::clone(&volume.striped),
            None => answering(crossing.as_ref(), &directory),
        };
        let origin = Origin::of(&export.directory).ok();
        Ok(Opened {
            directory,
            disks,
            layout,
            origin,
            crossing,
            store,
            volume,
            metaserver,
            _claims: claims.into(),
        })
    }

    /// Returns the store with the file systems that are mounted below the directory, if the export
    /// lets clients enter them.
    fn crossing(
        self,
        export: &Planned,
        directory: &Arc<DirStore>,
        share: usize,
        noted: &Arc<Noted>,
    ) -> Result<Option<Arc<Crossing>>, Failure> {
        if !export.cross {
            return Ok(None);
        }
        let numbers = noted.of(&export.directory).map_err(|error| {
            let shown = export.directory.display();
            Kind::Directory.because(format!("cannot serve {shown}: {error}"))
        })?;
        let below = dir::Below {
            blocking: Arc::new(Pool::new()),
            durability: self.durability,
            descriptors_max: (self.descriptors_max / share / BELOW_SHARES).max(DESCRIPTORS_FEW),
            handles: dir::HandleSource::Probe,
            numbers: Arc::new(numbers),
        };
        Ok(Some(Arc::new(Crossing::new(Arc::clone(directory), below))))
    }

    /// Connects a service with its metaservers and with the watches for local programs. The service
    /// watches only directories whose data is not striped.
    fn heed<'a>(
        self,
        service: &Arc<Service>,
        offers: &[Offer],
        stores: impl Iterator<Item = &'a Opened> + Clone,
    ) {
        for opened in stores.clone() {
            let of_it = |offer: &&Offer| Arc::ptr_eq(&offer.export.store, &opened.store);
            if let (Some(metaserver), Some(offer)) = (&opened.metaserver, offers.iter().find(of_it))
            {
                let (service, export) = (Arc::downgrade(service), offer.export.id);
                metaserver.lend_by(Arc::new(Clients { service, export }));
            }
        }
        let whole = stores.filter(|opened| opened.disks.is_empty() && !opened.layout.is_spread());
        for opened in whole.filter(|_| self.heeds_programs) {
            let of_it = |offer: &&Offer| Arc::ptr_eq(&offer.export.store, &opened.store);
            let Some(export) = offers.iter().find(of_it).map(|offer| offer.export.id) else {
                continue;
            };
            let (directory, service) = (Arc::clone(&opened.directory), Arc::clone(service));
            let watch = move || {
                let (rate, warned) = (Rate::one_in(SHORT_INTERVAL), Cell::new(0));
                let tell = |object, disturbance| {
                    let refused = directory.refused_guards();
                    if refused > warned.get() && rate.pass().is_some() {
                        warned.set(refused);
                        tracing::warn!(refused, "{SHORT}");
                    }
                    service.used_by_program(clock::now(), export, object, disturbance);
                };
                if let Err(error) = directory.watch(&tell) {
                    tracing::warn!(%error, "cannot enforce client leases against local programs");
                }
            };
            if let Err(error) = own::spawn("programs", watch) {
                tracing::warn!(%error, "cannot enforce client leases against local programs");
            }
        }
    }

    fn directory(self, path: &Path, verifier: Verifier, share: usize) -> Result<DirStore, Failure> {
        let options = dir::Options {
            blocking: Arc::new(Pool::new()),
            verifier,
            durability: self.durability,
            descriptors_max: self.descriptors_max / share,
            handles: dir::HandleSource::Probe,
        };
        DirStore::open(path, options).map_err(|error| {
            Kind::Directory.because(format!("cannot serve {}: {error}", path.display()))
        })
    }
}

/// The minimum interval between two log lines about rejected guards.
const SHORT_INTERVAL: Duration = Duration::from_mins(1);

const SHORT: &str = "granted leases that clients may not cache under: more files are leased than \
                     can be guarded against programs of this machine; raise the limit of open \
                     files (ulimit -n, LimitNOFILE) or fs.inotify.max_user_watches";

fn offers(
    plan: &Plan,
    stores: &BTreeMap<PathBuf, Opened>,
    state: &Path,
) -> Result<Vec<Offer>, Failure> {
    let directories: Vec<&Path> =
        plan.exports.iter().map(|export| export.directory.as_path()).collect();
    let is_one_of_several = stores.values().any(|opened| opened.metaserver.is_some());
    let numbers = match directories.as_slice() {
        [only] if is_one_of_several => vec![ids::of_group(state, only)?],
        all => ids::of(state, all)?,
    };
    let offer = |(export, id): (&Planned, _)| Offer {
        export: Export {
            id,
            name: export.name.clone(),
            path: export.directory.to_string_lossy().into_owned(),
            read_only: export.read_only,
            store: Arc::clone(&stores[&export.directory].store),
        },
        access: Access::new(export.rules.clone()),
        transfer_bytes_max: plan.transfer_bytes_max,
        secret: export.secret.clone(),
    };
    Ok(plan.exports.iter().zip(numbers).map(offer).collect())
}

fn random_verifier() -> Result<Verifier, Failure> {
    state::random().map(Verifier).map_err(|error| {
        Kind::Running.because(format!("the system returns no random numbers: {error}"))
    })
}
