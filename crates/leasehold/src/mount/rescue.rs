//! Stores and reports written data that the server rejects after the program that wrote the data
//! has continued.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_client::{Error, NodeId, Refused, Rescuer, Status, Why};
use leasehold_shell::{Rate, state};

use crate::rescue::{DATA, FACTS, Facts, Piece};

/// The minimum interval between two log lines of the same kind: a full disk rejects the data of
/// many files at once.
const REPORTS_INTERVAL: Duration = Duration::from_secs(1);

/// Stores rejected data in files of the rescue directory, if there is one, and logs the rejection.
pub(crate) struct Keeper {
    directory: Option<PathBuf>,
    source: String,
    mounted_on: PathBuf,
    kept: Mutex<BTreeMap<NodeId, (String, Facts)>>,
    reports: Rate,
}

impl Keeper {
    /// Creates a keeper for a mount. Without a rescue directory, the keeper only reports rejected
    /// data, and the data is lost.
    pub(crate) fn new(directory: Option<PathBuf>, source: &str, mounted_on: &Path) -> Self {
        let (source, mounted_on) = (source.to_owned(), mounted_on.to_path_buf());
        let reports = Rate::one_in(REPORTS_INTERVAL);
        Self { directory, source, mounted_on, kept: Mutex::default(), reports }
    }

    fn keep(&self, place: &Path, refused: &Refused) -> io::Result<String> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (id, facts) = kept.entry(refused.node).or_insert_with(|| self.begun(refused));
        let directory = place.join(&*id);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let mut open = OpenOptions::new();
        let file = open.create(true).write(true).truncate(false).mode(0o600);
        let file = file.open(directory.join(DATA))?;
        file.write_all_at(&refused.data, refused.offset)?;
        file.sync_all()?;
        match &refused.why {
            Why::Late { found, .. } => facts.found = *found,
            Why::Failed(error) => facts.error = Some(error.to_string()),
        }
        facts.add(Piece { offset: refused.offset, bytes: refused.data.len() as u64 });
        state::put(&directory, FACTS, &[&serde_json::to_vec_pretty(facts)?])?;
        Ok(id.clone())
    }

    fn begun(&self, refused: &Refused) -> (String, Facts) {
        let when_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_secs());
        let (made_from, found) = match refused.why {
            Why::Late { made_from, found } => (made_from, found),
            Why::Failed(_) => (0, 0),
        };
        let facts = Facts {
            source: self.source.clone(),
            mounted_on: self.mounted_on.clone(),
            path: text_of(refused),
            when_s,
            made_from,
            found,
            error: None,
            pieces: Vec::new(),
        };
        (format!("{when_s}-{}-{}", std::process::id(), refused.node.0), facts)
    }
}

/// Returns the path of the file below the mount, if the path is known and is UTF-8.
fn text_of(refused: &Refused) -> Option<String> {
    let names = refused.path.as_ref()?;
    let names = names.iter().map(|name| std::str::from_utf8(name).ok());
    Some(names.collect::<Option<Vec<_>>>()?.join("/"))
}

/// Describes the reason why the server rejected data.
fn reason(why: &Why) -> String {
    match why {
        Why::Late { .. } => "another client has changed the file meanwhile".to_owned(),
        Why::Failed(Error::Failed(Status::NoSpace)) => "the server's disk is full".to_owned(),
        Why::Failed(error) => error.to_string(),
    }
}

impl Rescuer for Keeper {
    fn rescue(&self, refused: &Refused) {
        let (bytes, offset) = (refused.data.len(), refused.offset);
        let file = text_of(refused).unwrap_or_else(|| "(unknown name)".to_owned());
        let kept = self.directory.as_deref().map(|place| self.keep(place, refused));
        let Some(held_back) = self.reports.pass() else { return };
        let why = reason(&refused.why);
        match kept {
            Some(Ok(id)) => tracing::error!(
                ?file,
                offset,
                bytes,
                id,
                held_back,
                "the server rejected written data: {why}; `leasehold rescue` has the data"
            ),
            Some(Err(error)) => tracing::error!(
                ?file,
                offset,
                bytes,
                %error,
                held_back,
                "the server rejected written data: {why}; the data cannot be stored and is lost"
            ),
            None => tracing::error!(
                ?file,
                offset,
                bytes,
                held_back,
                "the server rejected written data: {why}; the data is lost, because this mount \
                 has no directory for rescue"
            ),
        }
    }
}
