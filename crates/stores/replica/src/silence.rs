//! Peers that are away: what needs one is waited for, is told to come again, and has failed in the end.
//!
//! Rules:
//! 1. What was not done may only wait for others where it was asked for. So the home of all that it
//!    needed is asked how busy it is, which is answered at once: once in a second, and by one call at a
//!    time.
//! 2. A peer that does not say that is silent from when it was asked, until it does. It is asked again
//!    each second meanwhile, whether anybody needs it or not: what ended unseen would count as if it
//!    had lasted.
//! 3. Silent is not slow: a peer on the way to or from which something moves is there, see
//!    [`Traffic::moves`]. So is one that refuses the call. One that answers that it serves nobody is not.
//! 4. What was not done is to come again, and has failed where the home of anything that it needs has
//!    been silent for [`Options::give_up`](crate::Options::give_up) the last time that it was asked.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::{FileId, Time};
use leasehold_core::replica::search::Order;
use leasehold_core::replica::{Peer, Place};
use leasehold_fs::FsError;

use crate::disk::ROOT;
use crate::message::{Answer, Ask};
use crate::node::{Node, Why};
use crate::{Load, Metaserver, NoResults, Traffic};

/// How long until a peer is asked again how busy it is.
pub(crate) const AGAIN: Duration = Duration::from_secs(1);

/// What is known of whether peers are there.
#[derive(Default)]
pub(crate) struct Silence {
    peers: BTreeMap<Peer, Looked>,
}

/// A peer that was asked how busy it is.
struct Looked {
    /// When that was last.
    asked: Time,
    /// Whether that call has not ended.
    is_under_way: bool,
    /// What it has said, if it did the last time.
    load: Option<Load>,
    silent: Option<Silent>,
    /// What had gone over its connections when it was asked, or was last found silent.
    seen: Traffic,
}

/// A peer that is silent.
#[derive(Clone, Copy)]
struct Silent {
    since: Time,
    /// When it was last asked in vain.
    until: Time,
}

impl Looked {
    /// When it is asked again although nobody needs it.
    fn next_wake(&self) -> Option<Time> {
        (self.silent.is_some() && !self.is_under_way).then(|| self.asked + AGAIN)
    }
}

impl Silence {
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.peers.values().filter_map(Looked::next_wake).min()
    }

    /// How busy a peer has said that it is, but for one that is asked anew and takes long to answer.
    pub(crate) fn load_of(&self, peer: Peer, now: Time) -> Option<Load> {
        let looked = self.peers.get(&peer)?;
        looked.load.filter(|_| !looked.is_under_way || now < looked.asked + AGAIN)
    }

    /// Whether any peer is being asked that is not known to be silent.
    pub(crate) fn is_asking(&self) -> bool {
        self.peers.values().any(|looked| looked.is_under_way && looked.silent.is_none())
    }
}

impl Node {
    /// Asks a peer how busy it is, unless it was asked a moment ago.
    pub(crate) fn ask_load(&mut self, peer: Peer) {
        if peer == self.me() {
            return;
        }
        let (asked, is_under_way) = (self.now, true);
        if let Some(looked) = self.silence.peers.get_mut(&peer) {
            if looked.is_under_way || asked < looked.asked + AGAIN {
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

    /// A peer was asked how busy it is.
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

    /// Asks again those that are silent.
    pub(crate) fn wake_silence(&mut self) {
        let now = self.now;
        let peers = self.silence.peers.iter();
        let due = peers.filter(|(_, looked)| looked.next_wake().is_some_and(|wake| wake <= now));
        let due: Vec<Peer> = due.map(|(peer, _)| *peer).collect();
        due.into_iter().for_each(|peer| self.ask_load(peer));
    }

    /// Whether a peer has been silent for so long that what needs it fails.
    fn is_gone(&self, peer: Peer) -> bool {
        let silent = self.silence.peers.get(&peer).and_then(|looked| looked.silent);
        silent.is_some_and(|it| it.until.since(it.since) >= self.options.give_up)
    }

    /// What is said of what was not done, and needed these peers.
    fn not_done(&mut self, needed: BTreeSet<Peer>) -> FsError {
        let is_any_gone = needed.iter().any(|peer| self.is_gone(*peer));
        needed.into_iter().for_each(|peer| self.ask_load(peer));
        if is_any_gone { FsError::Io } else { FsError::Later }
    }

    /// The homes of these.
    fn homes_of(&self, objects: impl IntoIterator<Item = FileId>) -> BTreeSet<Peer> {
        objects.into_iter().filter_map(|object| self.homes.of(object)).collect()
    }

    /// The homes that have a part in giving an object other names.
    fn needed_to_place(
        &self,
        object: FileId,
        (from, to): (Option<&Place>, Option<&Place>),
        over: Option<FileId>,
    ) -> BTreeSet<Peer> {
        let directories = from.into_iter().chain(to).map(|place| place.directory);
        // What goes must be empty, as the homes say of all that is noted in it.
        let goes = to.is_none().then_some(object).into_iter().chain(over);
        let inside = goes.flat_map(|goes| self.disk.inside(goes)).map(|(_, note)| note.object);
        let moves = from.zip(to).is_some_and(|(from, to)| from.directory != to.directory)
            && self.view(object).is_some_and(|metafile| metafile.is_directory());
        // It does not leave a place before what it replaced there has lost it.
        let replaced = [Some(object), over].into_iter().flatten();
        let replaced = replaced.filter_map(|it| Some(self.disk.replacing.get(&it)?.1));
        let needed = [object].into_iter().chain(over).chain(directories).chain(inside);
        let needed = needed.chain(replaced);
        self.homes_of(needed.chain(moves.then_some(ROOT)))
    }
}

impl Metaserver {
    /// What is said of what was not done, and needed the homes of these.
    pub(crate) fn not_yet(&self, needed: &[FileId]) -> FsError {
        self.with(|node| {
            let needed = node.homes_of(needed.iter().copied());
            node.not_done(needed)
        })
    }

    /// What is said where an object was not given other names.
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

    /// What is said of a name that was looked for.
    pub(crate) async fn not_found_yet(&self, place: &Place) -> FsError {
        match self.shared.options.order {
            Order::Constant => self.not_named_yet(place).await,
            // All of them had to be asked.
            Order::Sequential | Order::Nearest | Order::Tree => {
                self.with(|node| node.not_done(node.options.peers().collect()))
            }
        }
    }

    /// What is said of a name that is at the directory's home, and perhaps another object's.
    pub(crate) async fn not_named_yet(&self, place: &Place) -> FsError {
        let named = self.ask_home(place.directory, Ask::Named(place.clone())).await;
        let named = if let Answer::Named(named) = named { named } else { None };
        let needed: Vec<FileId> = [place.directory].into_iter().chain(named).collect();
        self.not_yet(&needed)
    }
}
