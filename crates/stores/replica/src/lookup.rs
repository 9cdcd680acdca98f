//! The building blocks of operations: acquire a current metafile, find the object of a name, and
//! call a home.

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

/// The maximum number of attempts to look up a name. After these the client receives
/// NFS3ERR_JUKEBOX.
const ROUNDS_MAX: usize = 5;

/// Converts a file id to an object id of the trait `Store`.
pub(crate) fn id(object: FileId) -> ObjectId {
    ObjectId::new(&object.0.to_be_bytes()).expect("eight bytes are few")
}

/// Converts an object id of the trait `Store` to a file id.
pub(crate) fn object(id: &ObjectId) -> Result<FileId, FsError> {
    let bytes = id.as_bytes().try_into().map_err(|_| FsError::Stale)?;
    Ok(FileId(u64::from_be_bytes(bytes)))
}

/// Results of which the operation can be repeated: `comes_again` returns true if the operation
/// failed only because of a change in progress or an unreachable peer.
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

/// The local knowledge about the object of a name: an object of this home, a possible object whose
/// metafile must be acquired first, no object, or nothing.
enum Where {
    Home(Metafile),
    Copy(FileId),
    Nowhere,
    Elsewhere,
}

impl Metaserver {
    /// Starts an operation of the state machines with a new ticket, and waits for the answer.
    async fn wait(&self, begin: impl FnOnce(&mut Node, Ticket)) -> Answer {
        let (sender, receiver) = oneshot::channel();
        self.with(|node| {
            let ticket = node.ticket(Waiter::Operation(sender));
            begin(node, ticket);
        });
        receiver.await.unwrap_or(Answer::Later)
    }

    /// Returns an error unless this metaserver serves clients.
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

    /// Returns the metafile of an object. Fetches it from the object's home if there is no valid
    /// cached copy.
    pub(crate) async fn good(&self, object: FileId) -> Result<Metafile, FsError> {
        self.acquired(object, false).await
    }

    /// Returns the metafile of an object, always fetched from the object's home.
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

    /// Returns the metafile of an object of this home, once no other metaserver may write the
    /// object.
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

    /// Returns the metafile of the object that has a name; `None` if no object has the name.
    pub(crate) async fn find(&self, place: &Place) -> Result<Option<Metafile>, FsError> {
        self.serves()?;
        let mut is_checked = false;
        for _ in 0..ROUNDS_MAX {
            match self.with(|node| node.look_for(place)) {
                Where::Home(metafile) => return Ok(Some(metafile)),
                Where::Nowhere => return Ok(None),
                Where::Copy(object) => match self.acquired(object, is_checked).await {
                    Ok(found) if found.stands_at(place) => return Ok(Some(found)),
                    // The current metafile of the object does not contain the name. The reservation
                    // may be old, or the name may belong to another object of the same home: search
                    // at that home.
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

    /// Like `find`, but queries the homes and does not use cached copies.
    pub(crate) async fn find_anew(&self, place: &Place) -> Result<Option<Metafile>, FsError> {
        let answer = self.ask_home(place.directory, Ask::Named(place.clone())).await;
        let object = match answer {
            Answer::Named(Some(object)) => object,
            Answer::Named(None) | Answer::Gone => return Ok(None),
            _ => return Err(self.not_yet(&[place.directory])),
        };
        self.find_by(object, place).await
    }

    /// Returns the metafile of the object that has a name, by a search at the home of `object`.
    /// `object` has reserved the name, so the object with the name has the same home.
    pub(crate) async fn find_by(
        &self,
        object: FileId,
        place: &Place,
    ) -> Result<Option<Metafile>, FsError> {
        match self.ask_home(object, Ask::Search(place.clone(), Vec::new())).await {
            // Fetch the object again through `copies`: an announcement of a later change may have
            // overtaken this answer, and only `copies` takes announcements into account.
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

    /// Starts an operation of this metaserver's state machines, and waits for the answer.
    pub(crate) async fn run(&self, begin: impl FnOnce(&mut Node, Ticket)) -> Answer {
        self.wait(begin).await
    }

    /// Renames, links or unlinks an object at its home. Repeats the request until the home answers
    /// or has been silent for too long, so that a client receives NFS3ERR_JUKEBOX only if the
    /// request had no effect.
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
    /// Marks the cached copy of an object as out of date, after a change at its home that this
    /// metaserver requested.
    pub(crate) fn suspect(&mut self, object: FileId) {
        // In strict mode the change has recalled the lease on the copy, so no copy is out of date.
        if self.kept.contains_key(&object) && !self.options.strict {
            self.suspects.insert(object);
        }
    }

    /// Returns the metafile of an object of this home, without waiting; `None` if another
    /// metaserver may write the object, so that the caller must wait.
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
        // If this metaserver is the directory's home and the search order is `Constant`, each name
        // has a reservation here, so the reservations give the answer.
        let by_notes = self.options.strict || self.options.order == Order::Constant;
        if by_notes && self.is_mine(place.directory) {
            let note = self.disk.notes.get(place);
            return note.map_or(Where::Nowhere, |note| Where::Copy(note.object));
        }
        Where::Elsewhere
    }
}
