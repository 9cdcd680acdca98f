//! Delegable leases (covers) that this metaserver holds on objects of all homes. A client may cache
//! an object, and an operation may change file data, only while this metaserver holds a delegable
//! lease on the object. `core::replica::covers` contains the rules.

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
use leasehold_fs::{ExclusiveAccess, FileType, FsError, Guard, ObjectId};
use leasehold_session::spawn;

use crate::Metaserver;
use crate::lease_server::waited;
use crate::lookup::{id, object};
use crate::message::{Answer, Ask};
use crate::node::{Asker, Node, Out, Waiter, Why};
use crate::outside::Later;

/// The delay before this metaserver sends another HELLO to a recovering peer.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// The delay before a failed recall of clients' leases is repeated.
const EVICT_AGAIN: Duration = Duration::from_millis(200);

/// The maximum number of delegable leases that this metaserver holds. It reports all of them to a
/// restarted home in one message.
pub(crate) const COVERS_MAX: usize = 1 << 16;
const COVER_BYTES: usize = 16;
/// The size of a replaced object in the same message (rule 32 of `spec/replica.x`), with the
/// longest name.
const REPLACED_BYTES: usize = 8 + 4 + 256 + 8 + 8;
const REPLACED_MAX: usize = home::REPLACES_MAX + home::LATELY_MAX;
const _: () = assert!(
    COVERS_MAX * COVER_BYTES + REPLACED_MAX * REPLACED_BYTES + 1024 < MESSAGE_BYTES_MAX,
    "one message holds all of them"
);

/// The timeout of a request for a delegable lease on behalf of a client's lease request. After this
/// time the client receives no lease.
const LEND_PATIENCE: Duration = Duration::from_secs(1);

/// The lease server for clients of this metaserver.
pub trait Lender: Send + Sync {
    /// Returns true during the recovery after a restart: clients may hold leases from before that
    /// they have not reclaimed yet.
    fn is_recovering(&self) -> bool;

    /// Recalls the leases that any client of this metaserver holds on an object. Returns true if no
    /// client holds a lease or a layout of the object any more, and false if the recall must be
    /// repeated.
    fn evict(&self, object: ObjectId) -> Later<bool>;

    /// Drops the leases of clients on an object without a recall, because the delegable lease above
    /// them has expired.
    fn lost(&self, object: ObjectId);
}

/// The lease server for clients, and the peers in recovery.
#[derive(Default)]
pub(crate) struct Lending {
    lender: Option<Arc<dyn Lender>>,
    /// The peers that have restarted and whose clients may hold leases that they have not reclaimed
    /// yet.
    recovering: BTreeMap<Peer, Recovering>,
}

/// A peer in recovery.
#[derive(Clone, Copy)]
struct Recovering {
    /// The time of the next HELLO to the peer.
    asked: Time,
    /// The time at which the recovery ends if the peer does not reply: all leases that its clients
    /// held before the restart have expired.
    until: Time,
}

/// An operation that uses or waits for a delegable lease. The use ends when this value is dropped.
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
    /// Sets the lease server that grants leases to the clients of this metaserver.
    pub fn lend_by(&self, lender: Arc<dyn Lender>) {
        self.with(|node| node.lending.lender = Some(lender));
    }

    fn lender(&self) -> Option<Arc<dyn Lender>> {
        self.with(|node| node.lending.lender.clone())
    }

    /// Waits for an answer; returns [`Answer::Later`] after the timeout of a client's call.
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

    /// Acquires a delegable lease on an object, under which this metaserver may grant leases to its
    /// clients. Fails with [`FsError::Delay`] if the lease is not granted in time, or if the
    /// request is opportunistic and would need a call to another metaserver.
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
            // A directory has read leases only, because the server makes all changes of names.
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

    /// Acquires exclusive access to a file for a change. While the returned guard exists, neither
    /// other metaservers nor clients with leases have access to the file.
    pub(crate) async fn keep_alone(&self, of: &ObjectId) -> Result<ExclusiveAccess, FsError> {
        if !self.shared.options.strict {
            return Ok(ExclusiveAccess::default());
        }
        self.serves()?;
        let object = object(of)?;
        let until = self.shared.outside.now() + JUKEBOX_AFTER;
        loop {
            let (used, receiver) = self.need(object, Kind::Write, Purpose::Use);
            if self.soon(receiver).await == Answer::Done {
                let Serial(number) = self.with(|node| node.covers.serial(object));
                // A number of zero means that the lease has ended in the meantime. Then try again.
                if number > 0 {
                    return Ok(ExclusiveAccess::until(number, move || drop(used)));
                }
            }
            drop(used);
            // Read the object before the next attempt, to detect that the object no longer exists
            // or is not a regular file.
            if self.good(object).await?.seen().file_type != FileType::Regular {
                return Ok(ExclusiveAccess::default());
            }
            if self.shared.outside.now() >= until {
                return Err(self.not_yet(&[object]));
            }
            self.shared.outside.sleep(METASERVER_RETRY_DELAY).await;
        }
    }

    /// Recalls the leases of clients on an object, and reports to the state machine when all are
    /// returned.
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

    /// Drops the leases of clients on an object without a recall, because the delegable lease above
    /// them has expired.
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

    /// Returns true if this metaserver has a delegable lease for its clients, or can grant the
    /// lease to itself without a call.
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
            // Do not return the lease yet: clients may hold leases from before the restart that
            // depend on it and that they have not reclaimed.
            self.answer(asker, Answer::Later);
            return;
        }
        let ticket = self.ticket(Waiter::Asker(asker));
        self.covers(covers::Event::Evicted(ticket, object, serial));
    }

    /// Returns true while this metaserver recovers after a restart: its clients may hold leases
    /// that they have not reclaimed yet.
    pub(crate) fn is_recovering(&self) -> bool {
        let lender = self.lending.lender.as_ref();
        self.options.lends && lender.is_none_or(|lender| lender.is_recovering())
    }

    /// Returns the delegable leases that this metaserver holds from a restarted home.
    pub(crate) fn covered_by(&self, home: Peer) -> Vec<(FileId, Kind)> {
        let is_its = |(object, _): &(FileId, Kind)| self.homes.of(*object) == Some(home);
        self.covers.had().filter(is_its).collect()
    }

    /// Returns true if a request of a metaserver must wait until all other metaservers have
    /// recovered the leases of their clients. While this metaserver itself recovers, the requests
    /// of all peers wait. The requester need not wait for its own recovery: a recovering metaserver
    /// permits only operations that conflict with no lease of its clients, and its recovery lasts
    /// until the late writes of its clients have arrived.
    pub(crate) fn is_held_off(&self, peer: Peer, object: FileId, kind: Kind) -> bool {
        let others_recover = || {
            let mine = peer != self.me() && self.is_recovering();
            mine || self.lending.recovering.keys().any(|it| *it != peer)
        };
        if !self.options.lends || !others_recover() {
            return false;
        }
        // Clients have only read leases on directories, so a read of a directory conflicts with
        // none of them.
        let is_there = self.disk.metafiles.contains_key(&object);
        let matters = is_there && (kind == Kind::Write || !self.has_directory(object));
        matters && !self.leasing.is_covered_by(object, peer, kind)
    }

    /// Like `is_held_off`, for a request that only reads. A recovering metaserver may read at once,
    /// since it must read an object before its clients can reclaim their leases on the object.
    pub(crate) fn is_kept_from(&self, peer: Peer, object: FileId) -> bool {
        let recovers = match peer == self.me() {
            true => self.is_recovering(),
            false => self.lending.recovering.contains_key(&peer),
        };
        !recovers && self.is_held_off(peer, object, Kind::Read)
    }

    /// Records that a peer is in recovery, or that its recovery has ended.
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
