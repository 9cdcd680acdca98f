//! The building blocks of operations: acquiring an object, finding a name, and calling a home.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "an answer of any other kind is no result of the request"
)]

use futures_channel::oneshot;
use leasehold_base::limits::durations::METASERVER_RETRY_DELAY;
use leasehold_base::units::FileId;
use leasehold_core::replica::search::Order;
use leasehold_core::replica::{Peer, Place, Ticket, copies};
use leasehold_fs::{Changed, FsError, Linked, ObjectId, Renamed};

use crate::Metaserver;
use crate::message::{Answer, Ask};
use crate::metafile::Metafile;
use crate::node::{Node, Waiter, Why};

/// The number of lookups of a name before its client receives NFS3ERR_JUKEBOX.
const ROUNDS_MAX: usize = 5;

/// Returns the store's id of an object.
pub(crate) fn id(object: FileId) -> ObjectId {
    ObjectId::new(&object.0.to_be_bytes()).expect("eight bytes are few")
}

/// Returns the object of a store's id.
pub(crate) fn object(id: &ObjectId) -> Result<FileId, FsError> {
    let bytes = id.as_bytes().try_into().map_err(|_| FsError::Stale)?;
    Ok(FileId(u64::from_be_bytes(bytes)))
}

/// True if an operation failed only because of a change in progress or an unreachable peer.
pub(crate) trait ComesAgain {
    fn comes_again(&self) -> bool;
}

impl<T> ComesAgain for Result<T, FsError> {
    fn comes_again(&self) -> bool {
        matches!(self, Err(FsError::Delay))
    }
}

impl<T> ComesAgain for Changed<T> {
    fn comes_again(&self) -> bool {
        self.result.comes_again()
    }
}

impl ComesAgain for Renamed {
    fn comes_again(&self) -> bool {
        self.result.comes_again()
    }
}

impl ComesAgain for Linked {
    fn comes_again(&self) -> bool {
        self.result.comes_again()
    }
}

/// The location of a name.
enum Where {
    Home(Metafile),
    Copy(FileId),
    Nowhere,
    Elsewhere,
}

impl Metaserver {
    /// Starts an action with a new ticket, and waits for its answer.
    async fn wait(&self, begin: impl FnOnce(&mut Node, Ticket)) -> Answer {
        let (sender, receiver) = oneshot::channel();
        self.with(|node| {
            let ticket = node.ticket(Waiter::Operation(sender));
            begin(node, ticket);
        });
        receiver.await.unwrap_or(Answer::Later)
    }

    /// Returns an error unless this metaserver serves.
    pub(crate) fn serves(&self) -> Result<(), FsError> {
        self.with(|node| {
            if node.refuses {
                Err(FsError::Io)
            } else if node.peers.is_open() {
                Ok(())
            } else {
                Err(FsError::Delay)
            }
        })
    }

    /// Returns the metafile of an object, after an acquire from its home if the copy is too old.
    pub(crate) async fn good(&self, object: FileId) -> Result<Metafile, FsError> {
        self.acquired(object, false).await
    }

    /// Returns the metafile of an object, after an acquire from its home in all cases.
    pub(crate) async fn fresh(&self, object: FileId) -> Result<Metafile, FsError> {
        self.acquired(object, true).await
    }

    async fn acquired(&self, object: FileId, at_once: bool) -> Result<Metafile, FsError> {
        self.serves()?;
        let (mine, is_known, yielded_to) = self.with(|node| {
            let mine = node.is_mine(object).then(|| node.seen_at_once(object));
            (mine, node.homes.of(object).is_some(), node.yields.hides(object))
        });
        if let Some(to) = yielded_to {
            return Err(self.not_yet(&[object, to]));
        }
        match mine {
            Some(Some(seen)) => return seen.ok_or(FsError::Stale),
            Some(None) => return self.looked(object).await,
            None => {}
        }
        if !is_known {
            return Err(FsError::Stale);
        }
        let answer = self.wait(|node, ticket| {
            let at_once = node.suspects.remove(&object) || at_once;
            node.copies(if at_once {
                copies::Event::Miss(ticket, object)
            } else {
                copies::Event::Use(ticket, object)
            });
        });
        match answer.await {
            Answer::Metafile(metafile) if metafile.object == object => Ok(metafile),
            Answer::Gone => Err(FsError::Stale),
            _ => Err(self.not_yet(&[object])),
        }
    }

    /// Returns the metafile of an object of this home once no other metaserver writes it.
    async fn looked(&self, object: FileId) -> Result<Metafile, FsError> {
        let (sender, receiver) = oneshot::channel();
        self.with(|node| {
            let ticket = node.ticket(Waiter::Operation(sender));
            if node.is_kept_from(node.me(), object) {
                node.finish(ticket, Answer::Later);
            } else {
                node.look(ticket, object);
            }
        });
        match self.soon(receiver).await {
            Answer::Metafile(metafile) => Ok(metafile),
            Answer::Gone => Err(FsError::Stale),
            _ => Err(FsError::Delay),
        }
    }

    /// Returns the metafile of the object that has a name.
    pub(crate) async fn find(&self, place: &Place) -> Result<Option<Metafile>, FsError> {
        self.serves()?;
        let mut is_checked = false;
        for _ in 0..ROUNDS_MAX {
            match self.with(|node| node.look_for(place)) {
                Where::Home(metafile) => return Ok(Some(metafile)),
                Where::Nowhere => return Ok(None),
                Where::Copy(object) => match self.acquired(object, is_checked).await {
                    Ok(found) if found.stands_at(place) => return Ok(Some(found)),
                    // The reservation may be old, or of another object of the same home.
                    Ok(_) | Err(FsError::Stale) if is_checked => {
                        return self.find_by(object, place).await;
                    }
                    Ok(_) | Err(FsError::Stale) => is_checked = true,
                    Err(error) => return Err(error),
                },
                Where::Elsewhere => {
                    let search = |node: &mut Node, ticket| {
                        node.copies(copies::Event::Search(ticket, place.clone()));
                    };
                    match self.wait(search).await {
                        Answer::Metafile(found) if found.stands_at(place) => {
                            return Ok(Some(found));
                        }
                        Answer::Metafile(_) => {}
                        Answer::Gone => return Ok(None),
                        _ => return Err(self.not_found_yet(place).await),
                    }
                }
            }
        }
        Err(FsError::Delay)
    }

    /// Returns the same, from the homes and not from cached copies.
    pub(crate) async fn find_anew(&self, place: &Place) -> Result<Option<Metafile>, FsError> {
        let answer = self.ask_home(place.directory, Ask::Named(place.clone())).await;
        let object = match answer {
            Answer::Named(Some(object)) => object,
            Answer::Named(None) | Answer::Gone => return Ok(None),
            _ => return Err(self.not_yet(&[place.directory])),
        };
        self.find_by(object, place).await
    }

    /// Returns the metafile of the object that has a name. The home of `object` has it, according
    /// to a reservation.
    pub(crate) async fn find_by(
        &self,
        object: FileId,
        place: &Place,
    ) -> Result<Option<Metafile>, FsError> {
        match self.ask_home(object, Ask::Search(place.clone(), Vec::new())).await {
            // An announcement may overtake the answer; only the copies record announcements.
            Answer::Metafile(found) => match self.fresh(found.object).await {
                Ok(found) if found.stands_at(place) => Ok(Some(found)),
                Ok(_) | Err(FsError::Stale) => Err(FsError::Delay),
                Err(error) => Err(error),
            },
            Answer::Nowhere | Answer::Gone => Ok(None),
            _ => Err(self.not_yet(&[object])),
        }
    }

    /// Calls the home of an object.
    pub(crate) async fn ask_home(&self, object: FileId, ask: Ask) -> Answer {
        self.wait(|node, ticket| node.call_home(object, ask, Why::Operation(ticket))).await
    }

    /// Calls a peer.
    pub(crate) async fn ask(&self, peer: Peer, ask: Ask) -> Answer {
        self.wait(|node, ticket| node.call(peer, ask, Why::Operation(ticket))).await
    }

    /// Starts an action of this metaserver's own state machines.
    pub(crate) async fn run(&self, begin: impl FnOnce(&mut Node, Ticket)) -> Answer {
        self.wait(begin).await
    }

    /// Asks the home of an object to rename, link or unlink it. The request is repeated until the
    /// home answers or has been silent for too long, so that a client receives NFS3ERR_JUKEBOX only
    /// if the request had no effect.
    pub(crate) async fn place(
        &self,
        object: FileId,
        from: Option<&Place>,
        to: Option<&Place>,
        over: Option<FileId>,
    ) -> Result<(), FsError> {
        let Some(placed) = self.may_place(object).await else {
            return Err(self.not_placed_yet(object, (from, to), over));
        };
        let (number, from, to) = (placed.number, from.cloned(), to.cloned());
        let ask = Ask::Place { number, object, from: from.clone(), to: to.clone(), over };
        let version = loop {
            match self.ask_home(object, ask.clone()).await {
                Answer::Version(version) => break version,
                Answer::Gone => return Err(FsError::NotFound),
                Answer::Exists => return Err(FsError::AlreadyExists),
                Answer::Full => return Err(FsError::NotEmpty),
                Answer::Loop => return Err(FsError::Invalid),
                answer => {
                    let error = self.not_placed_yet(object, (from.as_ref(), to.as_ref()), over);
                    if answer != Answer::Silence || error != FsError::Delay {
                        return Err(error);
                    }
                    self.shared.outside.sleep(METASERVER_RETRY_DELAY).await;
                }
            }
        };
        self.with(|node| {
            if to.is_some() {
                node.has_changed(object, version, to.clone());
            } else {
                node.suspect(object);
            }
            over.into_iter().for_each(|over| node.suspect(over));
            for place in from.iter().chain(&to) {
                node.suspect(place.directory);
            }
        });
        Ok(())
    }
}

impl Node {
    /// Marks a copy as out of date after a change at its home.
    pub(crate) fn suspect(&mut self, object: FileId) {
        // A copy under a lease is never out of date.
        if self.kept.contains_key(&object) && !self.options.strict {
            self.suspects.insert(object);
        }
    }

    /// Returns the metafile of an object of this home, or `None` if another metaserver may write
    /// it.
    fn seen_at_once(&self, object: FileId) -> Option<Option<Metafile>> {
        let me = self.me();
        let waits = self.options.strict
            && (self.leasing.is_written_by_others(object, me) || self.is_kept_from(me, object));
        (!waits).then(|| self.view(object))
    }

    fn look_for(&self, place: &Place) -> Where {
        if let Some(object) = self.disk.standing_at(place) {
            if self.yields.hides(object).is_some() {
                return Where::Copy(object);
            }
            let seen = self.seen_at_once(object).map(|seen| seen.map(Where::Home));
            if let Some(found) = seen.unwrap_or(Some(Where::Copy(object))) {
                return found;
            }
        }
        if let Some(object) = self.kept_at(place) {
            return Where::Copy(object);
        }
        // The reservations of the directory's home are complete for this order.
        let by_notes = self.options.strict || self.options.order == Order::Constant;
        if by_notes && self.is_mine(place.directory) {
            let note = self.disk.notes.get(place);
            return note.map_or(Where::Nowhere, |note| Where::Copy(note.object));
        }
        Where::Elsewhere
    }
}
