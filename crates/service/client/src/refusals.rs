//! Records of written data that the server refused. A record exists until a program that has the
//! file open has received the error. If all programs have closed the file before, the owner of the
//! client reports the refusal at the end of the mount.
//!
//! After a refusal for lack of space, writes go to the server at once for a while, so that each
//! program receives the error from its own write.

use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_base::units::Time;
use leasehold_session::Error;
use leasehold_wire::nfs3::Status;

use crate::client::Client;
use crate::names::is_gone;
use crate::nodes::NodeId;
use crate::rescue::{Refused, Rescuer, Why};

/// The maximum number of files with unreported refusals that the client records individually.
const FILES_MAX: usize = 4096;

/// The time after the last refusal for lack of space in which the client delays no writes. If a
/// program fills a disk, or a quota that the server does not report, only a small amount of its
/// data is then refused after its write has returned.
const WITHOUT_ROOM: Duration = Duration::from_secs(60);

/// The files with refused data, as long as no program has received the error.
#[derive(Default)]
pub(crate) struct Refusals {
    /// The [`Rescuer`], to which the client passes refused data so that the data is not lost.
    pub(crate) rescuer: Option<Arc<dyn Rescuer>>,
    /// The time until which the client sends writes to the server without delay.
    without_room_until: Time,
    files: BTreeSet<NodeId>,
    /// True if more than [`FILES_MAX`] files had refused data.
    are_more: bool,
    /// The reason of the last refusal.
    why: Option<Error>,
}

impl Refusals {
    /// Records the refusal of a file's data with its reason.
    pub(crate) fn refused(&mut self, node: NodeId, why: Option<Error>) {
        self.why = why;
        if self.files.len() < FILES_MAX || self.files.contains(&node) {
            self.files.insert(node);
        } else {
            self.are_more = true;
        }
    }

    /// Records the refusal of a write.
    pub(crate) fn failed(&mut self, now: Time, error: &Error) {
        if let Error::Failed(Status::NoSpace | Status::QuotaExceeded) = error {
            self.without_room_until = now + WITHOUT_ROOM;
        }
    }

    /// Returns true if the server refused a write for lack of space a short while ago.
    pub(crate) fn are_for_want_of_room(&self, now: Time) -> bool {
        now < self.without_room_until
    }

    /// Records that a program received the refusal.
    pub(crate) fn told(&mut self, node: NodeId) {
        self.files.remove(&node);
    }

    fn is_empty(&self) -> bool {
        self.files.is_empty() && !self.are_more
    }
}

/// Returns refused data for the rescuer. Returns `None` if the file no longer exists: the data
/// would have been deleted with the file.
pub(crate) fn kept(
    (node, path): (NodeId, Option<Vec<Box<[u8]>>>),
    (offset, data): (u64, bytes::Bytes),
    why: Why,
) -> Option<Refused> {
    let is_of_gone = matches!(&why, Why::Failed(error) if is_gone(error));
    (!is_of_gone).then_some(Refused { node, path, offset, data, why })
}

impl Client {
    /// Returns true if the client delays no writes because the server has refused a write for lack
    /// of space.
    pub(crate) fn is_without_room(&self) -> bool {
        let now = self.shared.nfs.session().now();
        self.shared.state().refusals.are_for_want_of_room(now)
    }

    /// Returns true if the server refused written data and no write, flush or fsync has reported
    /// the refusal.
    #[must_use]
    pub fn has_refused_untold(&self) -> bool {
        !self.shared.state().refusals.is_empty()
    }

    /// Returns the reason of the last refusal of written data, if there was one.
    #[must_use]
    pub fn why_refused(&self) -> Option<Error> {
        self.shared.state().refusals.why.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreported_refusals_stay_recorded() {
        let mut refusals = Refusals::default();
        assert!(refusals.is_empty());
        for node in [1, 2, 1] {
            refusals.refused(NodeId(node), None);
        }
        refusals.told(NodeId(1));
        assert!(!refusals.is_empty());
        refusals.told(NodeId(2));
        assert!(refusals.is_empty());
    }

    #[test]
    fn refusal_for_lack_of_space_suspends_delayed_writes_for_a_minute() {
        let mut refusals = Refusals::default();
        let second = |number| Time::ZERO + Duration::from_secs(number);
        refusals.failed(second(1), &Error::Failed(Status::Io));
        assert!(!refusals.are_for_want_of_room(second(1)));
        for status in [Status::NoSpace, Status::QuotaExceeded] {
            let mut refusals = Refusals::default();
            refusals.failed(second(1), &Error::Failed(status));
            assert!(refusals.are_for_want_of_room(second(60)));
            assert!(!refusals.are_for_want_of_room(second(61)));
        }
    }

    #[test]
    fn refusals_of_files_beyond_the_limit_stay_unreported() {
        let mut refusals = Refusals::default();
        let nodes = || (0..=FILES_MAX as u64).map(NodeId);
        nodes().for_each(|node| refusals.refused(node, None));
        assert_eq!(refusals.files.len(), FILES_MAX);
        nodes().for_each(|node| refusals.told(node));
        assert!(!refusals.is_empty());
    }
}
