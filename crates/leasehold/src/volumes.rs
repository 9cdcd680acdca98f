//! The state of the served volumes, for frequent callers with a short timeout, such as a scraper.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leasehold_cluster::Served as _;
use leasehold_shell::own;
use leasehold_view::VolumeView;

use crate::cluster;
use crate::server_state::Serving;

/// The maximum time for which a caller waits. The value is above the timeout of an unreachable iod,
/// and well below the timeout of scrapers.
const WAIT: Duration = Duration::from_secs(3);

/// The maximum age of a returned result.
const AGE_MAX: Duration = Duration::from_mins(1);

/// The state of the volumes, as reported by their iods and metaservers. Only one query runs at a
/// time, on its own thread: a caller that waits too long receives the result with its next request.
pub(crate) struct Volumes {
    serving: Arc<Serving>,
    asked: Mutex<Asked>,
    ended: Condvar,
}

#[derive(Default)]
struct Asked {
    is_under_way: bool,
    /// The last result, and its time.
    found: Option<(Instant, Vec<VolumeView>)>,
}

impl Volumes {
    pub(crate) fn of(serving: &Arc<Serving>) -> Arc<Self> {
        let (serving, asked, ended) = (Arc::clone(serving), Mutex::default(), Condvar::new());
        Arc::new(Self { serving, asked, ended })
    }

    /// Returns the current or a recent state of all volumes; empty if it is unknown.
    pub(crate) fn told(self: &Arc<Self>) -> Vec<VolumeView> {
        if self.serving.volumes().is_empty() {
            return Vec::new();
        }
        let mut asked = self.asked();
        if !asked.is_under_way {
            let this = Arc::clone(self);
            asked.is_under_way = own::spawn("volumes", move || this.ask()).is_ok();
        }
        let waited = self.ended.wait_timeout_while(asked, WAIT, |asked| asked.is_under_way);
        let (asked, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let found = asked.found.as_ref().filter(|(at, _)| at.elapsed() < AGE_MAX);
        found.map(|(_, found)| found.clone()).unwrap_or_default()
    }

    fn ask(&self) {
        let found = cluster::views(&self.serving);
        let mut asked = self.asked();
        *asked = Asked { is_under_way: false, found: Some((Instant::now(), found)) };
        drop(asked);
        self.ended.notify_all();
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        // A panic cannot leave the value inconsistent, because each change is one assignment: the
        // lock is used even if it is poisoned.
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
