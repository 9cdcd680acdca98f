//! The choice of a metaserver for a client: the least busy one that serves.
//!
//! Each peer is asked for its load at most once in a second, however many clients ask. A silent
//! peer is skipped until it replies: see [`crate::failure_detector`].

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use futures_channel::oneshot;
use futures_util::future::select;
use leasehold_base::limits::durations::PEER_PROBE_INTERVAL;
use leasehold_core::replica::{Peer, Ticket};

use crate::message::Answer;
use crate::node::{Node, Waiter};
use crate::{Load, Metaserver};

/// The largest number of clients that wait for load reports. Further clients use the last reports.
const WAITING_MAX: usize = 64;

/// The largest number of hosts that are counted at the metaserver that was chosen for them.
const HOSTS_MAX: usize = 1024;

/// The clients that ask for a metaserver.
#[derive(Default)]
pub(crate) struct Choosing {
    /// The clients that wait for load reports.
    waiting: Vec<Ticket>,
    /// The hosts that were sent to each metaserver since the last load report of this one.
    told: BTreeMap<u32, BTreeSet<IpAddr>>,
}

impl Choosing {
    /// Forgets the choices: the load reports include them.
    pub(crate) fn forget(&mut self) {
        self.told.clear();
    }

    fn told(&self, number: u32) -> u32 {
        let hosts = self.told.get(&number).map_or(0, BTreeSet::len);
        u32::try_from(hosts).expect("they have a limit")
    }

    /// Counts a host at one metaserver only, however often it asks. Otherwise one host could make a
    /// metaserver look busy to all others.
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
    /// Returns the least busy metaserver of `among` that serves; this metaserver wins a tie. The
    /// host then counts as a connection of the chosen metaserver until the next load report of this
    /// one, because the reports of the others are up to that old.
    pub async fn least_busy(&self, among: &[u32], host: IpAddr) -> Option<u32> {
        if among.is_empty() {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        if self.with(|node| node.ask_all(among, sender)) {
            // A client waits to mount.
            select(receiver, self.shared.outside.sleep(PEER_PROBE_INTERVAL)).await;
        }
        self.with(|node| node.choose(among, host))
    }
}

impl Node {
    /// Asks the metaservers for their loads. Returns true if the caller waits for the replies.
    fn ask_all(&mut self, among: &[u32], sender: oneshot::Sender<Answer>) -> bool {
        among.iter().for_each(|number| self.ask_load(Peer(*number)));
        let waits = self.silence.is_asking() && self.choosing.waiting.len() < WAITING_MAX;
        if waits {
            let ticket = self.ticket(Waiter::Operation(sender));
            self.choosing.waiting.push(ticket);
        }
        waits
    }

    /// Wakes the waiting clients: no load request is pending.
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
