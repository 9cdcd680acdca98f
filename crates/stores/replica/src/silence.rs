//! Peers that are away: what needs one is waited for, is told to come again, and has failed in the end.
//!
//! Rules:
//! 1. A call that is not answered may only wait for others where it went. So its peer is asked how busy
//!    it is, which is answered at once.
//! 2. A peer that does not answer that either is silent from when it was asked, until it answers
//!    anything.
//! 3. What was not done is to come again, and has failed where the home of anything that it needs has
//!    been silent for [`Options::give_up`](crate::Options::give_up).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use leasehold_base::units::{FileId, Time};
use leasehold_core::replica::search::Order;
use leasehold_core::replica::{Peer, Place};
use leasehold_fs::FsError;

use crate::Metaserver;
use crate::disk::ROOT;
use crate::message::{Answer, Ask};
use crate::node::{Node, Why};

/// Peers that do not answer.
#[derive(Default)]
pub(crate) struct Silence {
    /// Those that were asked whether they are there, and when.
    asked: BTreeMap<Peer, Time>,
    /// Those that are silent, and since when.
    since: BTreeMap<Peer, Time>,
}

impl Node {
    /// A call of a peer was not answered.
    pub(crate) fn has_no_answer(&mut self, peer: Peer, why: Why) {
        if matches!(why, Why::There) {
            if let Some(asked) = self.silence.asked.remove(&peer) {
                self.silence.since.entry(peer).or_insert(asked);
            }
        } else if !matches!(why, Why::Hello)
            && let Entry::Vacant(asked) = self.silence.asked.entry(peer)
        {
            asked.insert(self.now);
            self.call(peer, Ask::Load, Why::There);
        }
    }

    /// A peer has answered a call.
    pub(crate) fn has_answer(&mut self, peer: Peer) {
        self.silence.asked.remove(&peer);
        self.silence.since.remove(&peer);
    }

    /// Whether a peer has been silent for so long that what needs it fails.
    fn is_gone(&self, peer: Peer) -> bool {
        let since = self.silence.since.get(&peer);
        since.is_some_and(|since| self.now.since(*since) >= self.options.give_up)
    }

    /// Whether the last that is known of an object's home is that a call was not answered.
    fn is_doubtful(&self, object: FileId) -> bool {
        let silence = &self.silence;
        let is_in =
            |home: Peer| silence.asked.contains_key(&home) || silence.since.contains_key(&home);
        self.homes.of(object).is_some_and(is_in)
    }

    /// An object of each home that has a part in giving an object other names.
    fn needed_to_place(
        &self,
        object: FileId,
        (from, to): (Option<&Place>, Option<&Place>),
        over: Option<FileId>,
    ) -> Vec<FileId> {
        let directories = from.into_iter().chain(to).map(|place| place.directory);
        // What goes must be empty, as the homes say of all that is noted in it.
        let goes = to.is_none().then_some(object).into_iter().chain(over);
        let inside = goes.flat_map(|goes| self.disk.inside(goes)).map(|(_, note)| note.object);
        let moves = from.zip(to).is_some_and(|(from, to)| from.directory != to.directory)
            && self.view(object).is_some_and(|metafile| metafile.is_directory());
        let needed = [object].into_iter().chain(over).chain(directories).chain(inside);
        let needed = needed.chain(moves.then_some(ROOT));
        let homes = needed.filter_map(|needed| Some((self.homes.of(needed)?, needed)));
        homes.collect::<BTreeMap<Peer, FileId>>().into_values().collect()
    }
}

impl Metaserver {
    /// What is said of what was not done, and needed the homes of these.
    pub(crate) fn not_yet(&self, needed: &[FileId]) -> FsError {
        self.with(|node| {
            let mut homes = needed.iter().filter_map(|needed| node.homes.of(*needed));
            later_unless(homes.any(|home| node.is_gone(home)))
        })
    }

    /// The same where it was another that asked the homes of these: whether they are there is found
    /// out first.
    async fn not_yet_elsewhere(&self, needed: &[FileId]) -> FsError {
        for object in needed {
            if !self.with(|node| node.is_doubtful(*object)) {
                drop(self.good(*object).await);
            }
        }
        self.not_yet(needed)
    }

    /// What is said where an object was not given other names.
    pub(crate) async fn not_placed_yet(
        &self,
        object: FileId,
        places: (Option<&Place>, Option<&Place>),
        over: Option<FileId>,
    ) -> FsError {
        let needed = self.with(|node| node.needed_to_place(object, places, over));
        self.not_yet_elsewhere(&needed).await
    }

    /// What is said of a name that was looked for.
    pub(crate) async fn not_found_yet(&self, place: &Place) -> FsError {
        match self.shared.options.order {
            Order::Constant => self.not_named_yet(place).await,
            // All of them had to be asked.
            Order::Sequential | Order::Nearest | Order::Tree => self.with(|node| {
                let is_any_gone = node.options.peers().any(|peer| node.is_gone(peer));
                later_unless(is_any_gone)
            }),
        }
    }

    /// What is said of a name that is at the directory's home, and perhaps another object's.
    pub(crate) async fn not_named_yet(&self, place: &Place) -> FsError {
        let directory = place.directory;
        if self.with(|node| node.is_doubtful(directory)) {
            return self.not_yet(&[directory]);
        }
        let named = self.ask_home(directory, Ask::Named(place.clone())).await;
        let Answer::Named(Some(object)) = named else { return self.not_yet(&[directory]) };
        self.not_yet_elsewhere(&[object]).await
    }
}

const fn later_unless(is_over: bool) -> FsError {
    if is_over { FsError::Io } else { FsError::Later }
}
