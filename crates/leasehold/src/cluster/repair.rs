//! `leasehold cluster repair`: finds and removes stripe objects that belong to no file, in this
//! process or by the metaserver that serves the directory.

use std::path::Path;

use leasehold_cluster::{self as cluster, FoundOn, claim, is_one_of_several};
use leasehold_shell::control::Asker as Conversation;
use leasehold_store_striped::SearchError;

use super::options::Repair;
use crate::checks;
use crate::control::{self, Request};
use crate::failure::{Failure, Kind};
use crate::output::say;
use crate::running;
use crate::server_state::Serving;

/// Finds stripe objects that belong to no file, and removes them if the options request it.
pub(crate) fn repair(options: &Repair) -> Result<(), Failure> {
    if is_one_of_several(&options.directory) {
        return Err(Kind::Directory.because(SearchError::Several.to_string()));
    }
    let found = match claim(&options.directory) {
        Ok(_claim) => by_this_process(options)?,
        Err(taken) => by_metaserver(options, &taken)?,
    };
    let is_most = most(found.iter().map(|on| (on.objects.unwrap_or_default(), on.orphans)));
    say(found.iter().map(|on| text(on, is_most)).collect::<String>())
}

/// Sends the request to the metaserver that serves the directory.
fn by_metaserver(options: &Repair, taken: &cluster::Failure) -> Result<Vec<FoundOn>, Failure> {
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
    cluster::repair_served(path, &super::volume_with(serving, path)?, remove, even_most)
}

/// Searches a directory that no metaserver serves.
fn by_this_process(options: &Repair) -> Result<Vec<FoundOn>, Failure> {
    let Repair { directory, remove, even_most, .. } = options;
    let (iods, key) = super::iods(&options.iods, Some(directory))?;
    let iods = (&*iods, key.as_deref());
    Ok(cluster::repair_unserved(directory, iods, *remove, *even_most)?)
}

/// Returns true if more than half of the stripe objects belong to no file.
fn most(iods: impl Iterator<Item = (u64, u64)>) -> bool {
    let (all, orphans) = iods.fold((0, 0), |(all, sum), (of, orphans)| (all + of, sum + orphans));
    2 * orphans > all
}

fn text(found: &FoundOn, is_most: bool) -> String {
    let FoundOn { label, objects, orphans, bytes, removed } = found;
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
