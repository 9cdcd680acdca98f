//! The log of `--stable-log`: opening it, keeping it short, and telling how it is.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold_fs::Store;
use leasehold_shell::{Periodic, Pool, state};
use leasehold_store_dir::DirStore;
use leasehold_store_logged::{Event, FileMedia, Logged, Options};

use crate::failure::{Failure, Kind};
use crate::options::{Durability, Serve};

/// How long the disk may lag behind the log: as long as most file systems let their own journals.
/// It is also how much a replay may undo of what programs on this machine did.
const LAG: Duration = Duration::from_secs(5);

/// A log in use.
pub(crate) struct StableLog {
    logged: Arc<Logged>,
    _checkpoints: Periodic,
}

/// Whether the options go together, before any work starts.
pub(crate) fn check(options: &Serve, directory: &Path) -> Result<(), Failure> {
    let Some(path) = &options.stable_log else { return Ok(()) };
    if options.durability == Durability::Memory {
        let text = "--stable-log keeps what --durability memory gives up: choose one";
        return Err(Kind::Options.because(text));
    }
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    };
    if parent.canonicalize().is_ok_and(|parent| parent.starts_with(directory)) {
        let text = "--stable-log lies in the served directory: clients could change it";
        return Err(Kind::Options.because(text));
    }
    Ok(())
}

impl StableLog {
    /// Opens the log; after a crash, has the directory be as was answered.
    pub(crate) fn open(path: &Path, mib: u32, store: &Arc<DirStore>) -> Result<Self, Failure> {
        let unusable = |error: String| {
            Kind::State.because(format!("cannot use the log {}: {error}", path.display()))
        };
        let media = FileMedia::open(path).map_err(|error| unusable(error.to_string()))?;
        let boot = state::this_boot().map_err(|error| unusable(error.to_string()))?;
        let random = state::random().map_err(|error| unusable(error.to_string()))?;
        let synced = Arc::clone(store);
        let shown = path.display().to_string();
        let logged = Logged::open(Options {
            store: Arc::<DirStore>::clone(store) as Arc<dyn Store>,
            media: Box::new(media),
            size: u64::from(mib) << 20,
            boot,
            random,
            blocking: Arc::new(Pool::new()),
            sync_all: Box::new(move || synced.sync_all()),
            commits_names: store.commits_names(),
            report: Box::new(move |event| tell(&shown, event)),
        });
        let logged = Arc::new(logged.map_err(|error| unusable(error.to_string()))?);
        let lagging = Arc::clone(&logged);
        let checkpoints = Periodic::start("checkpoint", LAG, move || lagging.checkpoint())
            .map_err(|error| Kind::Running.because(format!("cannot start to serve: {error}")))?;
        Ok(Self { logged, _checkpoints: checkpoints })
    }

    /// What is served.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        Arc::<Logged>::clone(&self.logged)
    }

    /// Has the disk hold everything, when nothing is served any more.
    pub(crate) fn close(&self) {
        self.logged.close();
    }
}

/// One line of the log for an event.
fn tell(path: &str, event: Event) {
    match event {
        Event::Replayed(done) => {
            let (records, made, names) = (done.records, done.made, done.names);
            tracing::info!(path, records, made, names, "replayed the stable log");
            let (taken, failed, damaged) = (done.taken, done.failed, done.damaged);
            if taken != 0 {
                tracing::warn!(path, taken, "names of the stable log lead elsewhere by now");
            }
            if failed != 0 || damaged != 0 {
                tracing::error!(path, failed, damaged, "parts of the stable log are lost");
            }
        }
        Event::LogFailed(error) => {
            tracing::error!(path, %error, "the stable log failed: the disk is synced instead");
        }
        Event::NotVoid => {
            tracing::error!(path, "the stable log is out of date: clear it before its next use");
        }
        Event::DiskFailed => {
            tracing::error!(path, "the disk failed: no change is taken until a restart");
        }
    }
}
