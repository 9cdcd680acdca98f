//! The credential with which the client sends the calls for a FUSE request to the server.
//!
//! FUSE reports the user and the group of the requesting thread, and `/proc` reports its
//! supplementary groups. The groups are read at most once a second for each thread, because a
//! listing or a build sends thousands of requests.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use leasehold_client::Credential;
use leasehold_fuse::CallerId;

/// The time for which the groups of a thread are cached.
const FRESH: Duration = Duration::from_secs(1);
/// The maximum number of cached callers. The cache is cleared when this number is exceeded.
const CALLERS_MAX: usize = 1024;

/// The recent callers.
pub(crate) struct Callers {
    machine: String,
    known: Mutex<BTreeMap<Asker, (Instant, Credential)>>,
}

/// A thread with its user and group.
type Asker = (u32, u32, u32);

impl Callers {
    pub(crate) fn new(machine: String) -> Self {
        Self { machine, known: Mutex::default() }
    }

    /// Returns the credential of a caller for the server.
    pub(crate) fn credential(&self, caller: CallerId) -> Credential {
        let CallerId { uid, gid, thread } = caller;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (thread, uid, gid);
        if let Some((since, credential)) = known.get(&key)
            && since.elapsed() < FRESH
        {
            return credential.clone();
        }
        let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
        let groups: Vec<u32> = groups(&status).filter(|group| *group != gid).collect();
        let credential = Credential::system(&self.machine, uid, gid, &groups);
        if known.len() >= CALLERS_MAX {
            known.clear();
        }
        known.insert(key, (Instant::now(), credential.clone()));
        credential
    }
}

/// Parses the groups in `/proc/PID/status`.
fn groups(status: &str) -> impl Iterator<Item = u32> + '_ {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    line.unwrap_or_default().split_whitespace().filter_map(|group| group.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_parsed_from_status() {
        let status = "Name:\tGroups: 1\nUid:\t0\t0\t0\t0\nGroups:\t4 24 27 \nSigPnd:\t0\n";
        assert_eq!(groups(status).collect::<Vec<_>>(), [4, 24, 27]);
        assert_eq!(groups("").count(), 0);
    }

    #[test]
    fn ended_thread_has_no_other_groups() {
        let callers = Callers::new("here".to_owned());
        let caller = CallerId { uid: 7, gid: 8, thread: u32::MAX };
        let credential = callers.credential(caller);
        assert_eq!(credential, Credential::system("here", 7, 8, &[]));
        assert_eq!(callers.credential(caller), credential);
    }
}
