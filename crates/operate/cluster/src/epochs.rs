//! The server epoch of a metaserver at the iods of its cluster. By the epoch, iods reject a
//! metaserver that a later one has superseded.
//!
//! Rules:
//! 1. A metaserver sends its epoch in each call to an iod of its cluster. See
//!    `leasehold_serve::Epoch`.
//! 2. Before a metaserver serves, and before it uses an iod that was unreachable, it records its
//!    epoch at the iod on stable storage, in a note beside the stripe objects. The recording call
//!    itself contains the epoch, so the iod rejects all earlier epochs after it.
//! 3. An iod reads the recorded epochs when it starts.
//! 4. One of several metaservers takes its epoch from its metafiles. A single metaserver has no
//!    epoch in its metafiles: it takes the successor of the highest recorded epoch, so the
//!    metaserver that started last prevails.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold_fs::FsError;
use leasehold_serve::{Epoch, EpochKey};
use leasehold_session::Credential;
use leasehold_shell::{Rate, clock};
use leasehold_store_replica::Metaserver;
use leasehold_store_striped::{Files, Remote};

use crate::{Cluster, Failure, Key, Kind};

/// The prefix of the file names of notes with epochs.
const NAME: &str = "leasehold-epoch-";

/// The maximum size of a note in bytes.
const NOTE_BYTES_MAX: u32 = 128;

/// The minimum interval between log lines about iods that reject this metaserver.
const COMPLAINTS_INTERVAL: Duration = Duration::from_secs(10);

/// The epoch of this metaserver, after the epoch has begun.
pub(crate) struct OwnEpoch {
    /// The key of the authentication tokens for iods of the cluster; `None` for NFS servers outside
    /// the cluster.
    key: Option<EpochKey>,
    /// The file name of this metaserver's note, and the token in the note; unset if an iod has
    /// recorded a later epoch.
    note: OnceLock<[String; 2]>,
    /// The credential that contains the epoch.
    pub(crate) who: Arc<OnceLock<Credential>>,
    /// Logs that another metaserver has superseded this metaserver.
    complain: Arc<dyn Fn() + Send + Sync>,
}

impl Default for OwnEpoch {
    fn default() -> Self {
        let rate = Rate::one_in(COMPLAINTS_INTERVAL);
        let complain = move || {
            let Some(held_back) = rate.pass() else { return };
            tracing::error!(
                held_back,
                "iods reject this metaserver, because a later one has replaced it: end this one"
            );
        };
        let complain = Arc::new(complain);
        Self { key: None, note: OnceLock::new(), who: Arc::default(), complain }
    }
}

impl OwnEpoch {
    /// Creates an epoch for the iods of the cluster with this key.
    pub(crate) fn of(key: Option<EpochKey>) -> Self {
        Self { key, ..Self::default() }
    }

    /// Wraps the files of an iod. Each call to the iod contains the epoch as soon as the epoch has
    /// begun. The iod admits clients only after the metaserver has verified it.
    pub(crate) fn said_to(&self, iod: Remote) -> Remote {
        let iod = iod.later_as(Arc::clone(&self.who), Arc::clone(&self.complain));
        match self.key {
            Some(key) => iod.letting_in(Arc::new(move |turn| key.turn_word(turn))),
            None => iod,
        }
    }

    /// Records the epoch at an iod, if the epoch has begun.
    pub(crate) async fn note(&self, files: &impl Files) -> Result<(), FsError> {
        let Some([name, word]) = self.note.get() else { return Ok(()) };
        match files.put_note(name, word).await {
            Err(error @ (FsError::NoSpace | FsError::QuotaExceeded | FsError::ReadOnly)) => {
                // The iod has received the epoch with this call, and its data is readable: use the
                // iod, and log that it cannot record the epoch.
                tracing::warn!(
                    %error,
                    "an iod has no space to record the epoch of this metaserver: after a restart \
                     the iod may accept a superseded metaserver"
                );
                Ok(())
            }
            noted => noted,
        }
    }
}

fn name_of(metaserver: u32) -> String {
    format!("{NAME}{metaserver:08x}")
}

impl Cluster {
    /// Begins an epoch of the metaserver of a volume. The reachable iods, each with its label and
    /// files, receive the epoch now; an unreachable iod receives it when it becomes reachable.
    pub(crate) async fn begin<F: Files>(
        &self,
        volume: u64,
        joined: Option<&Metaserver>,
        iods: &[(&str, &F)],
    ) -> Result<(), Failure> {
        let Some(key) = self.key.map(Key::of_epochs) else { return Ok(()) };
        let failed =
            |label: &str, error| Kind::Directory.because(format!("cannot use {label}: {error}"));
        let metaserver = joined.map_or(Epoch::ALONE, |joined| joined.number().0);
        let name = name_of(metaserver);
        let mut known = 0;
        for (label, files) in iods {
            let noted = files.note(&name, NOTE_BYTES_MAX).await;
            let noted = noted.map_err(|error| failed(label, error))?.unwrap_or_default();
            let noted = Epoch::of_word(noted.trim_ascii(), key).filter(|it| it.volume == volume);
            known = known.max(noted.map_or(0, |noted| noted.number));
        }
        let number = match joined {
            Some(joined) => joined.epoch(),
            // An unreachable iod may have recorded a later epoch than `known`. The time in seconds
            // exceeds each epoch that an earlier start took from this clock, so use the larger
            // number.
            None => known.saturating_add(1).max(u64::from(clock::seconds_since_1970())),
        };
        let word = Epoch { volume, metaserver, number }.word(key);
        let who = Credential::system(&word, self.who.uid(), self.who.gid(), &[]);
        // `set` cannot fail, because a volume is opened once and its epoch begins once.
        drop(self.epoch.who.set(who));
        if number < known {
            tracing::error!(
                known_epoch = known,
                this_epoch = number,
                "iods have a later epoch of this metaserver, for example because its home was \
                 moved, or because the metafiles come from an old backup: they reject it. To \
                 serve these metafiles, remove {name} from the directories of all iods, and \
                 restart the iods"
            );
            return Ok(());
        }
        drop(self.epoch.note.set([name, format!("{word}\n")]));
        for (label, files) in iods {
            self.epoch.note(*files).await.map_err(|error| failed(label, error))?;
        }
        Ok(())
    }
}

/// Reads the epochs that metaservers have recorded in the directory of an iod.
///
/// # Errors
/// The directory cannot be read.
pub fn noted(directory: &Path, key: EpochKey) -> Result<Vec<Epoch>, Failure> {
    let failed = |error| {
        let shown = directory.display();
        Kind::Directory.because(format!("cannot read the epochs recorded in {shown}: {error}"))
    };
    let mut noted = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_name().as_encoded_bytes().starts_with(NAME.as_bytes()) {
            continue;
        }
        match read(&entry.path()) {
            // A crash may have left an incomplete note, or another cluster may have written the
            // note with its own key: ignore an invalid note.
            Ok(word) => noted.extend(Epoch::of_word(word.trim_ascii(), key)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(noted)
}

/// Reads a note. Reads at most `NOTE_BYTES_MAX` bytes, because the file may be another file of any
/// size.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut word = Vec::new();
    File::open(path)?.take(NOTE_BYTES_MAX.into()).read_to_end(&mut word)?;
    Ok(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iod_reads_recorded_epochs() {
        let folder = tempfile::tempdir().expect("there is room");
        let key = EpochKey([5; 16]);
        let put = |metaserver, text: &str| {
            fs::write(folder.path().join(name_of(metaserver)), text).expect("there is room");
        };
        fs::create_dir(folder.path().join("00")).expect("there is room");
        assert_eq!(noted(folder.path(), key).ok(), Some(Vec::new()));
        let epoch = Epoch { volume: 1, metaserver: Epoch::ALONE, number: 3 };
        put(Epoch::ALONE, &format!("{}\n", epoch.word(key)));
        put(0, "");
        put(1, &Epoch { metaserver: 1, ..epoch }.word(EpochKey([6; 16])));
        assert_eq!(noted(folder.path(), key).ok(), Some(vec![epoch]));
    }
}
