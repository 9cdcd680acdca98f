//! Delegable leases (covers) that this metaserver holds on objects of all homes. A client may cache
//! an object, and an operation may change data, only under such a lease. `core::replica::covers`
//! contains the rules.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use futures_channel::oneshot;
use futures_util::future::{Either, select};
use leasehold_base::limits::MESSAGE_BYTES_MAX;
use leasehold_base::limits::durations::{JUKEBOX_AFTER, METASERVER_RETRY_DELAY};
use leasehold_base::units::{FileId, Time};
use leasehold_core::leases::{Kind, Serial};
use leasehold_core::replica::covers::{self, Need, Purpose};
use leasehold_core::replica::{Call, Peer, Ticket, home};
use leasehold_fs::{Alone, FileType, FsError, Guard, ObjectId};
use leasehold_session::spawn;

use crate::Metaserver;
use crate::lease_server::waited;
use crate::lookup::{id, object};
use crate::message::{Answer, Ask};
use crate::node::{Asker, Node, Out, Waiter, Why};
use crate::outside::Later;

/// The delay before a recovering peer is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// The delay before clients are asked again to return their leases.
const EVICT_AGAIN: Duration = Duration::from_millis(200);

/// The largest number of delegable leases that this metaserver holds: all of them fit into one
/// message to a home that starts.
pub(crate) const COVERS_MAX: usize = 1 << 16;
const COVER_BYTES: usize = 16;
/// The size of one replaced name in the same message (`spec/replica.x`, 32), with its longest name.
const REPLACED_BYTES: usize = 8 + 4 + 256 + 8 + 8;
const REPLACED_MAX: usize = home::REPLACES_MAX + home::LATELY_MAX;
const _: () = assert!(
    COVERS_MAX * COVER_BYTES + REPLACED_MAX * REPLACED_BYTES + 1024 < MESSAGE_BYTES_MAX,
    "one message holds all of them"
);

/// The longest time for which a delegable lease is requested before the client receives a lease
/// that it may not cache under.
const LEND_PATIENCE: Duration = Duration::from_secs(1);

/// The lease server for clients of this metaserver.
pub trait Lender: Send + Sync {
    /// Returns true if clients may hold leases of an earlier epoch that they have not reclaimed.
    fn is_recovering(&self) -> bool;

    /// Recalls the leases of all clients on an object. Returns true once no client holds a lease or
    /// a layout of the object.
    fn evict(&self, object: ObjectId) -> Later<bool>;

    /// Drops the leases of clients on an object, because their terms are over.
    fn lost(&self, object: ObjectId);
}

/// The lender, and the peers that recover.
#[derive(Default)]
pub(crate) struct Lending {
    lender: Option<Arc<dyn Lender>>,
    /// Peers whose clients may hold leases that they have not reclaimed.
    recovering: BTreeMap<Peer, Recovering>,
}

/// A peer that recovers.
#[derive(Clone, Copy)]
struct Recovering {
    /// The time of the next question.
    asked: Time,
    /// The time at which all leases that its clients held before its start are over, if it stays
    /// silent.
    until: Time,
}

/// A delegable lease in use, or the wait for one.
struct Use {
    metaserver: Metaserver,
    object: FileId,
    ticket: Ticket,
}

impl Drop for Use {
    fn drop(&mut self) {
        let Self { object, ticket, .. } = *self;
        self.metaserver.with(|node| {
            node.waiting.remove(&ticket);
            node.covers(covers::Event::Done(object, ticket));
        });
    }
}

impl Metaserver {
    /// Sets the lender that grants leases to clients.
    pub fn lend_by(&self, lender: Arc<dyn Lender>) {
        self.with(|node| node.lending.lender = Some(lender));
    }

    fn lender(&self) -> Option<Arc<dyn Lender>> {
        self.with(|node| node.lending.lender.clone())
    }

    /// Waits for an answer, and returns [`Answer::Later`] after the timeout of a client.
    pub(crate) async fn soon(&self, mut receiver: oneshot::Receiver<Answer>) -> Answer {
        if let Ok(Some(answer)) = receiver.try_recv() {
            return answer;
        }
        let sleep = self.shared.outside.sleep(JUKEBOX_AFTER);
        match select(receiver, sleep).await {
            Either::Left((answer, _)) => answer.unwrap_or(Answer::Later),
            Either::Right(_) => Answer::Later,
        }
    }

    fn need(
        &self,
        object: FileId,
        kind: Kind,
        purpose: Purpose,
    ) -> (Use, oneshot::Receiver<Answer>) {
        let (sender, receiver) = oneshot::channel();
        let ticket = self.with(|node| {
            let ticket = node.ticket(Waiter::Operation(sender));
            node.covers(covers::Event::Need(Need { ticket, object, kind, purpose }));
            ticket
        });
        (Use { metaserver: self.clone(), object, ticket }, receiver)
    }

    /// Acquires a delegable lease so that clients may cache the object. Fails with `Later` if that
    /// takes too long, or if it needs a call and the request is opportunistic.
    pub(crate) async fn lend(
        &self,
        of: &ObjectId,
        guard: Guard,
        opportune: bool,
    ) -> Result<(), FsError> {
        let kind = match guard {
            Guard::Nothing => return Ok(()),
            Guard::Changes => Kind::Read,
            Guard::Everything => Kind::Write,
        };
        if !self.shared.options.lends {
            return Err(FsError::NotSupported);
        }
        let object = object(of)?;
        if opportune && !self.with(|node| node.can_lend(object, kind)) {
            return Err(FsError::Delay);
        }
        let is_leased = match self.good(object).await?.seen().file_type {
            FileType::Regular => true,
            // Clients change names in a directory without a write lease.
            FileType::Directory => kind == Kind::Read,
            FileType::BlockDevice
            | FileType::CharacterDevice
            | FileType::Symlink
            | FileType::Socket
            | FileType::Fifo => false,
        };
        if !is_leased {
            return Err(FsError::NotSupported);
        }
        let until = self.shared.outside.now() + LEND_PATIENCE;
        loop {
            let (_use, receiver) = self.need(object, kind, Purpose::Lend);
            if self.soon(receiver).await == Answer::Done {
                return Ok(());
            }
            if self.shared.outside.now() >= until {
                return Err(FsError::Delay);
            }
            self.shared.outside.sleep(METASERVER_RETRY_DELAY).await;
        }
    }

    /// Acquires exclusive access to a file for a change: other metaservers, and the clients of this
    /// one, have no access while the returned guard exists.
    pub(crate) async fn keep_alone(&self, of: &ObjectId) -> Result<Alone, FsError> {
        if !self.shared.options.strict {
            return Ok(Alone::default());
        }
        self.serves()?;
        let object = object(of)?;
        let until = self.shared.outside.now() + JUKEBOX_AFTER;
        loop {
            let (used, receiver) = self.need(object, Kind::Write, Purpose::Use);
            if self.soon(receiver).await == Answer::Done {
                let Serial(number) = self.with(|node| node.covers.serial(object));
                // The lease may have ended in the meantime.
                if number > 0 {
                    return Ok(Alone::until(number, move || drop(used)));
                }
            }
            drop(used);
            // This also detects an object that is gone or that has no home.
            if self.good(object).await?.seen().file_type != FileType::Regular {
                return Ok(Alone::default());
            }
            if self.shared.outside.now() >= until {
                return Err(self.not_yet(&[object]));
            }
            self.shared.outside.sleep(METASERVER_RETRY_DELAY).await;
        }
    }

    /// Recalls the leases of clients on an object, and reports the return to the state machine.
    pub(crate) fn vacate(&self, of: FileId) {
        let this = self.clone();
        spawn(async move {
            if let Some(lender) = this.lender() {
                while !lender.evict(id(of)).await {
                    this.shared.outside.sleep(EVICT_AGAIN).await;
                }
            }
            this.with(|node| node.covers(covers::Event::Vacated(of)));
        });
    }

    /// Drops the leases of clients on an object, because their terms are over.
    pub(crate) fn lost(&self, of: FileId) {
        if let Some(lender) = self.lender() {
            lender.lost(id(of));
        }
    }
}

impl Node {
    pub(crate) fn covers(&mut self, event: covers::Event) {
        let mut effects = Vec::new();
        self.covers.step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                covers::Effect::Ask(call, object, kind, purpose, given) => {
                    let reclaims = purpose == Purpose::Lend && self.is_recovering();
                    let cover = Ask::Cover(object, kind, purpose, given, reclaims);
                    self.call_home(object, cover, Why::Cover(call));
                }
                covers::Effect::Go(ticket) | covers::Effect::Given(ticket) => {
                    self.finish(ticket, Answer::Done);
                }
                covers::Effect::Later(ticket) => self.finish(ticket, Answer::Later),
                covers::Effect::Vacate(object) => self.outs.push(Out::Vacate(object)),
                covers::Effect::Lost(object) => self.outs.push(Out::Lost(object)),
            }
        }
    }

    /// Returns true if a delegable lease for clients exists, or can be granted without a call.
    fn can_lend(&self, object: FileId, kind: Kind) -> bool {
        let me = self.me();
        let is_free = || match kind {
            Kind::Read => !self.leasing.is_written_by_others(object, me),
            Kind::Write => !self.leasing.is_known_to_others(object, me),
        };
        self.covers.can_lend(self.now, object, kind)
            || self.is_mine(object) && !self.is_held_off(me, object, kind) && is_free()
    }

    /// Handles the answer to COVER.
    pub(crate) fn has_cover(&mut self, call: Call, answer: &Answer) {
        self.covers(if let Answer::Covered(serial, kind, term) = *answer {
            covers::Event::Granted(call, kind, serial, term)
        } else {
            covers::Event::Refused(call)
        });
    }

    /// Handles UNCOVER: a home recalls a delegable lease.
    pub(crate) fn asked_to_uncover(&mut self, asker: Asker, object: FileId, serial: Serial) {
        if self.is_recovering() {
            // Clients may hold leases that were granted under it before the start.
            self.answer(asker, Answer::Later);
            return;
        }
        let ticket = self.ticket(Waiter::Asker(asker));
        self.covers(covers::Event::Evicted(ticket, object, serial));
    }

    /// Returns true if clients of this metaserver may hold leases that they have not reclaimed.
    pub(crate) fn is_recovering(&self) -> bool {
        let lender = self.lending.lender.as_ref();
        self.options.lends && lender.is_none_or(|lender| lender.is_recovering())
    }

    /// Returns the delegable leases from a home that starts.
    pub(crate) fn covered_by(&self, home: Peer) -> Vec<(FileId, Kind)> {
        let is_its = |(object, _): &(FileId, Kind)| self.homes.of(*object) == Some(home);
        self.covers.had().filter(is_its).collect()
    }

    /// Returns true if a request of a metaserver has to wait until other metaservers have recovered
    /// the leases of their clients. While this metaserver itself recovers, all peers wait too. A
    /// recovering metaserver permits only operations that conflict with no lease, and it stays in
    /// recovery until the late writes of its clients have arrived.
    pub(crate) fn is_held_off(&self, peer: Peer, object: FileId, kind: Kind) -> bool {
        let others_recover = || {
            let mine = peer != self.me() && self.is_recovering();
            mine || self.lending.recovering.keys().any(|it| *it != peer)
        };
        if !self.options.lends || !others_recover() {
            return false;
        }
        // Leases on a directory permit only reads of its names.
        let is_there = self.disk.metafiles.contains_key(&object);
        let matters = is_there && (kind == Kind::Write || !self.has_directory(object));
        matters && !self.leasing.is_covered_by(object, peer, kind)
    }

    /// Returns the same for a request that only reads. A recovering metaserver may read, since it
    /// has to read before its clients can reclaim.
    pub(crate) fn is_kept_from(&self, peer: Peer, object: FileId) -> bool {
        let recovers = match peer == self.me() {
            true => self.is_recovering(),
            false => self.lending.recovering.contains_key(&peer),
        };
        !recovers && self.is_held_off(peer, object, Kind::Read)
    }

    /// Records whether the clients of a peer may hold leases that they have not reclaimed.
    pub(crate) fn recovers(&mut self, peer: Peer, recovers: bool) {
        if recovers {
            let (asked, until) =
                (self.now + ASK_AGAIN, self.now + waited(self.options.bounds, true));
            let recovering = self.lending.recovering.entry(peer);
            recovering.or_insert(Recovering { asked, until }).asked = asked;
        } else {
            self.lending.recovering.remove(&peer);
        }
    }

    pub(crate) fn wake_lending(&mut self) {
        let now = self.now;
        self.lending.recovering.retain(|_, recovering| recovering.until > now);
        let due = self.lending.recovering.iter().filter(|(_, recovering)| recovering.asked <= now);
        for peer in due.map(|(peer, _)| *peer).collect::<Vec<_>>() {
            self.recovers(peer, true);
            self.greet(peer);
        }
    }
}

impl Lending {
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.recovering.values().map(|recovering| recovering.asked).min()
    }
}
