//! The rollback counters ("turns") of the iods of volumes, stored in the state directory, and the
//! repair of files after an iod was rolled back.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use leasehold_fs::{FsError, MaybeReady};
use leasehold_shell::client::block_on;
use leasehold_shell::private::{self, Secrecy};
use leasehold_shell::{own, state as shell_state};
use leasehold_store_striped::{RollbackReport, SearchError, TurnKeeper, TurnNotice};

use crate::{Failure, Kind, Served, Volume};

/// The prefix of the name of the file with a volume's rollback counters; the number of the volume
/// follows.
const NAME: &str = "turns-";

/// The first line of the file, with the version of its format.
const FIRST: &str = "leasehold turns 1";

/// The interval between increments of an iod's rollback counter while its stripe objects change.
const TURN_AFTER: Duration = Duration::from_secs(60);

/// The interval between walks while some files still depend on a rolled-back iod. A walk reads each
/// metafile, so it is expensive.
const MEND_AFTER: Duration = Duration::from_secs(600);

/// The first interval after a walk that failed or could not decide, or after an iod failed to
/// record its rollback counter. The interval doubles with each such walk, up to `MEND_AFTER`.
const MEND_AGAIN: Duration = Duration::from_secs(10);

/// A thread that stores rollback counters in a file. The thread never takes the identity of a
/// caller.
struct Keeper {
    /// The channel to the thread; `None` while the thread ends.
    sender: Option<Sender<Order>>,
    writing: Option<JoinHandle<()>>,
    directory: String,
    labels: Vec<String>,
}

/// A request to the thread: the text of the file, and the channel for the result.
type Order = (String, oneshot::Sender<io::Result<()>>);

impl Keeper {
    fn label(&self, iod: u16) -> &str {
        self.labels.get(usize::from(iod)).map_or("?", String::as_str)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(writing) = self.writing.take() {
            drop(writing.join());
        }
    }
}

impl TurnKeeper for Keeper {
    fn keep(&self, turns: &BTreeMap<u16, u64>) -> MaybeReady<'_, Result<(), FsError>> {
        let (done, stored) = oneshot::channel();
        if let Some(sender) = &self.sender {
            drop(sender.send((text(turns), done)));
        }
        MaybeReady::later(async move { stored.await.ok().and_then(Result::ok).ok_or(FsError::Io) })
    }

    fn notice(&self, notice: &TurnNotice) {
        let directory = &self.directory;
        match *notice {
            TurnNotice::Older { iod, noted, kept } => tracing::error!(
                directory,
                iod,
                place = self.label(iod),
                noted_turn = noted,
                kept_turn = kept,
                "an iod was rolled back, as after a restore from a backup: its data is rejected, \
                 and files without a second copy fail with EIO"
            ),
            TurnNotice::Current(iod) => tracing::info!(
                directory,
                iod,
                place = self.label(iod),
                "a rolled-back iod is up to date again"
            ),
            TurnNotice::NotNoted(iod, error) => tracing::warn!(
                directory,
                iod,
                place = self.label(iod),
                %error,
                "an iod cannot record its next rollback counter: a backup of the iod may be \
                 mistaken for its present state"
            ),
        }
    }
}

fn text(turns: &BTreeMap<u16, u64>) -> String {
    let lines = turns.iter().map(|(iod, turn)| format!("iod {iod} {turn}\n"));
    format!("{FIRST}\n{}", lines.collect::<String>())
}

fn parse(text: &str) -> Option<BTreeMap<u16, u64>> {
    let mut lines = text.lines();
    lines.next().filter(|first| *first == FIRST)?;
    let turn = |line: &str| {
        let (iod, turn) = line.strip_prefix("iod ")?.split_once(' ')?;
        Some((iod.parse().ok()?, turn.parse().ok()?))
    };
    lines.map(turn).collect()
}

/// Makes a metaserver verify the iods of a volume by the rollback counters in a state directory.
///
/// # Errors
/// The rollback counters cannot be read, or the system cannot start a thread.
pub fn keep(volume: &Volume, names: &Path, state: &Path) -> Result<(), Failure> {
    if volume.group.is_some() {
        // Without all names a metaserver cannot repair the files of a rolled-back iod. No single
        // metaserver of a group has all names, so such a volume has no rollback counters.
        volume.turns.begin(None, BTreeMap::new());
        return Ok(());
    }
    let name = format!("{NAME}{:016x}", volume.striped.options().volume);
    let path = state.join(&name);
    let kept = read(&path).map_err(|error| {
        let shown = path.display();
        let text = format!(
            "cannot read {shown}, which distinguishes current iods from old backups: {error}; if \
             the iods are current, remove the file"
        );
        Kind::Directory.because(text)
    })?;
    let (sender, orders) = mpsc::channel::<Order>();
    let place = state.to_owned();
    let writing = own::spawn("turns", move || {
        for (text, done) in orders {
            let stored = shell_state::put(&place, &name, &[text.as_bytes()]);
            if let Err(error) = &stored {
                tracing::error!(
                    state = %place.display(),
                    %error,
                    "cannot store the rollback counters of iods: backups may be mistaken for \
                     current iods"
                );
            }
            // The caller may have been cancelled, and then receives no result: ignore the error.
            drop(done.send(stored));
        }
    });
    let writing = writing.map_err(|error| {
        Kind::Running.because(format!("cannot store the rollback counters of iods: {error}"))
    })?;
    let keeper = Keeper {
        sender: Some(sender),
        writing: Some(writing),
        directory: names.display().to_string(),
        labels: volume.members.iter().map(|member| member.label.clone()).collect(),
    };
    volume.turns.begin(Some(Arc::new(keeper)), kept);
    Ok(())
}

fn read(path: &Path) -> io::Result<BTreeMap<u16, u64>> {
    let text = match private::read(path, Secrecy::Readable) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let unknown =
        || io::Error::new(ErrorKind::InvalidData, "the file is damaged, or has a later version");
    core::str::from_utf8(&text).ok().and_then(parse).ok_or_else(unknown)
}

/// The periodic work on the rollback counters of all volumes.
#[derive(Default)]
pub(crate) struct Work {
    next_turns: Option<Instant>,
}

impl Work {
    /// Runs the part of the work that is due.
    pub(crate) fn run(&mut self, serving: &dyn Served) {
        let are_due = self.next_turns.is_none_or(|next| next <= Instant::now());
        for (_, _, volume) in serving.homes() {
            block_on(volume.striped.judge_new_connections());
            if are_due && volume.group.is_none() {
                block_on(volume.striped.take_turns());
            }
        }
        if are_due {
            self.next_turns = Some(Instant::now() + TURN_AFTER);
        }
    }
}

/// The background repair of files on rolled-back iods of all volumes. Each repair is a walk over
/// all files and may take long, so it has its own thread: the rollback counters must not wait for
/// it.
#[derive(Default)]
pub(crate) struct Mending {
    /// The state of the last walk, for each directory of names with rolled-back iods.
    walks: BTreeMap<PathBuf, Walked>,
}

/// The state of the last walk for rolled-back iods.
struct Walked {
    older: Vec<u16>,
    /// The time of the next walk.
    next: Instant,
    /// The current interval between walks.
    pause: Duration,
    /// The incomplete result that the log has already reported.
    logged: Option<Unfinished>,
}

/// The iods that failed to record their rollback counters, with the errors, and the iods for which
/// the walk could not decide.
type Unfinished = (BTreeMap<u16, FsError>, BTreeSet<u16>);

impl Mending {
    /// Moves the stripes of all volumes off the rolled-back iods.
    pub(crate) fn run(&mut self, serving: &dyn Served) {
        for (directory, _, volume) in serving.homes() {
            self.mend(&directory, &volume);
        }
    }

    fn mend(&mut self, directory: &Path, volume: &Volume) {
        let older = volume.striped.older_iods();
        let known = self.walks.get(directory).filter(|known| known.older == older);
        if known.is_some_and(|known| Instant::now() < known.next) {
            return;
        }
        let again = next_pause(known.map(|known| known.pause));
        let before = known.and_then(|known| known.logged.clone());
        let (pause, logged) = match block_on(volume.striped.mend_older()) {
            Ok(None) => {
                self.walks.remove(directory);
                return;
            }
            Ok(Some(mended)) => {
                told(directory, volume, &mended);
                let RollbackReport { needed, undecided, not_noted, .. } = mended;
                let unfinished = (not_noted, undecided);
                if before.as_ref() != Some(&unfinished) {
                    told_unfinished(directory, volume, &unfinished);
                }
                let (not_noted, undecided) = &unfinished;
                let is_unfinished = !not_noted.is_empty() || !undecided.is_empty();
                let waits = !is_unfinished && !needed.is_empty();
                (if waits { MEND_AFTER } else { again }, Some(unfinished))
            }
            Err(SearchError::Busy | SearchError::Ending) => return,
            Err(error) => {
                let directory = directory.display();
                tracing::warn!(%directory, %error, "cannot check the files of a rolled-back iod");
                (again, before)
            }
        };
        let walked = Walked { older, next: Instant::now() + pause, pause, logged };
        self.walks.insert(directory.to_owned(), walked);
    }
}

/// Returns the interval after a failed walk: the doubled previous interval.
fn next_pause(before: Option<Duration>) -> Duration {
    before.map_or(MEND_AGAIN, |before| (before * 2).min(MEND_AFTER))
}

fn told_unfinished(directory: &Path, volume: &Volume, (not_noted, undecided): &Unfinished) {
    let directory = directory.display();
    let label = |iod: u16| volume.members[usize::from(iod)].label.as_str();
    for (&iod, error) in not_noted {
        tracing::warn!(
            %directory,
            iod,
            place = label(iod),
            %error,
            "no file depends on a rolled-back iod, but the iod cannot record its next rollback \
             counter: the metaserver retries"
        );
    }
    for &iod in undecided {
        tracing::warn!(
            %directory,
            iod,
            place = label(iod),
            "cannot check all files on a rolled-back iod, because other iods or metafiles are \
             unreachable: the metaserver retries"
        );
    }
}

fn told(directory: &Path, volume: &Volume, mended: &RollbackReport) {
    let RollbackReport { behind, current, needed, .. } = mended;
    let directory = directory.display();
    let label = |iod: u16| volume.members[usize::from(iod)].label.as_str();
    for &iod in current {
        tracing::info!(
            %directory,
            iod,
            place = label(iod),
            files = behind,
            "no file depends on a rolled-back iod any longer: the copies on the iod are rebuilt"
        );
    }
    for (&iod, files) in needed {
        tracing::error!(
            %directory,
            iod,
            place = label(iod),
            files,
            "files have their only good copy on a rolled-back iod, and fail with EIO: restore the \
             latest data of the iod, or remove the files, or run leasehold cluster believe"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_at_next_start() {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("turns-5");
        assert_eq!(read(&path).expect("no file has no turns"), BTreeMap::new());
        let turns = BTreeMap::from([(0, 7), (47, u64::MAX)]);
        shell_state::put(folder.path(), "turns-5", &[text(&turns).as_bytes()]).expect("room");
        assert_eq!(read(&path).expect("it was written whole"), turns);
    }

    #[test]
    fn interval_grows_after_failed_walks() {
        let mut pause = next_pause(None);
        assert_eq!(pause, MEND_AGAIN);
        for _ in 0..10 {
            let next = next_pause(Some(pause));
            assert!(next == MEND_AFTER || next == pause * 2, "{next:?}");
            pause = next;
        }
        assert_eq!(pause, MEND_AFTER);
    }

    #[test]
    fn counters_of_another_version_are_rejected() {
        for wrong in ["", "leasehold turns 2\niod 0 7\n", "leasehold turns 1\niod x 7\n"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!(parse(&text(&BTreeMap::new())), Some(BTreeMap::new()));
    }
}
