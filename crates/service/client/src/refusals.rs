//! Written data that the server refused, until a program that had the file open was told: where all
//! have closed it before, whoever ends the client is.
//!
//! After a refusal for want of room writes go to the server at once for a while, so that each
//! program learns from its own write that there is no room.

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

/// Of how many files it is known that a program is told after all.
const FILES_MAX: usize = 4096;

/// The time after the last refusal for want of room in which the client delays no writes. A program
/// that fills a disk, or a quota that the server does not report, thus leaves little data for
/// rescue.
const WITHOUT_ROOM: Duration = Duration::from_secs(60);

/// The files that data was refused of and no program was told of.
#[derive(Default)]
pub(crate) struct Refusals {
    /// The rescuer that keeps refused data.
    pub(crate) rescuer: Option<Arc<dyn Rescuer>>,
    /// The time until which writes go to the server at once.
    without_room_until: Time,
    files: BTreeSet<NodeId>,
    /// Whether there were more.
    are_more: bool,
    /// Why the last was.
    why: Option<Error>,
}

impl Refusals {
    /// Data of a file was refused, and why.
    pub(crate) fn refused(&mut self, node: NodeId, why: Option<Error>) {
        self.why = why;
        if self.files.len() < FILES_MAX || self.files.contains(&node) {
            self.files.insert(node);
        } else {
            self.are_more = true;
        }
    }

    /// Notes the refusal of a write.
    pub(crate) fn failed(&mut self, now: Time, error: &Error) {
        if let Error::Failed(Status::NoSpace | Status::QuotaExceeded) = error {
            self.without_room_until = now + WITHOUT_ROOM;
        }
    }

    /// Returns true if the server refused a write for want of room a short while ago.
    pub(crate) fn are_for_want_of_room(&self, now: Time) -> bool {
        now < self.without_room_until
    }

    /// A program was told so.
    pub(crate) fn told(&mut self, node: NodeId) {
        self.files.remove(&node);
    }

    fn is_empty(&self) -> bool {
        self.files.is_empty() && !self.are_more
    }
}

/// Data for the rescuer: all data but the data of a file that is gone, as such data would be gone
/// with its file.
pub(crate) fn kept(
    (node, path): (NodeId, Option<Vec<Box<[u8]>>>),
    (offset, data): (u64, bytes::Bytes),
    why: Why,
) -> Option<Refused> {
    let is_of_gone = matches!(&why, Why::Failed(error) if is_gone(error));
    (!is_of_gone).then_some(Refused { node, path, offset, data, why })
}

impl Client {
    /// Returns true if the client delays no writes, as the server has refused a write for want of
    /// room.
    pub(crate) fn is_without_room(&self) -> bool {
        let now = self.shared.nfs.session().now();
        self.shared.state().refusals.are_for_want_of_room(now)
    }

    /// Whether the server refused written data, and no write, flush or fsync has said so.
    #[must_use]
    pub fn has_refused_untold(&self) -> bool {
        !self.shared.state().refusals.is_empty()
    }

    /// Why the server last refused written data, if it did.
    #[must_use]
    pub fn why_refused(&self) -> Option<Error> {
        self.shared.state().refusals.why.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_told_stays() {
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
    fn a_refusal_for_want_of_room_ends_the_delay_of_writes_for_a_minute() {
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
    fn more_files_than_are_known_stay_untold() {
        let mut refusals = Refusals::default();
        let nodes = || (0..=FILES_MAX as u64).map(NodeId);
        nodes().for_each(|node| refusals.refused(node, None));
        assert_eq!(refusals.files.len(), FILES_MAX);
        nodes().for_each(|node| refusals.told(node));
        assert!(!refusals.is_empty());
    }
}
