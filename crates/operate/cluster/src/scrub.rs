//! The background scrub: it searches for stripe objects that belong to no file, and removes them.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_base::units::Time;
use leasehold_shell::clock;
use leasehold_store_striped::{Found, LeftOf, Leftovers, Scrub, SearchError};

use crate::volume::aside;
use crate::{Served, Volume, removals};

/// The time between the start and the first search. Within this time unreachable iods can become
/// reachable.
const FIRST: Duration = Duration::from_secs(10);

/// The minimum and the maximum interval between searches. A search reads each metafile, so the
/// minimum limits its load.
const LEAST: Duration = Duration::from_secs(1);
const GREATEST: Duration = Duration::from_secs(3600);

/// The interval between new volume identities in the names. If the names are restored from a
/// backup, the identity in the backup differs from the identity that the iods have, so the
/// metaserver detects the backup unless it was made after the last new identity.
const STAMP_AFTER: Duration = Duration::from_secs(3600);

/// The scrub states of all volumes.
#[derive(Default)]
pub(crate) struct Scrubs(BTreeMap<PathBuf, State>);

struct State {
    scrub: Scrub,
    next: Time,
    /// The time at which the next volume identity is due.
    next_stamp: Time,
    /// True if the last search found stripe objects that another search has to confirm.
    has_found_some: bool,
    /// True if the log already reports that the scrub removes nothing from this volume.
    is_refused: bool,
}

impl Scrubs {
    /// Searches each volume whose search is due, and removes the stripe objects that belong to no
    /// file.
    pub(crate) fn run(&mut self, serving: &dyn Served) {
        let homes = serving.homes();
        self.0.retain(|directory, _| homes.iter().any(|(home, ..)| home == directory));
        for (directory, scrub_after_s, volume) in homes {
            // Skip a volume of several metaservers: no single metaserver has all metafiles, so a
            // stripe object without a metafile here may belong to a file of another metaserver.
            if volume.group.is_some() {
                continue;
            }
            let state = self.0.entry(directory.clone()).or_insert_with(|| State {
                scrub: Scrub::default(),
                next: clock::now() + FIRST,
                next_stamp: clock::now() + STAMP_AFTER,
                has_found_some: false,
                is_refused: false,
            });
            state.stamp(&directory, &volume);
            let is_due = state.has_found_some || volume.striped.removals_are_incomplete();
            if is_due && state.next <= clock::now() {
                let keep = Duration::from_secs(scrub_after_s.into());
                state.search(&directory, &volume, keep);
            }
        }
    }
}

impl State {
    /// Periodically writes a new volume identity into the names, unless the scrub suspects that the
    /// names are incomplete.
    fn stamp(&mut self, directory: &Path, volume: &Volume) {
        if clock::now() < self.next_stamp || volume.striped.names_are_doubted() {
            return;
        }
        self.next_stamp = clock::now() + STAMP_AFTER;
        if let Err(error) = removals::trust(&volume.striped, directory) {
            tracing::warn!(directory = %directory.display(), %error,
                "cannot write the identity of the volume into the names");
        }
    }

    fn search(&mut self, directory: &Path, volume: &Volume, keep: Duration) {
        let between = if keep.is_zero() { GREATEST } else { keep.clamp(LEAST, GREATEST) };
        // Clear the flag before the search. A removal that is lost from here on sets the flag
        // again, and the flag causes another search: this search may miss the stripe objects of
        // that removal.
        volume.striped.set_removals_incomplete(false);
        let failed = match aside(|| volume.striped.search()) {
            Ok(Ok(found)) => return self.found(directory, volume, (keep, between), found),
            Ok(Err(SearchError::Busy | SearchError::Ending)) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        volume.striped.set_removals_incomplete(true);
        if let Some(error) = failed {
            let directory = directory.display();
            tracing::warn!(%directory, error, "cannot search for stripes that belong to no file");
        }
        self.next = clock::now() + between.max(FIRST);
    }

    /// Removes the stripe objects that a search has found, if they were found long enough ago.
    fn found(
        &mut self,
        directory: &Path,
        volume: &Volume,
        (keep, between): (Duration, Duration),
        found: Found,
    ) {
        let mut asked = found.leftovers.iods.iter().zip(&volume.members);
        if asked.any(|(left, member)| left.is_none() && !member.gone) {
            volume.striped.set_removals_incomplete(true);
        }
        let (count, bytes) = (found.leftovers.count(), bytes(&found.leftovers));
        if count > 0 {
            let directory = directory.display();
            tracing::info!(%directory, count, bytes, "found stripes that belong to no file");
        }
        let refused = !keep.is_zero() && self.refuses(directory, volume, &found.leftovers);
        let is_kept = keep.is_zero() || refused;
        let ripe = self.scrub.ripe(found, clock::now(), keep);
        let removed = if is_kept { (0, 0) } else { remove(directory, volume, &ripe) };
        let left = count.saturating_sub(removed.0);
        volume.striped.set_orphans(left, bytes.saturating_sub(removed.1));
        // With `keep` zero, the scrub removes nothing: the objects are only counted, and an
        // administrator removes them. So no further search is due.
        self.has_found_some = left > 0 && !keep.is_zero();
        self.next = clock::now() + between;
    }

    /// Returns true if the directory may lack names, so that the scrub must not remove any stripe
    /// object.
    fn refuses(&mut self, directory: &Path, volume: &Volume, leftovers: &Leftovers) -> bool {
        let (are_most, directory) = (leftovers.are_most(), directory.display());
        let is_doubted = volume.striped.names_are_doubted() && leftovers.count() > 0;
        let refuses = are_most || is_doubted;
        if refuses && !self.is_refused {
            if are_most {
                tracing::warn!(
                    %directory,
                    "most stripes belong to no file, so the directory may lack names: nothing is \
                     removed; see leasehold cluster repair"
                );
            } else {
                tracing::warn!(
                    %directory,
                    "found stripes that belong to no file, and the last start with this state \
                     directory had another directory of names: nothing is removed, because the \
                     directory may be a copy or a backup without the newest names; if it has all \
                     names, run leasehold cluster repair --remove"
                );
            }
        }
        self.is_refused = refuses;
        refuses
    }
}

/// Removes stripe objects that belong to no file. Returns the number and the total bytes of the
/// removed objects.
fn remove(directory: &Path, volume: &Volume, ripe: &Found) -> (u64, u64) {
    if ripe.leftovers.count() == 0 {
        return (0, 0);
    }
    // Sync the names first. If a crash restored the name of a removed file after the removal of its
    // stripe objects, that file would have lost its data.
    let synced = File::open(directory).and_then(|file| Ok(rustix::fs::syncfs(file)?));
    if let Err(error) = synced {
        tracing::warn!(directory = %directory.display(), %error, "cannot sync the names");
        return (0, 0);
    }
    let removed = match aside(|| volume.striped.remove_found(ripe)) {
        Ok(removed) => removed.iter().sum(),
        Err(error) => {
            tracing::warn!(directory = %directory.display(), %error, "cannot remove stripes");
            return (0, 0);
        }
    };
    let directory = directory.display();
    tracing::info!(%directory, removed, "removed stripes that belong to no file");
    let is_all = removed == ripe.leftovers.count();
    (removed, if is_all { bytes(&ripe.leftovers) } else { 0 })
}

fn bytes(leftovers: &Leftovers) -> u64 {
    leftovers.iods.iter().flatten().map(LeftOf::bytes).sum()
}
