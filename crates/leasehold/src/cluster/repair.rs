//! Stripes that no file has any more.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_shell::client::block_on;
use leasehold_store_striped::{Folder, Iod as _, Mark, ObjectName, Placed, Remote};

use super::group::is_one_of_several;
use super::options::Repair;
use super::{Asker, Cluster, IodAddress};
use crate::failure::{Failure, Kind};
use crate::say::say;
use crate::stripes;

/// How long an iod is waited for that does not answer any more.
const PATIENCE: Duration = Duration::from_secs(60);

/// Finds what no file has any more, and removes it where that is asked for.
pub(crate) fn repair(options: &Repair) -> Result<(), Failure> {
    if is_one_of_several(&options.directory) {
        let text = "files have their metafiles at several metaservers, and none knows them all: \
                    what no file has cannot be told";
        return Err(Kind::Directory.because(text));
    }
    let _claim = stripes::claim(&options.directory)?;
    let (iods, key) = options.iods.found(Some(&options.directory))?;
    let cluster = Cluster::start(key.as_deref(), PATIENCE, Asker::Command)?;
    let iods: Vec<_> = iods
        .iter()
        .map(|address| block_on(Held::by(&cluster, address)))
        .collect::<Result<_, _>>()?;
    let volume = iods.first().map(|iod| iod.volume);
    if let Some(other) = iods.iter().find(|iod| Some(iod.volume) != volume) {
        let text = format!("the iod {} is another volume's", other.label);
        return Err(Kind::Directory.because(text));
    }
    let named = named(&options.directory, volume.unwrap_or_default())?;
    if named.is_empty() && options.remove {
        let text = format!(
            "nothing in {} has stripes of this volume: it is not the directory of its metaserver",
            options.directory.display()
        );
        return Err(Kind::Directory.because(text));
    }
    for Held { label, folder, objects, .. } in iods {
        let orphans: Vec<_> = objects.iter().filter(|object| !named.contains(object)).collect();
        for object in &orphans {
            if options.remove {
                block_on(folder.remove(**object)).map_err(|error| failed(&label, &error))?;
            }
        }
        let done = match orphans.len() {
            0 => "",
            _ if options.remove => ", removed",
            _ => ", to be removed with --remove",
        };
        let (all, orphans) = (objects.len(), orphans.len());
        say(format!("{label}: {orphans} of {all} objects are of no file{done}\n"))?;
    }
    Ok(())
}

/// What an iod has.
struct Held {
    label: String,
    volume: u64,
    folder: Folder<Remote>,
    objects: Vec<ObjectName>,
}

impl Held {
    async fn by(cluster: &Cluster, address: &IodAddress) -> Result<Self, Failure> {
        let part = cluster.find(address).await?;
        let label = part.label;
        let files = part.files.ok_or_else(|| failed(&label, &"it does not answer"))?;
        let mark = Mark::of(&files).await.ok().flatten();
        let mark = mark.ok_or_else(|| failed(&label, &"it holds no stripes"))?;
        let folder = Folder::open(files, &mark).await.map_err(|error| failed(&label, &error))?;
        let objects = folder.objects().await.map_err(|error| failed(&label, &error))?;
        Ok(Self { label, volume: mark.volume, folder, objects })
    }
}

/// The objects of all files in a metaserver's directory.
fn named(directory: &Path, volume: u64) -> Result<BTreeSet<ObjectName>, Failure> {
    let mut named = BTreeSet::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        let unread = |error: io::Error| unreadable(&folder, &error);
        for entry in fs::read_dir(&folder).map_err(unread)? {
            let entry = entry.map_err(unread)?;
            let kind = entry.file_type().map_err(unread)?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file()
                && let Some(placed) = placed(&entry.path())?
                && placed.volume == volume
            {
                named.extend(placed.objects());
            }
        }
    }
    Ok(named)
}

fn placed(file: &PathBuf) -> Result<Option<Placed>, Failure> {
    let mut head = Vec::new();
    let read = File::open(file).and_then(|file| file.take(512).read_to_end(&mut head));
    read.map_err(|error| unreadable(file, &error))?;
    Placed::read(&head).map_err(|_| unreadable(file, &"it is no metafile"))
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    let text = format!("{}: {error}; nothing was removed", path.display());
    Kind::Directory.because(text)
}

fn failed(label: &str, error: &dyn std::fmt::Display) -> Failure {
    Kind::Running.because(format!("the iod {label}: {error}"))
}
