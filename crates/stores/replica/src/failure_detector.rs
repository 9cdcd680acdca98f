//! The failure detector of metaservers. Operations that need an unreachable peer fail with
//! NFS3ERR_JUKEBOX at first, and with an I/O error after a longer silence of the peer.
//!
//! Rules:
//! 1. If an operation fails, the home that did not answer may be reachable and may only have waited
//!    for a third metaserver. So this metaserver sends a health check to each home that the
//!    operation needed. The health check is a LOAD call, which a peer answers at once. At most one
//!    health check is sent to a peer in a second, and at most one is in flight.
//! 2. A peer that does not answer a health check is silent from the time of this check until it
//!    answers a later check. While a peer is silent, the check is repeated each second even if no
//!    operation needs the peer. Otherwise the failure detector would not notice the end of an
//!    outage, and would count the time after it as silence.
//! 3. A slow peer is not silent: if there is traffic on its connections, the peer is reachable, see
//!    [`Traffic::moves`]. A peer that refuses the call is reachable, too. A peer that answers that
//!    it does not serve counts as silent.
//! 4. An operation that was not executed fails with NFS3ERR_JUKEBOX, or with an I/O error if a home
//!    that it needs has been silent for [`Options::give_up`](crate::Options::give_up) at the last
//!    check.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::limits::durations::PEER_PROBE_INTERVAL;
use leasehold_base::units::{FileId, Time};
use leasehold_core::replica::search::Order;
use leasehold_core::replica::{Peer, Place};
use leasehold_fs::FsError;

use crate::disk::ROOT;
use crate::message::{Answer, Ask};
use crate::node::{Node, Why};
use crate::{Load, Metaserver, NoResults, Traffic};

/// The health of the peers.
#[derive(Default)]
pub(crate) struct Silence {
    peers: BTreeMap<Peer, Looked>,
}

/// The last health check of a peer.
struct Looked {
    /// The time at which the check was sent.
    asked: Time,
    /// True if the check is in flight.
    is_under_way: bool,
    /// The load in the reply to the last check; `None` without a reply.
    load: Option<Load>,
    silent: Option<Silent>,
    /// The traffic on the connections of the peer at the time of the check, or when the peer was
    /// last found silent.
    seen: Traffic,
}

/// The silence of a peer.
#[derive(Clone, Copy)]
struct Silent {
    since: Time,
    /// The time at which the last unanswered check was sent.
    until: Time,
}

impl Looked {
    /// Returns the time of the next repeated check; `None` if the peer is not silent or a check is
    /// in flight.
    fn next_wake(&self) -> Option<Time> {
        (self.silent.is_some() && !self.is_under_way).then(|| self.asked + PEER_PROBE_INTERVAL)
    }
}

impl Silence {
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.peers.values().filter_map(Looked::next_wake).min()
    }

    /// Returns the last reported load of a peer. Returns `None` if a newer check has been in flight
    /// for a second.
    pub(crate) fn load_of(&self, peer: Peer, now: Time) -> Option<Load> {
        let looked = self.peers.get(&peer)?;
        looked.load.filter(|_| !looked.is_under_way || now < looked.asked + PEER_PROBE_INTERVAL)
    }

    /// Returns true if a check of a peer that is not silent is in flight.
    pub(crate) fn is_asking(&self) -> bool {
        self.peers.values().any(|looked| looked.is_under_way && looked.silent.is_none())
    }
}

impl Node {
    /// Sends a health check to a peer, unless the last check is in flight or less than a second
    /// old.
    pub(crate) fn ask_load(&mut self, peer: Peer) {
        if peer == self.me() {
            return;
        }
        let (asked, is_under_way) = (self.now, true);
        if let Some(looked) = self.silence.peers.get_mut(&peer) {
            if looked.is_under_way || asked < looked.asked + PEER_PROBE_INTERVAL {
                return;
            }
            if looked.silent.is_none() {
                looked.seen = self.outside.traffic(peer.0);
            }
            (looked.asked, looked.is_under_way) = (asked, is_under_way);
        } else {
            let (load, silent, seen) = (None, None, self.outside.traffic(peer.0));
            let looked = Looked { asked, is_under_way, load, silent, seen };
            self.silence.peers.insert(peer, looked);
        }
        self.call(peer, Ask::Load, Why::There(peer));
    }

    /// Handles the end of a health check.
    pub(crate) fn has_looked(&mut self, peer: Peer, told: Result<&Answer, NoResults>) {
        let traffic = self.outside.traffic(peer.0);
        let Some(looked) = self.silence.peers.get_mut(&peer) else { return };
        looked.is_under_way = false;
        looked.load = if let Ok(Answer::Load(load)) = told { Some(*load) } else { None };
        let is_there = match told {
            Ok(_) => looked.load.is_some(),
            Err(NoResults::Refused) => true,
            Err(NoResults::Silence) => traffic.moves(looked.seen),
        };
        looked.seen = traffic;
        let until = looked.asked;
        let since = looked.silent.map_or(until, |silent| silent.since);
        looked.silent = (!is_there).then_some(Silent { since, until });
        if !self.silence.is_asking() {
            self.all_have_said();
        }
    }

    /// Repeats the due health checks of silent peers.
    pub(crate) fn wake_silence(&mut self) {
        let now = self.now;
        let peers = self.silence.peers.iter();
        let due = peers.filter(|(_, looked)| looked.next_wake().is_some_and(|wake| wake <= now));
        let due: Vec<Peer> = due.map(|(peer, _)| *peer).collect();
        due.into_iter().for_each(|peer| self.ask_load(peer));
    }

    /// Returns true if a peer has been silent for so long that operations that need the peer must
    /// fail with an I/O error.
    fn is_gone(&self, peer: Peer) -> bool {
        let silent = self.silence.peers.get(&peer).and_then(|looked| looked.silent);
        silent.is_some_and(|it| it.until.since(it.since) >= self.options.give_up)
    }

    /// Returns the error for an operation that failed and needed these peers, and sends a health
    /// check to each of them.
    fn not_done(&mut self, needed: BTreeSet<Peer>) -> FsError {
        let is_any_gone = needed.iter().any(|peer| self.is_gone(*peer));
        needed.into_iter().for_each(|peer| self.ask_load(peer));
        if is_any_gone { FsError::Io } else { FsError::Delay }
    }

    /// Returns the homes of some objects.
    fn homes_of(&self, objects: impl IntoIterator<Item = FileId>) -> BTreeSet<Peer> {
        objects.into_iter().filter_map(|object| self.homes.of(object)).collect()
    }

    /// Returns the homes of all objects that a rename, link or unlink needs.
    fn needed_to_place(
        &self,
        object: FileId,
        (from, to): (Option<&Place>, Option<&Place>),
        over: Option<FileId>,
    ) -> BTreeSet<Peer> {
        let directories = from.into_iter().chain(to).map(|place| place.directory);
        // A removed directory must be empty. So the homes of all objects with a name reservation in
        // the directory are needed, too.
        let goes = to.is_none().then_some(object).into_iter().chain(over);
        let inside = goes.flat_map(|goes| self.disk.inside(goes)).map(|(_, note)| note.object);
        let moves = from.zip(to).is_some_and(|(from, to)| from.directory != to.directory)
            && self.view(object).is_some_and(|metafile| metafile.is_directory());
        // An object keeps its name until the object that it replaced has lost the name. So the home
        // of such a replaced object is needed, too.
        let replaced = [Some(object), over].into_iter().flatten();
        let replaced = replaced.filter_map(|it| Some(self.disk.replacing.get(&it)?.1));
        let needed = [object].into_iter().chain(over).chain(directories).chain(inside);
        let needed = needed.chain(replaced);
        self.homes_of(needed.chain(moves.then_some(ROOT)))
    }
}

impl Metaserver {
    /// Returns the error for an operation that failed and needed the homes of these objects.
    pub(crate) fn not_yet(&self, needed: &[FileId]) -> FsError {
        self.with(|node| {
            let needed = node.homes_of(needed.iter().copied());
            node.not_done(needed)
        })
    }

    /// Returns the error for a rename, link or unlink that failed.
    pub(crate) fn not_placed_yet(
        &self,
        object: FileId,
        places: (Option<&Place>, Option<&Place>),
        over: Option<FileId>,
    ) -> FsError {
        self.with(|node| {
            let needed = node.needed_to_place(object, places, over);
            node.not_done(needed)
        })
    }

    /// Returns the error for a lookup that failed.
    pub(crate) async fn not_found_yet(&self, place: &Place) -> FsError {
        match self.shared.options.order {
            Order::Constant => self.not_named_yet(place).await,
            // A search in one of these orders needs all peers.
            Order::Sequential | Order::Nearest | Order::Tree => {
                self.with(|node| node.not_done(node.options.peers().collect()))
            }
        }
    }

    /// Returns the error for a lookup that needed the directory's home, and the home of the object
    /// that has reserved the name.
    pub(crate) async fn not_named_yet(&self, place: &Place) -> FsError {
        let named = self.ask_home(place.directory, Ask::Named(place.clone())).await;
        let named = if let Answer::Named(named) = named { named } else { None };
        let needed: Vec<FileId> = [place.directory].into_iter().chain(named).collect();
        self.not_yet(&needed)
    }
}
