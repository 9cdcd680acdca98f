//! Checks the health of the iods: a probe is a request without effect. Logs the iods that do not
//! accept changes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leasehold_base::limits::durations::IOD_HEALTH_CHECK_INTERVAL;
use leasehold_fs::FsError;
use leasehold_shell::client::block_on;

use crate::{Served, words_of};

/// The interval between probes of all iods while changes fail.
const SOON: Duration = Duration::from_secs(5);

/// The iods that reject changes, as last reported in the log.
#[derive(Default)]
pub(crate) struct Healths {
    said: BTreeMap<(String, u16), FsError>,
    probed: Option<Instant>,
}

impl Healths {
    /// Probes the iods of all volumes when a probe is due, and logs state changes.
    pub(crate) fn run(&mut self, serving: &dyn Served) {
        let volumes = serving.volumes();
        let is_asked = volumes.iter().any(|(_, volume)| volume.striped.is_probe_due());
        let pause = if is_asked { SOON } else { IOD_HEALTH_CHECK_INTERVAL };
        let is_due = self.probed.is_none_or(|at| at.elapsed() >= pause);
        if is_due {
            self.probed = Some(Instant::now());
        }
        let mut refusing = BTreeMap::new();
        for (name, volume) in volumes {
            if is_due {
                block_on(volume.striped.probe_iods());
            }
            for (number, error) in volume.striped.refusing_iods() {
                let place = (name.clone(), number);
                if !self.said.contains_key(&place) {
                    let label = volume.members.get(usize::from(number)).map(|it| &it.label);
                    let (iod, error) = (label.map_or("", |it| it.as_str()), words_of(error));
                    tracing::warn!(name, number, iod, error, "an iod replies but rejects changes");
                }
                refusing.insert(place, error);
            }
        }
        for (name, number) in self.said.keys().filter(|place| !refusing.contains_key(*place)) {
            tracing::info!(name, number, "the iod accepts changes again");
        }
        self.said = refusing;
    }
}
