//! `leasehold cluster repair`: finds and removes stripe objects that belong to no file.
//!
//! If no metaserver serves the directory, this process reads the metafiles and queries the iods
//! itself. Otherwise the running metaserver searches, because only it knows the creations, moves
//! and renames in progress.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use leasehold_base::limits::durations::CLUSTER_COMMAND_TIMEOUT;
use leasehold_shell::client::block_on;
use leasehold_shell::control::Asker as Conversation;
use leasehold_store_striped::{
    FileIod, Iod, LeftOf, Leftovers, Listed, Mark, ObjectName, Placed, Remote, SearchError, list,
    remove,
};
use serde::{Deserialize, Serialize};

use super::group::is_one_of_several;
use super::options::Repair;
use super::{Asker, Cluster, IodAddress};
use crate::checks;
use crate::control::{self, Request};
use crate::failure::{Failure, Kind};
use crate::output::say;
use crate::running;
use crate::server_state::Serving;
use crate::stripes;

/// The result for an iod.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FoundOn {
    label: String,
    /// The number of the iod's stripe objects; `None` if the iod is unreachable.
    objects: Option<u64>,
    /// The number of stripe objects that belong to no file, and their size in bytes.
    orphans: u64,
    bytes: u64,
    /// The number of removed stripe objects; `None` if no removal was requested.
    removed: Option<u64>,
}

/// Finds stripe objects that belong to no file, and removes them if the options request it.
pub(crate) fn repair(options: &Repair) -> Result<(), Failure> {
    if is_one_of_several(&options.directory) {
        return Err(Kind::Directory.because(SearchError::Several.to_string()));
    }
    let found = match stripes::claim(&options.directory) {
        Ok(_claim) => by_this_process(options)?,
        Err(taken) => by_metaserver(options, &taken)?,
    };
    let is_most = most(found.iter().map(|on| (on.objects.unwrap_or_default(), on.orphans)));
    say(found.iter().map(|on| on.text(is_most)).collect::<String>())
}

/// Sends the request to the metaserver that serves the directory.
fn by_metaserver(options: &Repair, taken: &Failure) -> Result<Vec<FoundOn>, Failure> {
    let directory = checks::directory(&options.directory)?;
    let path = directory.to_str().ok_or_else(|| {
        Kind::Directory.because(format!("the name of {} is not UTF-8", directory.display()))
    })?;
    let state = running::state_of(options.state.as_deref(), Some(&directory));
    let state = state.map_err(|error| Kind::Directory.because(format!("{taken}, and {error}")))?;
    let mut metaserver = Conversation::connect(&state).map_err(|error| {
        let place = state.display();
        Kind::Directory.because(format!(
            "{taken}, and no server replies at {place} ({error}): name its state directory with \
             --state DIR"
        ))
    })?;
    let Repair { remove, even_most, .. } = *options;
    let request = Request::Repair { path: path.to_owned(), remove, even_most };
    control::ask_again(&mut metaserver, &state, &request)
        .and_then(|told| {
            serde_json::from_value(told).map_err(|error| format!("invalid reply: {error}"))
        })
        .map_err(|text| Kind::Running.because(text))
}

/// Searches a volume of this server.
///
/// # Errors
/// The fault and its remedy, as text.
pub(crate) fn repair_served(
    serving: &Serving,
    path: &Path,
    remove: bool,
    even_most: bool,
) -> Result<Vec<FoundOn>, String> {
    let of = serving.volume_of(path).filter(|(directory, _)| directory == path);
    let (directory, volume) =
        of.ok_or_else(|| format!("{} is not a directory of names of this server", path.display()))?;
    let unable = |error: &dyn fmt::Display| format!("{error}; nothing was removed");
    let found = stripes::aside(|| volume.striped.search()).map_err(|error| unable(&error))?;
    let found = found.map_err(|error| unable(&error))?;
    let removed = if remove {
        may_be_removed(&found.leftovers, &directory, even_most)?;
        let removed = stripes::aside(|| volume.striped.remove_found(&found));
        let removed = removed.map_err(|error| unable(&error))?;
        tracing::info!(
            directory = %path.display(),
            removed = removed.iter().sum::<u64>(),
            "removed stripes that belong to no file"
        );
        stripes::removals::trust(&volume.striped, path).unwrap_or_else(|error| {
            tracing::warn!(directory = %path.display(), %error,
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

/// Searches a directory that no metaserver serves.
fn by_this_process(options: &Repair) -> Result<Vec<FoundOn>, Failure> {
    let (iods, key) = options.iods.found(Some(&options.directory))?;
    let cluster = Cluster::start(key.as_deref(), CLUSTER_COMMAND_TIMEOUT, Asker::Command)?;
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
    take_out_named(&options.directory, &mut listed)?;
    let folders: Vec<&dyn Iod> = iods.iter().map(|iod| &iod.folder as &dyn Iod).collect();
    let leftovers = block_on(listed.measured(&folders));
    let mut removed = None;
    if options.remove {
        may_be_removed(&leftovers, &options.directory, options.even_most)
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
        let _ = stripes::removals::mark_repaired(&options.directory);
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

/// Returns true if more than half of the stripe objects belong to no file.
fn most(iods: impl Iterator<Item = (u64, u64)>) -> bool {
    let (all, orphans) = iods.fold((0, 0), |(all, sum), (of, orphans)| (all + of, sum + orphans));
    2 * orphans > all
}

impl FoundOn {
    fn text(&self, is_most: bool) -> String {
        let Self { label, objects, orphans, bytes, removed } = self;
        let Some(objects) = objects else {
            return format!("{label}: unreachable, not searched\n");
        };
        let done = match (orphans, removed) {
            (0, _) => String::new(),
            (_, None) if is_most => {
                format!(", {bytes} bytes, remove them with --remove --even-most")
            }
            (_, None) => format!(", {bytes} bytes, remove them with --remove"),
            (_, Some(removed)) if removed == orphans => format!(", {bytes} bytes, removed"),
            (_, Some(removed)) => format!(
                ", {bytes} bytes, {removed} of them removed: the others are in use or unreachable"
            ),
        };
        format!("{label}: {orphans} of {objects} objects belong to no file{done}\n")
    }
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
