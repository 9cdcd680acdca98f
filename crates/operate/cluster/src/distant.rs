//! Iods on other machines. The metaserver mounts each iod as soon as it is reachable.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_base::limits::durations::{IOD_RECONNECT_DELAY, JUKEBOX_AFTER};
use leasehold_fs::{ClientKey, FsError, MaybeReady, Verifier};
use leasehold_session::nfs::Version;
use leasehold_session::{Credential, Options as Calling, Session, Traffic};
use leasehold_shell::client::{Mounted, Runtime, SourcePort, Target, mount};
use leasehold_store_replica::Metaserver;
use leasehold_store_striped::{
    Around, FileIod, FlowControlledIod, Iod, Mark, Options as Laid, Pace, Remote, RetryingIod,
    Timeouts, Turns, VerifiedIod,
};
use tokio::sync::Mutex as Turnstile;

use crate::epochs::OwnEpoch;
use crate::group::Place;
use crate::{Failure, Group, IodAddress, Key, Kind};

/// The maximum time for which the start waits for an unreachable iod.
const AT_START: Duration = Duration::from_secs(5);

/// The properties of a metaserver's names, and its number of event loops.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// True if a reply implies that the change is on stable storage.
    pub sync: bool,
    /// The write verifier of this start.
    pub verifier: Verifier,
    /// The number of event loops.
    pub loops: NonZeroUsize,
}

/// The client side of calls to the iods of volumes.
pub struct Cluster {
    runtime: Runtime,
    /// The credential of calls to NFS servers that serve as iods without a cluster key.
    pub(crate) who: Credential,
    /// The credential of calls to iods of the cluster before this metaserver has an epoch. The
    /// credential contains a secret that no other server may receive.
    member: Option<Credential>,
    pub(crate) key: Option<Key>,
    pub(crate) epoch: Arc<OwnEpoch>,
    patience: Timeouts,
    pace: Arc<Pace>,
}

/// The kind of program that calls iods.
#[derive(Clone, Copy)]
pub enum Asker<'a> {
    /// A command.
    Command,
    /// A metaserver with its number of event loops, and its group if it is one of several.
    Server(NonZeroUsize, Option<&'a Group>),
}

/// An iod, with its state at the start.
pub struct Part<F> {
    /// The name of the iod in messages.
    pub label: String,
    /// The files of the iod; `None` while the iod is unreachable.
    pub files: Option<F>,
}

impl Cluster {
    /// Starts the client side of calls to iods. `key` is the file with the key of the cluster, and
    /// `give_up` the time after which an operation on an unreachable iod fails.
    ///
    /// # Errors
    /// The key cannot be used, or the system has no thread or socket left.
    pub fn start(key: Option<&Path>, give_up: Duration, asker: Asker<'_>) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Kind::Running.because(format!("cannot start to call iods: {error}"))
        };
        let runtime = Runtime::start().map_err(|error| failed(&error))?;
        let (runtime, group) = match asker {
            Asker::Server(loops, group) => (runtime.beside_loops(loops), group),
            Asker::Command => (runtime, None),
        };
        let system = rustix::system::uname();
        let machine = system.nodename().to_string_lossy().into_owned();
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        let who = Credential::system(&machine, uid.as_raw(), gid.as_raw(), &[]);
        let key = key.map(Key::of).transpose()?;
        let member = key.map(|key| {
            let word = key.of_epochs().member_word();
            Credential::system(&word, who.uid(), who.gid(), &[])
        });
        let patience = Timeouts { later: JUKEBOX_AFTER, give_up };
        let pace = Pace::new(clock(&runtime)?);
        let pace = match group {
            Some(group) => pace.one_of(group.me as usize, group.peers.len()),
            None => pace,
        };
        let epoch = Arc::new(OwnEpoch::of(key.map(Key::of_epochs)));
        let pace = Arc::new(pace);
        Ok(Self { runtime, who, member, key, epoch, patience, pace })
    }

    /// Makes a metaserver join its group.
    pub(crate) fn join(
        &self,
        group: &Group,
        directory: &Path,
        names: &Names,
        laid_out: Laid,
    ) -> Result<Metaserver, Failure> {
        let key = self.key.ok_or_else(|| {
            Kind::Configuration
                .because("metaservers authenticate each other by a key: name it with --cluster-key")
        })?;
        let &Names { sync, verifier, .. } = names;
        let (runtime, give_up) = (&self.runtime, self.patience.give_up);
        group.join(Place { runtime, key, directory, sync, verifier, give_up, laid_out })
    }

    /// Waits for `IOD_RECONNECT_DELAY`.
    pub(crate) async fn pause(&self) -> Result<(), Failure> {
        clock(&self.runtime)?.sleep(IOD_RECONNECT_DELAY).await;
        Ok(())
    }

    /// Mounts an iod, if it is reachable now.
    pub(crate) async fn find(&self, address: &IodAddress) -> Result<Part<Remote>, Failure> {
        let target = self.target(address)?;
        let target = Target { options: target.options.impatient(AT_START), ..target };
        let label = address.to_string();
        let who = self.asks(address);
        match mount(&self.runtime, &target, who).await {
            // The first mount used a short timeout to find out if the iod is reachable. The session
            // for later calls must retry for longer, so mount again with the usual timeouts.
            Ok(_) => {
                let mounted = mount(&self.runtime, &self.target(address)?, who).await;
                let epoch = self.epoch_said_to(address);
                let files = mounted.ok().and_then(|mounted| remote(mounted, who, &epoch));
                Ok(Part { label, files })
            }
            Err(leasehold_shell::client::NotFound::Refused(..)) => {
                let advice = match address {
                    IodAddress::OfCluster(_) => {
                        "it has another cluster key: use the same key for both with --cluster-key \
                         FILE"
                    }
                    IodAddress::Export(_) => "it does not export that directory to this machine",
                };
                Err(Kind::Directory
                    .because(format!("the iod {label} rejects this machine: {advice}")))
            }
            Err(error) => {
                tracing::warn!(iod = label, %error, "an iod is unreachable");
                Ok(Part { label, files: None })
            }
        }
    }

    /// Returns an iod, reachable or not, whose calls wait for it and retry.
    pub(crate) fn iod(
        &self,
        address: &IodAddress,
        mark: Mark,
        found: Option<FileIod<Remote>>,
        turns: &Arc<Turns>,
    ) -> Result<Arc<dyn Iod>, Failure> {
        let number = mark.number;
        let distant = Distant {
            runtime: self.runtime.clone(),
            who: self.asks(address).clone(),
            epoch: self.epoch_said_to(address),
            target: self.target(address)?,
            mark,
            mounted: Mutex::new(found.map(Arc::new)),
            mounting: Turnstile::default(),
            before: AtomicU64::new(0),
        };
        let judged = Arc::new(VerifiedIod::new(Arc::new(distant), number, Arc::clone(turns)));
        // `FlowControlledIod` is the outermost wrapper: a call gets its queue position there first,
        // and only then waits for the iod. Calls that wait for an unreachable iod thus count
        // against the limit.
        let patient = RetryingIod::new(judged, clock(&self.runtime)?, self.patience);
        Ok(Arc::new(FlowControlledIod::new(patient, Arc::clone(&self.pace))))
    }

    /// Returns the credential of calls to an iod before an epoch has begun.
    fn asks(&self, address: &IodAddress) -> &Credential {
        match (address, &self.member) {
            (IodAddress::OfCluster(_), Some(member)) => member,
            (IodAddress::OfCluster(_), None) | (IodAddress::Export(_), _) => &self.who,
        }
    }

    /// Returns the key from which the owner numbers for direct data access derive; `None` without a
    /// cluster key.
    pub(crate) fn client_key(&self) -> Option<ClientKey> {
        self.key.map(Key::of_clients)
    }

    /// Returns the epoch that calls to this iod contain. Calls to NFS servers outside the cluster
    /// contain no epoch.
    fn epoch_said_to(&self, address: &IodAddress) -> Arc<OwnEpoch> {
        match address {
            IodAddress::OfCluster(_) => Arc::clone(&self.epoch),
            IodAddress::Export(_) => Arc::default(),
        }
    }

    fn target(&self, address: &IodAddress) -> Result<Target, Failure> {
        let server = address.server();
        let path = match (address, self.key) {
            (IodAddress::Export(_), _) => [b"/", &server.path[..]].concat(),
            (IodAddress::OfCluster(_), Some(key)) => key.path().into_bytes(),
            (IodAddress::OfCluster(_), None) => {
                let text = "iods of a cluster require its key: name it with \
                            --cluster-key FILE";
                return Err(Kind::Configuration.because(text));
            }
        };
        let port = server.port.map(Into::into).or(match address {
            IodAddress::OfCluster(_) => Some(2049),
            IodAddress::Export(_) => None,
        });
        let version = Some(Version::V3);
        // An iod logs each path that it rejects, so do not try shorter paths after the whole path
        // fails.
        let only_whole = matches!(address, IodAddress::OfCluster(_));
        let found = Target::new(&server.host, &path, Calling::stream());
        Ok(Target { port, version, only_whole, ..found })
    }
}

fn clock(runtime: &Runtime) -> Result<Session, Failure> {
    // This session makes no calls; it only provides the clock, so its address does not matter.
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    let clock = runtime.session(nowhere, Calling::stream(), SourcePort::Any);
    clock.map_err(|error| Kind::Running.because(format!("cannot start to call iods: {error}")))
}

/// Returns the files of a server; `None` if only a part of the path is an export.
fn remote(mounted: Mounted, who: &Credential, epoch: &OwnEpoch) -> Option<Remote> {
    let machine = machine(mounted.server.ip());
    let Mounted { nfs, server, root, bounds, rest, .. } = mounted;
    let remote = || Remote::new(nfs, who.clone(), root, bounds, machine).reached_at(server);
    rest.is_empty().then(|| epoch.said_to(remote()))
}

/// Returns a number for the machine at an address. All servers at the address have the same number.
fn machine(address: IpAddr) -> u64 {
    let mut hasher = DefaultHasher::new();
    address.hash(&mut hasher);
    hasher.finish()
}

/// An iod that the metaserver mounts when the iod becomes reachable, and mounts again when the iod
/// serves another directory.
struct Distant {
    runtime: Runtime,
    who: Credential,
    epoch: Arc<OwnEpoch>,
    target: Target,
    mark: Mark,
    mounted: Mutex<Option<Arc<FileIod<Remote>>>>,
    /// The lock that makes concurrent calls wait while one call mounts the iod.
    mounting: Turnstile<()>,
    /// The sum of [`Iod::connections`] over the earlier mounts of this iod.
    before: AtomicU64,
}

impl Distant {
    fn mounted(&self) -> MutexGuard<'_, Option<Arc<FileIod<Remote>>>> {
        self.mounted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn present(&self) -> Option<Arc<FileIod<Remote>>> {
        self.mounted().clone()
    }

    async fn folder(&self) -> Result<Arc<FileIod<Remote>>, FsError> {
        if let Some(folder) = self.present() {
            return Ok(folder);
        }
        let _alone = self.mounting.lock().await;
        if let Some(folder) = self.present() {
            return Ok(folder);
        }
        let folder = Arc::new(self.open().await?);
        *self.mounted() = Some(Arc::clone(&folder));
        Ok(folder)
    }

    async fn open(&self) -> Result<FileIod<Remote>, FsError> {
        let who = self.epoch.who.get().unwrap_or(&self.who);
        let mounted = mount(&self.runtime, &self.target, who).await;
        let files = mounted.ok().and_then(|mounted| remote(mounted, who, &self.epoch));
        let files = files.ok_or(FsError::Delay)?;
        match Mark::of(&files).await {
            Ok(Some(mark))
                if mark.volume == self.mark.volume && mark.number == self.mark.number =>
            {
                self.epoch.note(&files).await?;
                FileIod::open(files, &self.mark).await
            }
            // The server now exports another directory at this path, or the directory has no valid
            // mark. Its files must not be used, so the call fails.
            Ok(_) | Err(_) => Err(FsError::Io),
        }
    }
}

impl Around for Distant {
    fn around<'a, T: Send + 'a>(
        &'a self,
        call: impl for<'i> FnOnce(&'i dyn Iod) -> MaybeReady<'i, Result<T, FsError>> + Send + 'a,
    ) -> MaybeReady<'a, Result<T, FsError>> {
        MaybeReady::later(async move {
            let folder = self.folder().await?;
            call(&*folder).await
        })
    }

    fn traffic_so_far(&self) -> Traffic {
        self.present().map_or_else(Traffic::default, |folder| folder.traffic())
    }

    fn connections_so_far(&self) -> u64 {
        let before = self.before.load(Ordering::Acquire);
        before + self.present().map_or(0, |folder| folder.connections())
    }

    fn is_stale(&self) {
        let mut mounted = self.mounted();
        if let Some(folder) = mounted.take() {
            self.before.fetch_add(folder.connections() + 1, Ordering::AcqRel);
        }
    }
}
