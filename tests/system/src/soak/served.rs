//! The system under test: a metaserver, or several of one file system.

use super::Soak;
use crate::{Cluster, Group, Mount, Version};

/// Their common options: they wait for an unreachable I/O daemon without a time limit.
const OPTIONS: [&str; 4] = ["--stripe-unit", "64", "--iod-timeout", "86400"];

/// Metaservers over I/O daemons.
pub(super) enum Served {
    One(Cluster),
    Several(Group, usize),
}

impl Served {
    /// Starts the system under test, over `iods` I/O daemons.
    pub(super) fn start(soak: &Soak, iods: usize) -> Self {
        let copies = soak.copies.to_string();
        let more = match soak.peers {
            ..2 => vec!["--rebalance", "--copies", &copies],
            _ if soak.strict => vec!["--strict"],
            _ => vec!["--lazy-window", "1"],
        };
        let options = [&OPTIONS[..], &more].concat();
        match soak.peers {
            ..2 => Self::One(Cluster::start(iods, &options)),
            peers => Self::Several(Group::start_over(iods, peers, &options), peers),
        }
    }

    /// Returns the source of a mount: successive mounts use successive metaservers.
    pub(super) fn source(&self, mount: usize) -> String {
        match self {
            Self::One(cluster) => cluster.source(),
            Self::Several(group, count) => group.source(mount % count),
        }
    }

    /// Returns the mount parameters for a guest.
    pub(super) fn mount(&self) -> Mount {
        match self {
            Self::One(cluster) => cluster.mount(Version::V3),
            Self::Several(group, _) => group.mount(0, Version::V3),
        }
    }

    pub(super) fn kill_iod(&mut self, iod: usize) {
        match self {
            Self::One(cluster) => cluster.kill_iod(iod),
            Self::Several(group, _) => group.kill_iod(iod),
        }
    }

    pub(super) fn start_iod(&mut self, iod: usize) {
        match self {
            Self::One(cluster) => cluster.start_iod(iod),
            Self::Several(group, _) => group.start_iod(iod),
        }
    }

    /// Waits until all files have their final places; with several metaservers they always have.
    pub(super) fn wait_until_settled(&self) {
        match self {
            Self::One(cluster) => cluster.wait_until_settled(),
            Self::Several(..) => {}
        }
    }
}
