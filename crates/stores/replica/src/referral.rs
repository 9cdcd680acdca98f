//! Referrals: the choice of the least busy metaserver for a client that mounts.
//!
//! This metaserver requests the load of each peer at most once in a second, however many clients
//! request a referral. It skips a silent peer until the peer replies, see
//! [`crate::failure_detector`].

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use futures_channel::oneshot;
use futures_util::future::select;
use leasehold_base::limits::durations::PEER_PROBE_INTERVAL;
use leasehold_core::replica::{Peer, Ticket};

use crate::message::Answer;
use crate::node::{Node, Waiter};
use crate::{Load, Metaserver};

/// The maximum number of clients that wait for load reports. Further clients receive a choice from
/// the last reports.
const WAITING_MAX: usize = 64;

/// The maximum number of client hosts whose referrals are counted.
const HOSTS_MAX: usize = 1024;

/// The state of the referrals.
#[derive(Default)]
pub(crate) struct Choosing {
    /// The clients that wait for load reports.
    waiting: Vec<Ticket>,
    /// The client hosts that were referred to each metaserver since the last load measurement of
    /// this metaserver.
    told: BTreeMap<u32, BTreeSet<IpAddr>>,
}

impl Choosing {
    /// Forgets the recent referrals, because the load reports include these clients now.
    pub(crate) fn forget(&mut self) {
        self.told.clear();
    }

    fn told(&self, number: u32) -> u32 {
        let hosts = self.told.get(&number).map_or(0, BTreeSet::len);
        u32::try_from(hosts).expect("they have a limit")
    }

    /// Counts a referral of a host. A host counts at one metaserver only, however many referrals it
    /// requests. Otherwise one host could make a metaserver appear busy to all other hosts.
    fn tell(&mut self, host: IpAddr, number: u32) {
        for hosts in self.told.values_mut() {
            hosts.remove(&host);
        }
        if self.told.values().map(BTreeSet::len).sum::<usize>() < HOSTS_MAX {
            self.told.entry(number).or_default().insert(host);
        }
    }
}

impl Metaserver {
    /// Returns the least busy metaserver of `among` that serves clients; among equally busy
    /// metaservers it prefers this metaserver. The host then counts as a connection of the chosen
    /// metaserver until the next load measurement of this metaserver, because the last reports of
    /// the peers do not include the host yet.
    pub async fn least_busy(&self, among: &[u32], host: IpAddr) -> Option<u32> {
        if among.is_empty() {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        if self.with(|node| node.ask_all(among, sender)) {
            // Wait for the reports for a limited time, since a client waits for the result to
            // mount.
            select(receiver, self.shared.outside.sleep(PEER_PROBE_INTERVAL)).await;
        }
        self.with(|node| node.choose(among, host))
    }
}

impl Node {
    /// Requests the loads of the metaservers. Returns true if the caller must wait for the replies.
    fn ask_all(&mut self, among: &[u32], sender: oneshot::Sender<Answer>) -> bool {
        among.iter().for_each(|number| self.ask_load(Peer(*number)));
        let waits = self.silence.is_asking() && self.choosing.waiting.len() < WAITING_MAX;
        if waits {
            let ticket = self.ticket(Waiter::Operation(sender));
            self.choosing.waiting.push(ticket);
        }
        waits
    }

    /// Resumes the clients that wait for load reports, because no load request is pending any more.
    pub(crate) fn all_have_said(&mut self) {
        let waiting = core::mem::take(&mut self.choosing.waiting);
        waiting.into_iter().for_each(|ticket| self.finish(ticket, Answer::Done));
    }

    fn choose(&mut self, among: &[u32], host: IpAddr) -> Option<u32> {
        let me = self.me().0;
        let serves = self.peers.is_open() && !self.refuses;
        let load = |number: u32| {
            if number == me {
                return serves.then_some(self.load);
            }
            self.silence.load_of(Peer(number), self.now)
        };
        let serving = among.iter().filter_map(|number| Some((*number, load(*number)?)));
        let rank = |&(number, load): &(u32, Load)| {
            let connections = load.connections.saturating_add(self.choosing.told(number));
            (Load { connections, ..load }, number != me, number)
        };
        let (least, _) = serving.min_by_key(rank)?;
        self.choosing.tell(host, least);
        Some(least)
    }
}
