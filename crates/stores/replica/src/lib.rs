//! A store of metafiles that several metaservers keep, each object at home at one of them.
//!
//! It has the names, owners, modes and times of files, and up to 4096 bytes of content each, which
//! say where the data lies; a store of stripes over it has the data. `core::replica` has the rules,
//! `spec/replica.x` what metaservers say to each other: [`Metaserver::answer`] serves that program,
//! and [`Outside`] calls it. `docs/design/0016-metaservers.md` says why it is so.
//!
//! All metafiles that have their home here are in memory, and on stable storage as a sequence of
//! [records](compacted) that a start reads. A change is told to nobody before it is stored.

mod asked;
mod attributes;
mod begun;
mod changing;
mod choosing;
mod covering;
mod disk;
mod effects;
mod entries;
mod leasing;
mod message;
mod metafile;
mod naming;
mod node;
mod outside;
mod placing;
mod program;
mod record;
mod searching;
mod silence;
mod store;
#[cfg(test)]
mod tests;
mod using;
mod yielding;

use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use leasehold_base::units::Time;
use leasehold_base::xdr::Writer;
use leasehold_core::replica::{Bounds, Peer};
use leasehold_fs::Verifier;
use leasehold_session::spawn;

use crate::disk::{Disk, ROOT};
use crate::message::{Answer, Ask};
use crate::node::{Node, Out};
use crate::placing::Placing;
use crate::program::Seen;
use crate::record::Record;

pub use covering::Lender;
pub use leasehold_base::xdr::Error as Damaged;
pub use leasehold_core::replica::search::Order;
pub use leasehold_session::Traffic;
pub use leasehold_wire::replica::PROGRAM;
pub use outside::{Later, NoResults, Outside, Urgency};

/// The largest size of a file: what a signed 64-bit offset can name, as on disks.
pub(crate) const FILE_BYTES_MAX: u64 = i64::MAX.unsigned_abs();

/// How long a client waits before it is told to come again: a Linux client then sleeps. It waits for
/// longer where a home may still do what it was asked for.
const PATIENCE: Duration = Duration::from_secs(2);

/// To whom a new file system belongs, and what number it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The root's owner.
    pub uid: u32,
    /// The root's group.
    pub gid: u32,
    /// The root's permission bits.
    pub mode: u32,
    /// The number of the file system.
    pub file_system: u64,
}

/// What a metaserver is given.
pub struct Options {
    /// Its number on the administrator's list.
    pub me: Peer,
    /// How many there are on the list.
    pub count: u32,
    /// Those that are not waited for at the start.
    pub without: Vec<Peer>,
    /// Whom is asked for a name that is not here.
    pub order: Order,
    /// Whether copies are had by leases that their homes grant, so that nothing old is shown, and a
    /// WRITE is known at the home before it is answered. Names are looked for by [`Order::Constant`].
    pub strict: bool,
    /// Whether clients are granted leases on files, by whom [`Metaserver::lend_by`] says.
    pub lends: bool,
    /// How long copies are good, and what goes with that.
    pub bounds: Bounds,
    /// How long a home may be silent before what needs it fails. Until then it is to come again.
    pub give_up: Duration,
    /// To whom the root belongs when it is made.
    pub owner: Owner,
    /// Different at each start.
    pub verifier: Verifier,
    /// What a new file has as its content.
    pub content: Box<dyn Fn() -> Bytes + Send + Sync>,
    /// By which peers of one file system know each other.
    pub word: String,
}

impl Options {
    pub(crate) fn peers(&self) -> impl Iterator<Item = Peer> + use<> {
        (0..self.count).map(Peer)
    }
}

/// How busy a metaserver is; the less busy comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    /// How much of its time it had something to do lately, in tenths.
    pub busy_tenths: u32,
    /// Its open connections.
    pub connections: u32,
}

impl Load {
    /// What one says before it knows that of itself: as if it were busy all the time, so that nobody is
    /// sent to who has just started.
    pub const UNKNOWN: Self = Self { busy_tenths: 10, connections: 0 };
}

/// What an administrator is to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// All peers have answered: this metaserver serves.
    Open,
    /// A peer knows more of this metaserver than is stored here, so that serves nobody.
    Older {
        /// The peer.
        peer: u32,
        /// The epoch and stamp that it knows.
        known: (u64, u64),
        /// Those that are stored.
        stored: (u64, u64),
    },
    /// A peer knows a later epoch of this metaserver: another has taken its place, and this one serves
    /// nobody any more.
    Over {
        /// The peer.
        peer: u32,
        /// The epoch that it knows.
        known: u64,
        /// That of this one.
        this: u64,
    },
    /// A peer is strict and this metaserver is not, or the other way round, so that this one serves
    /// nobody.
    Unlike {
        /// The peer.
        peer: u32,
        /// Whether this one is strict.
        strict: bool,
    },
}

/// A metaserver among others. Clones are the same.
#[derive(Clone)]
pub struct Metaserver {
    shared: Arc<Shared>,
}

struct Shared {
    options: Arc<Options>,
    outside: Arc<dyn Outside>,
    node: Mutex<Node>,
    seen: Mutex<Seen>,
    placing: Placing,
    /// When it is woken next.
    armed: Mutex<Option<Time>>,
}

/// The fewest records that say all that these say.
///
/// # Errors
/// When one cannot be read.
pub fn compacted(records: &[Bytes]) -> Result<Vec<Vec<u8>>, Damaged> {
    Ok(Disk::of(records)?.records().map(|record| record.encode()).collect())
}

/// The same for a home that goes on elsewhere. Its next epoch is later than the next here, so what is
/// started from a copy of these, when the other has begun, is known for an older one.
///
/// # Errors
/// When one cannot be read.
pub fn moved(records: &[Bytes]) -> Result<Vec<Vec<u8>>, Damaged> {
    let mut disk = Disk::of(records)?;
    disk.known.epoch += 1;
    Ok(disk.records().map(|record| record.encode()).collect())
}

/// Why a metaserver cannot be one among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// A record cannot be read.
    Damaged,
    /// The records are those of the metaserver with another number, if it is on the list.
    OfAnother(Option<u32>),
}

impl Metaserver {
    /// Begins an epoch over the records that are stored. `random` is different at each start.
    ///
    /// # Errors
    /// As [`OpenError`] says.
    pub fn open(
        mut options: Options,
        records: &[Bytes],
        outside: Arc<dyn Outside>,
        random: u64,
    ) -> Result<Self, OpenError> {
        if options.strict {
            // The notes of homes are what leases on names are about.
            options.order = Order::Constant;
        }
        options.lends &= options.strict;
        let options = Arc::new(options);
        let mut disk = Disk::of(records).map_err(|_| OpenError::Damaged)?;
        if let Some(object) = disk.metafiles.keys().next() {
            let homes = node::homes(&options);
            match homes.of(*object) {
                Some(home) if home == options.me => {}
                home => return Err(OpenError::OfAnother(home.map(|home| home.0))),
            }
        }
        let mut first = Vec::new();
        if options.me == Peer(0) && !disk.metafiles.contains_key(&ROOT) {
            let root = Record::Put(disk::root(outside.wall().into(), &options.owner));
            first.push(root.encode());
            disk.take(root);
        }
        drop(outside.append(first, Urgency::Soon));
        let start = u32::try_from(random >> 33).expect("31 bits are left");
        let node = Node::new(Arc::clone(&options), disk, Arc::clone(&outside), start);
        let (node, seen, armed) = (Mutex::new(node), Mutex::default(), Mutex::default());
        let placing = Placing::new(options.count);
        let shared = Arc::new(Shared { options, outside, node, seen, placing, armed });
        let metaserver = Self { shared };
        metaserver.with(Node::begin);
        Ok(metaserver)
    }

    /// Its number, and how many there are.
    #[must_use]
    pub fn number(&self) -> (u32, u32) {
        (self.shared.options.me.0, self.shared.options.count)
    }

    /// Its epoch: greater with each start.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.node().epoch()
    }

    /// Whether clients are granted leases on what it serves.
    #[must_use]
    pub fn lends(&self) -> bool {
        self.shared.options.lends
    }

    /// How many calls were made to other metaservers.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.node().messages
    }

    /// Whether it serves.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.node().peers.is_open()
    }

    /// Takes note of how busy it is.
    pub fn is_busy(&self, load: Load) {
        let mut node = self.node();
        node.load = load;
        node.choosing.forget();
    }

    /// How busy one on the list is, itself or another; none of one that does not serve this one now.
    pub async fn load_of(&self, number: u32) -> Option<Load> {
        let Answer::Load(load) = self.ask(Peer(number), Ask::Load).await else { return None };
        Some(load)
    }

    fn node(&self) -> MutexGuard<'_, Node> {
        // A panic in a machine is a bug that every later step would meet again.
        self.shared.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and then does what follows from it.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Node) -> T) -> T {
        let mut node = self.node();
        node.now = self.shared.outside.now();
        let changed = change(&mut node);
        node.settle();
        let outs = core::mem::take(&mut node.outs);
        let wake = node.next_wake();
        drop(node);
        outs.into_iter().for_each(|out| self.go(out));
        wake.into_iter().for_each(|wake| self.arm(wake));
        changed
    }

    fn go(&self, out: Out) {
        match out {
            Out::Call { call, peer, caller, ask } => {
                let mut args = Writer::new();
                ask.encode(caller, &mut args);
                let args = args.finish().into_bytes();
                let reply = self.shared.outside.call(peer.0, ask.procedure(), args);
                let this = self.clone();
                spawn(async move {
                    let results = reply.await;
                    // What cannot be read is an answer, too.
                    let read =
                        |results: Bytes| ask.answer(&results).map_err(|_| NoResults::Refused);
                    let answer = results.and_then(read);
                    this.with(|node| node.call_ended(call, answer));
                });
            }
            // Who waited may be gone.
            Out::Tell(sender, stamp, answer) => drop(sender.send((stamp, answer))),
            Out::Leave(sender) => drop(sender),
            Out::Operation(sender, answer) => drop(sender.send(answer)),
            Out::Vacate(object) => self.vacate(object),
            Out::Lost(object) => self.lost(object),
            Out::Await(stored, chore) => {
                let this = self.clone();
                spawn(async move {
                    let is_stored = stored.await.is_ok();
                    this.with(
                        |node| if is_stored { node.stored(chore) } else { node.fail(&chore) },
                    );
                });
            }
        }
    }

    /// Has the machines woken at a time, unless that is done earlier anyway.
    fn arm(&self, wake: Time) {
        let mut armed = self.shared.armed.lock().unwrap_or_else(PoisonError::into_inner);
        if armed.is_some_and(|armed| armed <= wake) {
            return;
        }
        *armed = Some(wake);
        drop(armed);
        let this = self.clone();
        let span = wake.since(self.shared.outside.now());
        let sleep = self.shared.outside.sleep(span);
        spawn(async move {
            sleep.await;
            let mut armed = this.shared.armed.lock().unwrap_or_else(PoisonError::into_inner);
            if armed.is_some_and(|armed| armed <= wake) {
                *armed = None;
            }
            drop(armed);
            this.with(Node::wake);
        });
    }
}
