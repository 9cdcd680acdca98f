//! How the volumes are that are served, for who asks often and waits for little: a scraper.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leasehold_shell::own;
use leasehold_view::VolumeView;

use crate::cluster;
use crate::serving::Serving;

/// Longer than an iod is waited for that is away, and well below what scrapers wait.
const WAIT: Duration = Duration::from_secs(3);

/// What is older is not told.
const AGE_MAX: Duration = Duration::from_mins(1);

/// What the volumes' iods and metaservers say of themselves. They are asked by one at a time, on a
/// thread of its own: what takes longer than anybody waits is told the next time.
pub(crate) struct Volumes {
    serving: Arc<Serving>,
    asked: Mutex<Asked>,
    ended: Condvar,
}

#[derive(Default)]
struct Asked {
    is_under_way: bool,
    /// What was found out last, and when.
    found: Option<(Instant, Vec<VolumeView>)>,
}

impl Volumes {
    pub(crate) fn of(serving: &Arc<Serving>) -> Arc<Self> {
        let (serving, asked, ended) = (Arc::clone(serving), Mutex::default(), Condvar::new());
        Arc::new(Self { serving, asked, ended })
    }

    /// How all are now, or were a moment ago; nothing of any where that is not known.
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
        // Each change is one assignment.
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
