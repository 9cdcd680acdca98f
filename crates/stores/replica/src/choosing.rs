//! Which metaserver a client is told to go by: the least busy of those that serve.
//!
//! However many ask, each of the others is asked once in a second, and one that does not answer not at
//! all before it does again: see [`crate::silence`].

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use futures_channel::oneshot;
use futures_util::future::select;
use leasehold_core::replica::{Peer, Ticket};

use crate::message::Answer;
use crate::node::{Node, Waiter};
use crate::silence::AGAIN;
use crate::{Load, Metaserver};

/// The most clients that wait for what the others say; more are told by what was said last.
const WAITING_MAX: usize = 64;

/// The most hosts that are counted where they were told to go.
const HOSTS_MAX: usize = 1024;

/// Clients that ask where to go.
#[derive(Default)]
pub(crate) struct Choosing {
    /// Those that wait for what the others say.
    waiting: Vec<Ticket>,
    /// Which hosts were told to go by whom, since it was last said how busy this one is.
    told: BTreeMap<u32, BTreeSet<IpAddr>>,
}

impl Choosing {
    /// By now it shows in what all say where clients have gone.
    pub(crate) fn forget(&mut self) {
        self.told.clear();
    }

    fn told(&self, number: u32) -> u32 {
        let hosts = self.told.get(&number).map_or(0, BTreeSet::len);
        u32::try_from(hosts).expect("they have a limit")
    }

    /// A host counts once, however often it asks: it must not make another look busy to all.
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
    /// The least busy of these that serve, itself where it is among them and no other is less so.
    /// The host that asks counts as a connection there, until this one is said to be so busy anew:
    /// what is known of the others is as old as that.
    pub async fn least_busy(&self, among: &[u32], host: IpAddr) -> Option<u32> {
        if among.is_empty() {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        if self.with(|node| node.ask_all(among, sender)) {
            // Somebody waits to mount.
            select(receiver, self.shared.outside.sleep(AGAIN)).await;
        }
        self.with(|node| node.choose(among, host))
    }
}

impl Node {
    /// Asks these how busy they are; whether the answers are waited for.
    fn ask_all(&mut self, among: &[u32], sender: oneshot::Sender<Answer>) -> bool {
        among.iter().for_each(|number| self.ask_load(Peer(*number)));
        let waits = self.silence.is_asking() && self.choosing.waiting.len() < WAITING_MAX;
        if waits {
            let ticket = self.ticket(Waiter::Operation(sender));
            self.choosing.waiting.push(ticket);
        }
        waits
    }

    /// Nobody is asked any more.
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
