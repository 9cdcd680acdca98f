//! Looks after the files of volumes in the background, and removes the objects of removed files.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_shell::Periodic;
use leasehold_shell::client::block_on;
use leasehold_store_striped::{RebalanceReport, Removed};

use crate::failure::{Failure, Kind};
use crate::health::Healths;
use crate::scrub::Scrubs;
use crate::serving::Serving;
use crate::stripes::turns::{Mending, Work};

/// How soon it is seen that there is something to do, or that an iod is back.
const SOON: Duration = Duration::from_secs(1);

/// How long files are left alone that could not be moved.
const AGAIN: Duration = Duration::from_secs(10);

/// Looks after all volumes until it is dropped.
pub(crate) struct Tending {
    serving: Arc<Serving>,
    periodic: Vec<Periodic>,
}

impl Tending {
    /// Begins, on threads of its own: a search for stripes of no file reads each metafile, and no
    /// lost copy waits for such a search.
    pub(crate) fn begin(serving: &Arc<Serving>) -> Result<Self, Failure> {
        let [all, searched, probed] = [(); 3].map(|()| Arc::clone(serving));
        let (mut not_before, mut put_off) = (BTreeMap::new(), BTreeMap::new());
        let (mut scrubs, mut healths) = (Scrubs::default(), Healths::default());
        let (mut turns, judged) = (Work::default(), Arc::clone(serving));
        let (mut mending, left) = (Mending::default(), Arc::clone(serving));
        let tending = Periodic::start("tending", SOON, move || {
            tend(&all, &mut not_before);
            remove(&all, &mut put_off);
        });
        let scrubbing = Periodic::start("scrub", SOON, move || scrubs.run(&searched));
        // No probe of an iod that hangs keeps a lost copy waiting.
        let probing = Periodic::start("health", SOON, move || healths.run(&probed));
        // No turn waits for a file that moves.
        let judging = Periodic::start("turns", SOON, move || turns.run(&judged));
        // No turn waits for a walk over all files, either.
        let leaving = Periodic::start("older", SOON, move || mending.run(&left));
        let periodic = [tending, scrubbing, probing, judging, leaving];
        let periodic = periodic.into_iter().collect::<Result<_, _>>();
        let failed = |error| Kind::Running.because(format!("cannot start to serve: {error}"));
        Ok(Self { serving: Arc::clone(serving), periodic: periodic.map_err(failed)? })
    }
}

impl Drop for Tending {
    fn drop(&mut self) {
        self.serving.volumes().iter().for_each(|(_, volume)| volume.striped.end_tending());
        self.periodic.clear();
    }
}

fn tend(serving: &Serving, not_before: &mut BTreeMap<String, Instant>) {
    let now = Instant::now();
    for (name, volume) in serving.volumes() {
        if not_before.get(&name).is_some_and(|until| now < *until) {
            continue;
        }
        match block_on(volume.striped.tend()) {
            Ok(None | Some(RebalanceReport { moved: 0, left: 0 })) => continue,
            Ok(Some(RebalanceReport { moved, left: 0 })) => {
                tracing::info!(name, moved, "files were moved; all lie where they should");
                continue;
            }
            Ok(Some(RebalanceReport { moved, left })) => {
                tracing::warn!(name, moved, left, "files do not lie where they should");
            }
            Err(error) => tracing::warn!(name, %error, "cannot look after the files"),
        }
        not_before.insert(name, Instant::now() + AGAIN);
    }
}

/// Removes the objects that iods could not remove before.
fn remove(serving: &Serving, not_before: &mut BTreeMap<String, Instant>) {
    for (name, volume) in serving.volumes() {
        if not_before.get(&name).is_some_and(|until| Instant::now() < *until) {
            continue;
        }
        match block_on(volume.striped.finish_removals()) {
            None => continue,
            Some(Removed { removed, left: 0 }) => {
                tracing::info!(name, removed, "iods have removed the stripes that waited for them");
                continue;
            }
            Some(Removed { removed: 0, left: _ }) => {}
            Some(Removed { removed, left }) => {
                tracing::info!(name, removed, left, "stripes of removed files wait for their iods");
            }
        }
        not_before.insert(name, Instant::now() + AGAIN);
    }
}
