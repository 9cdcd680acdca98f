//! The write-ahead log of `--stable-log`: opening, checkpoints and reports.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leasehold_fs::Store;
use leasehold_shell::private::{self, Secrecy};
use leasehold_shell::{Periodic, Pool, state as shell_state};
use leasehold_store_dir::DirStore;
use leasehold_store_logged::{Event, FileMedia, Logged, OpenError, Options, Standing};

use crate::checks::is_reached;
use crate::config::options::{Durability, Server};
use crate::failure::{Failure, Kind};

/// The maximum time by which the disk lags behind the log, similar to the journals of most file
/// systems. A replay may undo changes that local programs made within this time.
const LAG: Duration = Duration::from_secs(5);

/// The file in the state directory that records the log and the directory of the log while the log
/// may contain data that the disk lacks: a start without the log then fails.
const NOTE: &str = "stable-log";

/// The prefix of the log's path in the note if the log is out of date and must not be replayed.
const VOID: &[u8] = b"void ";

/// The prefix of the log's path in the note if the log may contain changes that the disk lacks.
const IN_USE: &[u8] = b"in use ";

/// The separator between the path of the log and the path of the directory in the note.
const BETWEEN: u8 = 0;

/// A log in use.
pub(crate) struct StableLog {
    logged: Arc<Logged>,
    note: Arc<Note>,
    _checkpoints: Periodic,
}

/// Returns the absolute path of the log without symbolic links; the file may not exist yet. Runs
/// before the server starts any work.
pub(crate) fn check(options: &Server, directory: &Path) -> Result<Option<PathBuf>, Failure> {
    let Some(path) = &options.stable_log else { return Ok(None) };
    if options.durability == Some(Durability::Memory) {
        let text = "--stable-log and --durability memory exclude each other: choose one";
        return Err(Kind::Options.because(text));
    }
    let unusable = |error: io::Error| {
        Kind::State.because(format!("cannot use the log {}: {error}", path.display()))
    };
    let path = real(path).map_err(unusable)?;
    if path.starts_with(directory) || is_reached(&path, directory).map_err(unusable)? {
        let text = "--stable-log lies in the served directory: clients could change it";
        return Err(Kind::Options.because(text));
    }
    Ok(Some(path))
}

/// Returns the path without symbolic links of an existing file, or of a file that the server may
/// create.
fn real(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        result => return result,
    }
    // Only the parent is resolved, so a dangling symbolic link stays the last part of the path. The
    // log is opened without following a link, and the open then fails.
    let name = path.file_name().ok_or(ErrorKind::NotFound)?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => Ok(parent.canonicalize()?.join(name)),
        Some(_) | None => Ok(Path::new(".").canonicalize()?.join(name)),
    }
}

impl StableLog {
    /// Opens the log of a directory. After a crash, replays the acknowledged changes.
    pub(crate) fn open(
        path: &Path,
        mib: u32,
        (directory, store): (&Path, &Arc<DirStore>),
        state: &Path,
        standing: Standing,
    ) -> Result<Self, Failure> {
        let unusable = |error: String| {
            Kind::State.because(format!("cannot use the log {}: {error}", path.display()))
        };
        let media = FileMedia::open(path).map_err(|error| unusable(error.to_string()))?;
        let boot = shell_state::this_boot().map_err(|error| unusable(error.to_string()))?;
        let random = shell_state::random().map_err(|error| unusable(error.to_string()))?;
        let synced = Arc::clone(store);
        let note =
            Arc::new(Note { state: state.into(), log: path.into(), directory: directory.into() });
        let (void, shown) = (Arc::clone(&note), path.display().to_string());
        let logged = Logged::open(Options {
            store: Arc::<DirStore>::clone(store) as Arc<dyn Store>,
            media: Box::new(media),
            size: u64::from(mib) << 20,
            volume: store.volume(),
            standing,
            boot,
            random,
            // The log writes its header and the note on threads with the server's own identity,
            // because the callers of operations cannot access these files.
            blocking: Arc::new(Pool::own().map_err(|error| unusable(error.to_string()))?),
            sync_all: Box::new(move || synced.sync_all()),
            make_void: Box::new(move || void.put(VOID)),
            commits_names: store.commits_names(),
            report: Box::new(move |event| tell(&shown, event)),
        });
        let logged = logged.map_err(|error| {
            if matches!(error, OpenError::Emptied) {
                let note = state.join(NOTE);
                return unusable(format!("{error}: to discard them, remove {}", note.display()));
            }
            unusable(error.to_string())
        });
        let logged = Arc::new(logged?);
        note.put(IN_USE)
            .map_err(|error| unusable(format!("{}: {error}", state.join(NOTE).display())))?;
        let lagging = Arc::clone(&logged);
        let checkpoints = Periodic::start("checkpoint", LAG, move || lagging.checkpoint())
            .map_err(|error| Kind::Running.because(format!("cannot start to serve: {error}")))?;
        Ok(Self { logged, note, _checkpoints: checkpoints })
    }

    /// Returns the store that serves the directory through the log.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        Arc::<Logged>::clone(&self.logged)
    }

    /// Writes the changes so far to the disk, so that little work remains when the server ends.
    pub(crate) fn checkpoint(&self) {
        self.logged.checkpoint();
    }

    /// Writes all changes to the disk, after the server has stopped serving.
    pub(crate) fn close(&self) {
        if self.logged.close()
            && let Err(error) = fs::remove_file(self.note.state.join(NOTE))
        {
            tracing::warn!(%error, "the next start requires the stable log, although it is empty");
        }
    }
}

/// Returns the state of the log, as recorded in the state directory. Fails if the recorded log is
/// missing and may contain changes that the disk lacks.
pub(crate) fn standing(
    asked: Option<&Path>,
    directory: &Path,
    state: &Path,
) -> Result<Standing, Failure> {
    let note = state.join(NOTE);
    let noted = noted_of(&note)
        .map_err(|error| Kind::State.because(format!("cannot read {}: {error}", note.display())))?;
    let Some((is_void, path, of)) = noted else { return Ok(Standing::Unknown) };
    match asked.filter(|asked| asked.exists()) {
        Some(asked) if asked == path && is_void => Ok(Standing::Void),
        // The note belongs to another directory, so its state says nothing: the header of the log
        // shows if the log belongs to this directory.
        Some(asked) if asked == path && of != directory => Ok(Standing::Unknown),
        Some(asked) if asked == path => Ok(Standing::Last),
        Some(_) | None if is_void => Ok(Standing::Unknown),
        Some(_) | None => {
            let (path, note) = (path.display(), note.display());
            Err(Kind::State.because(format!(
                "acknowledged changes may be in the log {path} only: start with --stable-log \
                 {path}, or discard them and remove {note}"
            )))
        }
    }
}

/// Returns the log that a state directory records, and the directory of the log.
pub(crate) fn noted(state: &Path) -> io::Result<Option<(PathBuf, PathBuf)>> {
    Ok(noted_of(&state.join(NOTE))?.map(|(_, path, of)| (path, of)))
}

/// Reads a note. Returns true if the log is out of date, then the path of the log, and the
/// directory of the log.
fn noted_of(note: &Path) -> io::Result<Option<(bool, PathBuf, PathBuf)>> {
    let text = match private::read(note, Secrecy::Readable) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let (is_void, paths) = match (text.strip_prefix(VOID), text.strip_prefix(IN_USE)) {
        (Some(paths), _) => (true, paths),
        (None, paths) => (false, paths.unwrap_or_default()),
    };
    let mut paths = paths.splitn(2, |byte| *byte == BETWEEN);
    let mut path = || PathBuf::from(OsStr::from_bytes(paths.next().unwrap_or_default()));
    Ok(Some((is_void, path(), path())))
}

/// The record of a log in the state directory, and its future content.
struct Note {
    state: PathBuf,
    log: PathBuf,
    directory: PathBuf,
}

impl Note {
    /// Writes the note, unless the file already has this content: a full disk has no space for
    /// another file. The note is on stable storage when the call returns.
    fn put(&self, standing: &[u8]) -> io::Result<()> {
        let (log, directory) = (self.log.as_os_str(), self.directory.as_os_str());
        let parts = [standing, log.as_bytes(), &[BETWEEN], directory.as_bytes()];
        match private::read(&self.state.join(NOTE), Secrecy::Readable) {
            // The file was on stable storage before the rename gave it this name, so only the
            // directory still needs a sync.
            Ok(noted) if noted == parts.concat() => File::open(&self.state)?.sync_all(),
            Ok(_) | Err(_) => shell_state::put(&self.state, NOTE, &parts),
        }
    }
}

/// Logs an event.
fn tell(path: &str, event: Event) {
    match event {
        Event::Replayed(done) => {
            let (records, made, names) = (done.records, done.made, done.names);
            tracing::info!(path, records, made, names, "replayed the stable log");
            let (taken, failed, damaged) = (done.taken, done.failed, done.damaged);
            if taken != 0 {
                tracing::warn!(path, taken, "names in the stable log now lead to other objects");
            }
            if failed != 0 || damaged != 0 {
                tracing::error!(path, failed, damaged, "parts of the stable log are lost");
            }
        }
        Event::LogFailed(error) => {
            tracing::error!(path, %error, "the stable log failed: the disk is synced instead");
        }
        Event::NotVoid(error) => {
            tracing::error!(
                path,
                %error,
                "the stable log is out of date, but the state directory cannot record it: every \
                 change fails until it can; free some space there, or make the directory writable"
            );
        }
        Event::DiskFailed => {
            tracing::error!(
                path,
                "the disk failed: the server rejects all changes until a restart"
            );
        }
    }
}
