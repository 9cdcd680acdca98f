//! The background work on volumes: the rebalancer moves files to other iods and removes the stripe
//! objects of removed files; other threads scrub, probe iods and check rollback counters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_base::limits::durations::REBALANCE_RETRY_DELAY;
use leasehold_shell::Periodic;
use leasehold_shell::client::block_on;
use leasehold_store_striped::{RebalanceReport, Removed};

use crate::health::Healths;
use crate::scrub::Scrubs;
use crate::turns::{Mending, Work};
use crate::{Failure, Kind, Served};

/// The interval between checks for work, or for an iod that has become reachable again.
const SOON: Duration = Duration::from_secs(1);

/// The rebalancer of all volumes; it ends on drop.
pub struct Tending {
    serving: Arc<dyn Served>,
    periodic: Vec<Periodic>,
}

impl Tending {
    /// Starts each kind of work on a thread of its own, so that a slow kind does not delay another:
    /// a search for stripes that belong to no file reads each metafile, and the repair of a lost
    /// copy must not wait for the search.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn begin(serving: &Arc<dyn Served>) -> Result<Self, Failure> {
        let [all, searched, probed] = [(); 3].map(|()| Arc::clone(serving));
        let (mut not_before, mut put_off) = (BTreeMap::new(), BTreeMap::new());
        let (mut scrubs, mut healths) = (Scrubs::default(), Healths::default());
        let (mut turns, judged) = (Work::default(), Arc::clone(serving));
        let (mut mending, left) = (Mending::default(), Arc::clone(serving));
        let tending = Periodic::start("tending", SOON, move || {
            tend(&*all, &mut not_before);
            remove(&*all, &mut put_off);
        });
        let scrubbing = Periodic::start("scrub", SOON, move || scrubs.run(&*searched));
        // A probe of an iod that does not reply may wait long, so it has its own thread: the repair
        // of a lost copy must not wait.
        let probing = Periodic::start("health", SOON, move || healths.run(&*probed));
        // A file may take long to move, so the check of the rollback counters has its own thread.
        let judging = Periodic::start("turns", SOON, move || turns.run(&*judged));
        // The mending of files after a rollback walks over all files, so it has its own thread: the
        // check of the rollback counters must not wait for the walk.
        let leaving = Periodic::start("older", SOON, move || mending.run(&*left));
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

fn tend(serving: &dyn Served, not_before: &mut BTreeMap<String, Instant>) {
    let now = Instant::now();
    for (name, volume) in serving.volumes() {
        if not_before.get(&name).is_some_and(|until| now < *until) {
            continue;
        }
        match block_on(volume.striped.tend()) {
            Ok(None | Some(RebalanceReport { moved: 0, left: 0 })) => continue,
            Ok(Some(RebalanceReport { moved, left: 0 })) => {
                tracing::info!(name, moved, "moved files; all files have their intended layout");
                continue;
            }
            Ok(Some(RebalanceReport { moved, left })) => {
                tracing::warn!(name, moved, left, "some files do not have their intended layout");
            }
            Err(error) => tracing::warn!(name, %error, "cannot rebalance the files"),
        }
        not_before.insert(name, Instant::now() + REBALANCE_RETRY_DELAY);
    }
}

/// Removes the stripe objects that iods could not remove at the first attempt.
fn remove(serving: &dyn Served, not_before: &mut BTreeMap<String, Instant>) {
    for (name, volume) in serving.volumes() {
        if not_before.get(&name).is_some_and(|until| Instant::now() < *until) {
            continue;
        }
        match block_on(volume.striped.finish_removals()) {
            None => continue,
            Some(Removed { removed, left: 0 }) => {
                tracing::info!(
                    name,
                    removed,
                    "iods have removed the remaining stripes of removed files"
                );
                continue;
            }
            Some(Removed { removed: 0, left: _ }) => {}
            Some(Removed { removed, left }) => {
                tracing::info!(
                    name,
                    removed,
                    left,
                    "stripes of removed files await removal by their iods"
                );
            }
        }
        not_before.insert(name, Instant::now() + REBALANCE_RETRY_DELAY);
    }
}
