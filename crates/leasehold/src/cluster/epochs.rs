//! The epoch of a metaserver, as the iods of its cluster know it: by it they refuse one that is over.
//!
//! Rules:
//! 1. A metaserver says its epoch in each call to an iod of its cluster. See `leasehold_serve::Epoch`.
//! 2. Before it serves, and before it uses an iod that was away, it has the epoch noted there on
//!    stable storage, beside the objects. That is a call, so the iod refuses all earlier epochs before.
//! 3. An iod that starts knows what is noted there.
//! 4. One of several has its epoch from its metafiles. One that is alone has none: it takes the next
//!    to what is noted, so whoever was started last is the one.

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

use super::Cluster;
use crate::failure::{Failure, Kind};

/// What the names of notes begin with.
const NAME: &str = "leasehold-epoch-";

/// More than a note has.
const NOTE_BYTES_MAX: u32 = 128;

/// How often the log tells at most that iods refuse this metaserver.
const COMPLAINTS_INTERVAL: Duration = Duration::from_secs(10);

/// The epoch of a metaserver, from when it has begun.
pub(super) struct OwnEpoch {
    /// The key of words at iods of the cluster; none for other servers.
    key: Option<EpochKey>,
    /// The name of its note, and the word in it; none where iods know a later one.
    note: OnceLock<[String; 2]>,
    /// Who says it.
    pub(super) who: Arc<OnceLock<Credential>>,
    /// Writes to the log that it is over.
    complain: Arc<dyn Fn() + Send + Sync>,
}

impl Default for OwnEpoch {
    fn default() -> Self {
        let rate = Rate::one_in(COMPLAINTS_INTERVAL);
        let complain = move || {
            let Some(held_back) = rate.pass() else { return };
            tracing::error!(
                held_back,
                "iods refuse this metaserver, since a later one has its place: end this one"
            );
        };
        let complain = Arc::new(complain);
        Self { key: None, note: OnceLock::new(), who: Arc::default(), complain }
    }
}

impl OwnEpoch {
    /// An epoch that iods of the cluster with this key hear of.
    pub(super) fn of(key: Option<EpochKey>) -> Self {
        Self { key, ..Self::default() }
    }

    /// Files of an iod. The iod hears of the epoch in each call once the epoch has begun, and lets
    /// clients in when the metaserver has judged the iod.
    pub(super) fn said_to(&self, iod: Remote) -> Remote {
        let iod = iod.later_as(Arc::clone(&self.who), Arc::clone(&self.complain));
        match self.key {
            Some(key) => iod.letting_in(Arc::new(move |turn| key.turn_word(turn))),
            None => iod,
        }
    }

    /// Has the epoch noted at an iod, if it has begun.
    pub(super) async fn note(&self, files: &impl Files) -> Result<(), FsError> {
        let Some([name, word]) = self.note.get() else { return Ok(()) };
        match files.put_note(name, word).await {
            Err(error @ (FsError::NoSpace | FsError::QuotaExceeded | FsError::ReadOnly)) => {
                // It was told, and what is there can be read.
                tracing::warn!(
                    %error,
                    "an iod has no room for the epoch of this metaserver: when it is started again it \
                     may not refuse one that is over"
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
    /// Begins an epoch of the metaserver of a volume: those of its iods that are there are told, each
    /// by its label and files, and others as soon as they are.
    pub(crate) async fn begin<F: Files>(
        &self,
        volume: u64,
        joined: Option<&Metaserver>,
        iods: &[(&str, &F)],
    ) -> Result<(), Failure> {
        let Some(key) = self.key.map(super::Key::of_epochs) else { return Ok(()) };
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
            // The clock is for iods that are away, and may know of a later one.
            None => known.saturating_add(1).max(u64::from(clock::seconds_since_1970())),
        };
        let word = Epoch { volume, metaserver, number }.word(key);
        let who = Credential::system(&word, self.who.uid(), self.who.gid(), &[]);
        // It is begun once: a volume is opened once.
        drop(self.epoch.who.set(who));
        if number < known {
            tracing::error!(
                known_epoch = known,
                this_epoch = number,
                "iods know a later epoch of this metaserver, as when its home was moved, or the \
                 metafiles are those of an old backup: they refuse it. If these are what is to be \
                 served, remove {name} from the directories of all iods, and start those again"
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

/// The epochs that metaservers have noted in the directory of an iod.
pub(crate) fn noted(directory: &Path, key: EpochKey) -> Result<Vec<Epoch>, Failure> {
    let failed = |error| {
        let shown = directory.display();
        Kind::Directory.because(format!("cannot read the epochs noted in {shown}: {error}"))
    };
    let mut noted = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if !entry.file_name().as_encoded_bytes().starts_with(NAME.as_bytes()) {
            continue;
        }
        match read(&entry.path()) {
            // What says nothing was not written whole, or with another key: nobody goes by it.
            Ok(word) => noted.extend(Epoch::of_word(word.trim_ascii(), key)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(noted)
}

/// What stands in a note, or the beginning of what is none.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut word = Vec::new();
    File::open(path)?.take(NOTE_BYTES_MAX.into()).read_to_end(&mut word)?;
    Ok(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_iod_reads_what_was_noted() {
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
