//! Stripes that no file has any more.
//!
//! Where no metaserver serves the directory, this process looks at its metafiles and asks the iods
//! itself; else the metaserver does so, which knows what is being made, moved and renamed.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

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
use crate::running;
use crate::say::say;
use crate::serving::Serving;
use crate::stripes;

/// How long an iod is waited for that does not answer any more.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was found on an iod.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FoundOn {
    label: String,
    /// How many objects it has; none where it does not answer.
    objects: Option<u64>,
    /// How many of them are of no file, and their bytes.
    orphans: u64,
    bytes: u64,
    /// How many of these were removed, where that was asked for.
    removed: Option<u64>,
}

/// Finds what no file has any more, and removes it where that is asked for.
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

/// Has the metaserver look that has the directory.
fn by_metaserver(options: &Repair, taken: &Failure) -> Result<Vec<FoundOn>, Failure> {
    let directory = checks::directory(&options.directory)?;
    let path = directory.to_str().ok_or_else(|| {
        Kind::Directory.because(format!("{}: its name is no text", directory.display()))
    })?;
    let state = running::state_of(options.state.as_deref(), Some(&directory));
    let state = state.map_err(|error| Kind::Directory.because(format!("{taken}, and {error}")))?;
    let mut metaserver = Conversation::connect(&state).map_err(|error| {
        let place = state.display();
        Kind::Directory.because(format!(
            "{taken}, and no server answers at {place} ({error}): name its state directory with \
             --state DIR"
        ))
    })?;
    let Repair { remove, even_most, .. } = *options;
    let request = Request::Repair { path: path.to_owned(), remove, even_most };
    control::ask_again(&mut metaserver, &state, &request)
        .and_then(|told| {
            serde_json::from_value(told).map_err(|error| format!("the answer is strange: {error}"))
        })
        .map_err(|text| Kind::Running.because(text))
}

/// Looks at a volume of this server.
///
/// # Errors
/// What is wrong and what to do, as text.
pub(crate) fn repair_served(
    serving: &Serving,
    path: &Path,
    remove: bool,
    even_most: bool,
) -> Result<Vec<FoundOn>, String> {
    let of = serving.volume_of(path).filter(|(directory, _)| directory == path);
    let (directory, volume) =
        of.ok_or_else(|| format!("{} is no directory of names of this server", path.display()))?;
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
            "stripes of no file were removed"
        );
        stripes::removals::trust(&volume.striped, path).unwrap_or_else(|error| {
            tracing::warn!(directory = %path.display(), %error, "the names cannot be stamped");
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

/// Looks while nobody serves the directory.
fn by_this_process(options: &Repair) -> Result<Vec<FoundOn>, Failure> {
    let (iods, key) = options.iods.found(Some(&options.directory))?;
    let cluster = Cluster::start(key.as_deref(), PATIENCE, Asker::Command)?;
    let mut iods: Vec<_> = iods
        .iter()
        .map(|address| block_on(Held::by(&cluster, address)))
        .collect::<Result<_, _>>()?;
    let volume = iods.first().map(|iod| iod.volume);
    if let Some(other) = iods.iter().find(|iod| Some(iod.volume) != volume) {
        let text = format!("the iod {} is another volume's", other.label);
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
        // Without the mark the next metaserver only counts the stripes of no file that it finds.
        let _ = stripes::removals::mark_repaired(&options.directory);
    }
    let labels = iods.iter().map(|iod| iod.label.clone());
    Ok(told(labels, &leftovers, removed.as_deref()))
}

/// Refuses to remove what can hardly be of no file, and makes sure that what was found to have no
/// name has none after a crash.
fn may_be_removed(left: &Leftovers, directory: &Path, even_most: bool) -> Result<(), String> {
    let (count, all, place) = (left.count(), left.all(), directory.display());
    if even_most || !left.are_most() {
        let synced = File::open(directory).and_then(|file| Ok(rustix::fs::syncfs(file)?));
        return synced.map_err(|error| format!("{place}: {error}; nothing was removed"));
    }
    Err(if left.is_volumes {
        format!(
            "{count} of all {all} objects are of no file, so {place} may not have all names; \
             nothing was removed. If it has, say --even-most"
        )
    } else {
        format!(
            "no file in {place} has stripes of this volume: all such files were removed, or it is \
             not the directory of its metaserver; nothing was removed. If all were removed, say \
             --even-most"
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

/// Whether most objects are of no file.
fn most(iods: impl Iterator<Item = (u64, u64)>) -> bool {
    let (all, orphans) = iods.fold((0, 0), |(all, sum), (of, orphans)| (all + of, sum + orphans));
    2 * orphans > all
}

impl FoundOn {
    fn text(&self, is_most: bool) -> String {
        let Self { label, objects, orphans, bytes, removed } = self;
        let Some(objects) = objects else {
            return format!("{label}: away, what it has was not looked at\n");
        };
        let done = match (orphans, removed) {
            (0, _) => String::new(),
            (_, None) if is_most => {
                format!(", {bytes} bytes, to be removed with --remove --even-most")
            }
            (_, None) => format!(", {bytes} bytes, to be removed with --remove"),
            (_, Some(removed)) if removed == orphans => format!(", {bytes} bytes, removed"),
            (_, Some(removed)) => format!(
                ", {bytes} bytes, {removed} of them removed: others cannot be now, or are in use"
            ),
        };
        format!("{label}: {orphans} of {objects} objects are of no file{done}\n")
    }
}

/// What an iod has.
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
        let files = part.files.ok_or_else(|| failed(&label, &"it does not answer"))?;
        let mark = Mark::of(&files).await.ok().flatten();
        let mark = mark.ok_or_else(|| failed(&label, &"it holds no stripes"))?;
        let folder = FileIod::open(files, &mark).await.map_err(|error| failed(&label, &error))?;
        let objects = list(&folder).await.map_err(|error| failed(&label, &error))?;
        Ok(Self { label, volume: mark.volume, folder, objects })
    }
}

/// Takes out the objects of all files in a metaserver's directory.
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
    Placed::read(&head).map_err(|_| unreadable(file, &"it is no metafile"))
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    let text = format!("{}: {error}; nothing was removed", path.display());
    Kind::Directory.because(text)
}

fn failed(label: &str, error: &dyn std::fmt::Display) -> Failure {
    Kind::Running.because(format!("the iod {label}: {error}"))
}
