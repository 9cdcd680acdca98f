//! The search for stripe objects that belong to no file, and their removal.
//!
//! If no metaserver serves the directory of names, [`repair_unserved`] reads the metafiles and
//! queries the iods itself. Otherwise the running metaserver searches ([`repair_served`]), because
//! only it knows the creations, moves and renames in progress.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use leasehold_base::limits::durations::CLUSTER_COMMAND_TIMEOUT;
use leasehold_shell::client::block_on;
use leasehold_store_striped::{
    FileIod, Iod, LeftOf, Leftovers, Listed, Mark, ObjectName, Placed, Remote, list, remove,
};
use serde::{Deserialize, Serialize};

use crate::volume::aside;
use crate::{Asker, Cluster, Failure, IodAddress, Kind, Volume, removals};

/// The result for an iod.
#[derive(Debug, Serialize, Deserialize)]
pub struct FoundOn {
    /// The name of the iod in messages.
    pub label: String,
    /// The number of the iod's stripe objects; `None` if the iod is unreachable.
    pub objects: Option<u64>,
    /// The number of stripe objects that belong to no file.
    pub orphans: u64,
    /// The size of the stripe objects that belong to no file, in bytes.
    pub bytes: u64,
    /// The number of removed stripe objects; `None` if no removal was requested.
    pub removed: Option<u64>,
}

/// Searches a served volume with this directory of names, and removes the objects with `remove`;
/// with `even_most` also if most stripe objects belong to no file.
///
/// # Errors
/// The fault and its remedy, as text.
pub fn repair_served(
    directory: &Path,
    volume: &Volume,
    remove: bool,
    even_most: bool,
) -> Result<Vec<FoundOn>, String> {
    let unable = |error: &dyn fmt::Display| format!("{error}; nothing was removed");
    let found = aside(|| volume.striped.search()).map_err(|error| unable(&error))?;
    let found = found.map_err(|error| unable(&error))?;
    let removed = if remove {
        may_be_removed(&found.leftovers, directory, even_most)?;
        let removed = aside(|| volume.striped.remove_found(&found));
        let removed = removed.map_err(|error| unable(&error))?;
        tracing::info!(
            directory = %directory.display(),
            removed = removed.iter().sum::<u64>(),
            "removed stripes that belong to no file"
        );
        removals::trust(&volume.striped, directory).unwrap_or_else(|error| {
            tracing::warn!(directory = %directory.display(), %error,
                "cannot write the identity of the volume into the names");
        });
        Some(removed)
    } else {
        None
    };
    let labels = volume.members.iter().map(|member| member.label.clone());
    let mut told = told(labels, &found.leftovers, removed.as_deref());
    let mut members = volume.members.iter();
    told.retain(|_| members.next().is_some_and(|member| !member.gone));
    Ok(told)
}

/// Searches the iods of a directory of names that no metaserver serves, as [`repair_served`] does.
/// `key` is the file with the key of their cluster.
///
/// # Errors
/// A part of the directory or an iod cannot be read, or most stripe objects belong to no file.
pub fn repair_unserved(
    directory: &Path,
    (iods, key): (&[IodAddress], Option<&Path>),
    remove_found: bool,
    even_most: bool,
) -> Result<Vec<FoundOn>, Failure> {
    let cluster = Cluster::start(key, CLUSTER_COMMAND_TIMEOUT, Asker::Command)?;
    let mut iods: Vec<_> = iods
        .iter()
        .map(|address| block_on(Held::by(&cluster, address)))
        .collect::<Result<_, _>>()?;
    let volume = iods.first().map(|iod| iod.volume);
    if let Some(other) = iods.iter().find(|iod| Some(iod.volume) != volume) {
        let text = format!("the iod {} belongs to another volume", other.label);
        return Err(Kind::Directory.because(text));
    }
    let objects = iods.iter_mut().map(|iod| Some(core::mem::take(&mut iod.objects))).collect();
    let mut listed = Listed::new(volume.unwrap_or_default(), objects);
    take_out_named(directory, &mut listed)?;
    let folders: Vec<&dyn Iod> = iods.iter().map(|iod| &iod.folder as &dyn Iod).collect();
    let leftovers = block_on(listed.measured(&folders));
    let mut removed = None;
    if remove_found {
        may_be_removed(&leftovers, directory, even_most)
            .map_err(|text| Kind::Directory.because(text))?;
        let gone = iods.iter().zip(&leftovers.iods).map(|(iod, left)| {
            let objects = left.iter().flat_map(|left| &left.objects);
            let gone =
                objects.filter(|(name, extent)| block_on(remove(&iod.folder, *name, extent)));
            gone.count() as u64
        });
        removed = Some(gone.collect::<Vec<_>>());
        // The mark makes the next metaserver trust the directory; without the mark it only counts
        // such stripes. So a failure to write the mark is harmless, and its error is ignored.
        let _ = removals::mark_repaired(directory);
    }
    let labels = iods.iter().map(|iod| iod.label.clone());
    Ok(told(labels, &leftovers, removed.as_deref()))
}

/// Refuses a removal that is probably wrong. Otherwise syncs the names, so that a crash cannot
/// restore the name of a file whose stripe objects are removed.
fn may_be_removed(left: &Leftovers, directory: &Path, even_most: bool) -> Result<(), String> {
    let (count, all, place) = (left.count(), left.all(), directory.display());
    if even_most || !left.are_most() {
        let synced = File::open(directory).and_then(|file| Ok(rustix::fs::syncfs(file)?));
        return synced.map_err(|error| format!("{place}: {error}; nothing was removed"));
    }
    Err(if left.is_volumes {
        format!(
            "{count} of all {all} objects belong to no file, so {place} may lack names; nothing \
             was removed. If {place} has all names, add --even-most"
        )
    } else {
        format!(
            "no file in {place} has stripes of this volume: either all such files were removed, or \
             this is not the directory of its metaserver; nothing was removed. If all files were \
             removed, add --even-most"
        )
    })
}

fn told(
    labels: impl Iterator<Item = String>,
    leftovers: &Leftovers,
    removed: Option<&[u64]>,
) -> Vec<FoundOn> {
    let iods = labels.zip(&leftovers.iods).enumerate();
    iods.map(|(at, (label, left))| FoundOn {
        label,
        objects: left.as_ref().map(|left| left.all),
        orphans: left.as_ref().map_or(0, LeftOf::count),
        bytes: left.as_ref().map_or(0, LeftOf::bytes),
        removed: removed.map(|removed| removed[at]),
    })
    .collect()
}

/// The stripe objects of an iod.
struct Held {
    label: String,
    volume: u64,
    folder: FileIod<Remote>,
    objects: Vec<ObjectName>,
}

impl Held {
    async fn by(cluster: &Cluster, address: &IodAddress) -> Result<Self, Failure> {
        let part = cluster.find(address).await?;
        let label = part.label;
        let files = part.files.ok_or_else(|| failed(&label, &"it does not reply"))?;
        let mark = Mark::of(&files).await.ok().flatten();
        let mark = mark.ok_or_else(|| failed(&label, &"it is not a directory for stripes"))?;
        let folder = FileIod::open(files, &mark).await.map_err(|error| failed(&label, &error))?;
        let objects = list(&folder).await.map_err(|error| failed(&label, &error))?;
        Ok(Self { label, volume: mark.volume, folder, objects })
    }
}

/// Removes the stripe objects of all files in a metaserver's directory from the list.
fn take_out_named(directory: &Path, listed: &mut Listed) -> Result<(), Failure> {
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
            {
                listed.found(&placed);
            }
        }
    }
    Ok(())
}

fn placed(file: &PathBuf) -> Result<Option<Placed>, Failure> {
    let mut head = Vec::new();
    let read = File::open(file).and_then(|file| file.take(512).read_to_end(&mut head));
    read.map_err(|error| unreadable(file, &error))?;
    Placed::read(&head).map_err(|_| unreadable(file, &"not a metafile"))
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    let text = format!("{}: {error}; nothing was removed", path.display());
    Kind::Directory.because(text)
}

fn failed(label: &str, error: &dyn std::fmt::Display) -> Failure {
    Kind::Running.because(format!("the iod {label}: {error}"))
}
