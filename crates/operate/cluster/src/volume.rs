//! The placement of striped data: in directories of this machine, or on iods of other machines.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_fs::{ClientKey, Store};
use leasehold_shell::client::block_on;
use leasehold_shell::{own, state};
use leasehold_store_dir::DirStore;
use leasehold_store_replica::Metaserver;
use leasehold_store_striped::{
    FileIod, Files, Iod, Local, LostIod, Mark, MarkError, Member, OpenError, Options, Striped,
    Turns, VerifiedIod,
};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::defaults::{INLINE_KIB, IOD_TIMEOUT_S, SCRUB_AFTER_S, UNIT_KIB};
use crate::members::{Members, Seen, is_made, members};
use crate::{Asker, Cluster, Failure, Group, IodAddress, Kind, Names, Part};

/// The distribution of the data of a served directory over directories or iods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The directories for stripes, as absolute paths without symbolic links; empty if the served
    /// directory contains the data itself.
    pub paths: Vec<PathBuf>,
    /// The iods on other machines, which replace `paths`.
    pub iods: Vec<IodAddress>,
    /// The file with the key of the cluster of the iods.
    pub cluster_key: Option<PathBuf>,
    /// The time without a reply of an iod until operations that need it fail, in seconds.
    pub iod_timeout_s: u32,
    /// The time until stripes that belong to no file are removed, in seconds; with zero only an
    /// administrator removes them.
    pub scrub_after_s: u32,
    /// The numbers of iods that are lost for good.
    pub lost: Vec<u16>,
    /// The numbers of iods to empty.
    pub drain: Vec<u16>,
    /// The number of iods that store each stripe.
    pub copies: u16,
    /// True if the rebalancer spreads existing files over additional iods.
    pub rebalance: bool,
    /// The size of a stripe of new files, in KiB.
    pub unit_kib: u32,
    /// The maximum size of a file that is stored whole, in KiB.
    pub inline_kib: u32,
    /// The metaservers of the file system, including this server.
    pub group: Option<Group>,
}

impl Default for Layout {
    /// Returns the layout of a served directory that contains the data itself.
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            iods: Vec::new(),
            cluster_key: None,
            iod_timeout_s: IOD_TIMEOUT_S,
            scrub_after_s: SCRUB_AFTER_S,
            lost: Vec::new(),
            drain: Vec::new(),
            copies: 1,
            rebalance: false,
            unit_kib: UNIT_KIB,
            inline_kib: INLINE_KIB,
            group: None,
        }
    }
}

/// A served volume: a directory of names with its stripes.
#[derive(Clone)]
pub struct Volume {
    /// The store that joins names and stripes.
    pub striped: Arc<Striped>,
    /// All present and former iods, by their numbers.
    pub members: Vec<Member>,
    /// The group of metaservers with this server's metaserver; `None` if this server is the only
    /// metaserver.
    pub group: Option<(Group, Metaserver)>,
    /// The rollback counters of the volume's iods.
    pub(crate) turns: Arc<Turns>,
}

impl Layout {
    /// Returns true if directories for stripes, or iods, store the data.
    #[must_use]
    pub fn is_spread(&self) -> bool {
        !self.paths.is_empty() || !self.iods.is_empty()
    }
}

/// Locks a directory of names or stripes for this process, until the caller drops the result.
///
/// # Errors
/// Another process has locked them.
pub fn claim(names: &Path) -> Result<OwnedFd, Failure> {
    let shown = names.display();
    let failed = |error: &dyn std::fmt::Display| {
        Kind::Directory.because(format!("cannot use {shown}: {error}"))
    };
    let directory = File::open(names).map_err(|error| failed(&error))?;
    match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            Err(failed(&"another process serves or repairs it, or stores stripes there"))
        }
        // Some file systems do not support locks. The directory is then used without a lock.
        Ok(()) | Err(_) => Ok(directory.into()),
    }
}

/// Opens a volume from a directory of names and directories of stripes on this machine.
///
/// # Errors
/// The directories do not form one volume, or cannot be used.
pub fn open(
    layout: &Layout,
    names: &Arc<DirStore>,
    disks: &[Arc<DirStore>],
) -> Result<Volume, Failure> {
    let parts = layout.paths.iter().zip(disks).map(|(path, disk)| Part {
        label: path.display().to_string(),
        files: Some(Local::new(Arc::<DirStore>::clone(disk))),
    });
    let turns = Arc::new(Turns::default());
    let present = |_: usize, mark: Mark, folder: Option<FileIod<Local>>| {
        let folder = folder.expect("a directory of this machine is there");
        let judged = VerifiedIod::new(Arc::new(folder), mark.number, Arc::clone(&turns));
        Ok(Arc::new(judged) as Arc<dyn Iod>)
    };
    let joined = join((layout, &turns), names, parts.collect(), None, present, |_| Ok(None));
    joined.map(|(store, _)| store)
}

/// Opens a volume from a directory of names and iods on other machines.
///
/// # Errors
/// The iods do not form one volume, cannot be used, or the metaserver cannot join its group.
pub fn open_iods(
    layout: &Layout,
    directory: &Path,
    names: &Arc<DirStore>,
    how: &Names,
) -> Result<(Volume, Option<Metaserver>), Failure> {
    let give_up = Duration::from_secs(layout.iod_timeout_s.into());
    let asker = Asker::Server(how.loops, layout.group.as_ref());
    let cluster = Cluster::start(layout.cluster_key.as_deref(), give_up, asker)?;
    let parts = block_on(async {
        let mut tries = TRIES;
        loop {
            let found = layout.iods.iter().map(|address| cluster.find(address));
            let parts: Vec<_> = join_all(found).await.into_iter().collect::<Result<_, _>>()?;
            // Only the first metaserver creates the volume. Each other metaserver repeats this loop
            // until the volume exists.
            let waits = layout.group.as_ref().is_some_and(|group| group.me > 0) && tries > 0;
            if !waits || is_made(&labels(&parts), &seen(&parts).await?) {
                break Ok::<_, Failure>(parts);
            }
            tries -= 1;
            cluster.pause().await?;
        }
    })?;
    let turns = Arc::new(Turns::default());
    let iod = |at: usize, mark, folder| cluster.iod(&layout.iods[at], mark, folder, &turns);
    let join_group = |laid_out: &Options| {
        let joined = layout
            .group
            .as_ref()
            .map(|group| cluster.join(group, directory, how, laid_out.clone()));
        joined.transpose()
    };
    join((layout, &turns), names, parts, Some(&cluster), iod, join_group)
}

/// The maximum number of checks whether the first metaserver has created the volume.
const TRIES: u32 = 150;

fn labels<F>(parts: &[Part<F>]) -> Vec<String> {
    parts.iter().map(|part| part.label.clone()).collect()
}

/// Reads the recorded state of each directory or iod of a volume.
async fn seen<F: Files + 'static>(parts: &[Part<F>]) -> Result<Vec<Seen>, Failure> {
    let mut seen = Vec::new();
    for Part { label, files } in parts {
        seen.push(match files {
            None => Seen::Away,
            Some(files) => match Mark::of(files).await.map_err(|it| unmarked(label, it))? {
                None => Seen::New,
                Some(mark) => Seen::Known(mark),
            },
        });
    }
    Ok(seen)
}

/// Returns a random volume number for a new volume. Fails if the directory of names is not empty.
async fn new_volume(names: &Arc<DirStore>) -> Result<u64, Failure> {
    let served = Local::new(Arc::<DirStore>::clone(names));
    let empty = served.is_empty(served.root()).await;
    if !empty.map_err(|error| failed("the served directory", error))? {
        let text = "existing files cannot be striped: with new places for stripes the served \
                    directory must be empty; copy the files in through a mount";
        return Err(Kind::Directory.because(text));
    }
    random()
}

/// Joins the directories or iods of a volume with its names into one store. The stores work on
/// other threads, because the calling thread must keep its identity: it also opens files in the
/// server's state directory.
fn join<F: Files + 'static>(
    (layout, turns): (&Layout, &Arc<Turns>),
    names: &Arc<DirStore>,
    parts: Vec<Part<F>>,
    cluster: Option<&Cluster>,
    iod: impl Fn(usize, Mark, Option<FileIod<F>>) -> Result<Arc<dyn Iod>, Failure>,
    join_group: impl FnOnce(&Options) -> Result<Option<Metaserver>, Failure>,
) -> Result<(Volume, Option<Metaserver>), Failure> {
    let (labels, found) = (labels(&parts), opened(seen(&parts))?);
    let Members { volume, members, numbers } = members(&labels, &found, &layout.lost)?;
    let volume = match volume {
        Some(known) => known,
        None => opened(new_volume(names))?,
    };
    let mut folders = Vec::new();
    for (part, &number) in parts.into_iter().zip(&numbers) {
        let mark = Mark { volume, number, members: members.clone() };
        let folder = match part.files {
            Some(files) => {
                let folder = FileIod::open(files, &mark);
                Some(opened(async { folder.await.map_err(|error| failed(&part.label, error)) })?)
            }
            None => None,
        };
        folders.push((mark, folder));
    }
    if let Some(unknown) = layout.drain.iter().find(|&&iod| usize::from(iod) >= members.len()) {
        return Err(Kind::Configuration.because(format!("unknown iod {unknown} in drain")));
    }
    let is_used =
        |(number, member): &(u16, &Member)| !member.gone && !layout.drain.contains(number);
    let shared = layout.group.is_some();
    let laid_out = Options {
        volume,
        unit: layout.unit_kib << 10,
        inline_bytes_max: if shared { 0 } else { layout.inline_kib << 10 },
        start: random()?,
        used: (0..).zip(&members).filter(is_used).map(|(number, _)| number).collect(),
        copies: layout.copies,
        rebalance: layout.rebalance,
        shared,
        leased: layout.group.as_ref().is_some_and(|group| group.strict),
        clients: client_key(cluster)?,
    };
    let joined = join_group(&laid_out)?;
    if let Some(cluster) = cluster {
        let ours = |at: usize| matches!(layout.iods[at], IodAddress::OfCluster(_));
        let there = folders.iter().zip(&labels).enumerate().filter(|(at, _)| ours(*at));
        let there = there.filter_map(|(_, ((_, folder), label))| {
            Some((label.as_str(), folder.as_ref()?.files()))
        });
        opened(cluster.begin(volume, joined.as_ref(), &there.collect::<Vec<_>>()))?;
    }
    let mut iods: Vec<Arc<dyn Iod>> = members.iter().map(|_| Arc::new(LostIod) as _).collect();
    for (at, (mark, folder)) in folders.into_iter().enumerate() {
        let number = usize::from(mark.number);
        iods[number] = iod(at, mark, folder)?;
    }
    let names: Arc<dyn Store> = match &joined {
        Some(metaserver) => Arc::new(metaserver.clone()),
        None => Arc::<DirStore>::clone(names),
    };
    let striped = Striped::open(names, iods, laid_out);
    let striped = opened(async { striped.await.map_err(|error| not_opened(error, &members)) })?;
    let group = layout.group.clone().zip(joined.clone());
    let turns = Arc::clone(turns);
    Ok((Volume { striped: Arc::new(striped), members, group, turns }, joined))
}

/// Runs work of stores on another thread, so that the calling thread keeps its identity: the work
/// may take the identities of callers.
///
/// # Errors
/// The system has no thread left.
pub(crate) fn aside<F: Future<Output: Send>>(
    work: impl FnOnce() -> F + Send,
) -> io::Result<F::Output> {
    own::aside(|| block_on(work()))
}

/// Runs work that opens a volume on another thread, as [`aside`] does.
fn opened<T: Send>(work: impl Future<Output = Result<T, Failure>> + Send) -> Result<T, Failure> {
    let failed = |error| Kind::Running.because(format!("cannot open a volume: {error}"));
    aside(|| work).map_err(failed)?
}

fn not_opened(error: OpenError, members: &[Member]) -> Failure {
    match error {
        OpenError::Copies => {
            Kind::Configuration.because("two copies of a stripe need two iods: name more")
        }
        OpenError::Count => Kind::Configuration.because("a volume has 1 to 48 iods"),
        OpenError::Unit => Kind::Configuration.because("the size of a stripe must be at least 1"),
        OpenError::Iod(number, error) => failed(&members[usize::from(number)].label, error),
    }
}

/// Returns the key from which the owner numbers for direct data access derive. Without a cluster
/// key the volume has no iods with that key, so its only metaserver uses a random key.
fn client_key(cluster: Option<&Cluster>) -> Result<ClientKey, Failure> {
    match cluster.and_then(Cluster::client_key) {
        Some(key) => Ok(key),
        None => state::random().map(ClientKey).map_err(|error| no_random(&error)),
    }
}

fn random() -> Result<u64, Failure> {
    state::random().map(u64::from_be_bytes).map_err(|error| no_random(&error))
}

fn no_random(error: &io::Error) -> Failure {
    Kind::Running.because(format!("the system returns no random numbers: {error}"))
}

fn failed(what: &str, error: leasehold_fs::FsError) -> Failure {
    Kind::Directory.because(format!("cannot use {what}: {error}"))
}

fn unmarked(place: &str, error: MarkError) -> Failure {
    let text = match error {
        MarkError::Files(error) => format!("cannot use {place}: {error}"),
        MarkError::NotEmpty => {
            format!("{place} contains files that are not stripes: name an empty directory")
        }
        MarkError::Damaged => format!("leasehold-iod in {place} is damaged"),
    };
    Kind::Directory.because(text)
}
