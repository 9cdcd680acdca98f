//! Keeps what the server refuses because its file was changed elsewhere meanwhile.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use leasehold_client::{Late, NodeId, Rescuer};
use leasehold_shell::state;

use crate::rescue::{DATA, FACTS, Facts, Piece};

/// Keeps it in files of a directory.
pub(crate) struct Keeper {
    directory: PathBuf,
    source: String,
    mounted_on: PathBuf,
    kept: Mutex<BTreeMap<NodeId, (String, Facts)>>,
}

impl Keeper {
    /// One for a mount.
    pub(crate) fn new(directory: PathBuf, source: &str, mounted_on: &Path) -> Self {
        let (source, mounted_on) = (source.to_owned(), mounted_on.to_path_buf());
        Self { directory, source, mounted_on, kept: Mutex::default() }
    }

    fn keep(&self, late: &Late) -> io::Result<String> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (id, facts) = kept.entry(late.node).or_insert_with(|| self.begun(late));
        let directory = self.directory.join(&*id);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let mut open = OpenOptions::new();
        let file = open.create(true).write(true).truncate(false).mode(0o600);
        let file = file.open(directory.join(DATA))?;
        file.write_all_at(&late.data, late.offset)?;
        file.sync_all()?;
        facts.found = late.found;
        facts.add(Piece { offset: late.offset, bytes: late.data.len() as u64 });
        state::put(&directory, FACTS, &[&serde_json::to_vec_pretty(facts)?])?;
        Ok(id.clone())
    }

    fn begun(&self, late: &Late) -> (String, Facts) {
        let when_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_secs());
        let names = late.path.as_ref().and_then(|names| {
            let names = names.iter().map(|name| std::str::from_utf8(name).ok());
            names.collect::<Option<Vec<_>>>()
        });
        let facts = Facts {
            source: self.source.clone(),
            mounted_on: self.mounted_on.clone(),
            path: names.map(|names| names.join("/")),
            when_s,
            made_from: late.made_from,
            found: late.found,
            pieces: Vec::new(),
        };
        (format!("{when_s}-{}-{}", std::process::id(), late.node.0), facts)
    }
}

impl Rescuer for Keeper {
    fn rescue(&self, late: &Late) {
        let bytes = late.data.len();
        match self.keep(late) {
            Ok(id) => tracing::error!(
                id,
                bytes,
                "the server refused data of a file that was changed elsewhere: `leasehold rescue` \
                 has it"
            ),
            Err(error) => {
                let directory = self.directory.display();
                tracing::error!(%error, %directory, bytes, "data that was refused cannot be kept");
            }
        }
    }
}
