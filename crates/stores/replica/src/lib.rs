//! A store of metafiles that several metaservers serve together. Each object has its home at one
//! metaserver, which alone stores and changes the object's metafile.
//!
//! The store keeps the names, owners, modes and times of files, and up to 4096 bytes of content for
//! each file. The content states the location of the data; the striped store, which uses this store
//! for its names, stores the data itself. `core::replica` contains the rules as state machines, and
//! `spec/replica.x` defines the RPC program by which metaservers call each other.
//! [`Metaserver::answer`] serves that program, and [`Outside`] sends the calls.
//! `docs/design/0016-metaservers.md` gives the reasons for the design.
//!
//! All metafiles that have their home at this metaserver are in memory. On stable storage the
//! metafiles are a sequence of [records](compacted), which [`Metaserver::open`] reads at the start.
//! No client and no peer receives a change before the change is on stable storage.

mod attributes;
mod change_slots;
mod delegable_leases;
mod disk;
mod effects;
mod entries;
mod failure_detector;
mod intents;
mod lease_server;
mod lookup;
mod message;
mod metafile;
mod mutations;
mod namespace;
mod node;
mod outside;
mod prepare;
mod program;
mod record;
mod referral;
mod rpc_handler;
mod searching;
mod store;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use leasehold_base::units::Time;
use leasehold_base::xdr::Writer;
use leasehold_core::replica::{Bounds, Peer};
use leasehold_fs::Verifier;
use leasehold_session::spawn;

use crate::change_slots::Placing;
use crate::disk::{Disk, ROOT};
use crate::message::{Answer, Ask};
use crate::node::{Node, Out};
use crate::program::Seen;
use crate::record::Record;

pub use delegable_leases::Lender;
pub use leasehold_base::xdr::Error as Damaged;
pub use leasehold_core::replica::search::Order;
pub use leasehold_session::Traffic;
pub use leasehold_wire::replica::PROGRAM;
pub use outside::{Later, NoResults, Outside, Urgency};

/// The largest size of a file: the largest signed 64-bit offset, as on disks.
pub(crate) const FILE_BYTES_MAX: u64 = i64::MAX.unsigned_abs();

/// The attributes of the root directory of a new file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The user id of the root directory.
    pub uid: u32,
    /// The group id of the root directory.
    pub gid: u32,
    /// The permission bits of the root directory.
    pub mode: u32,
    /// The file-system id that all attributes contain.
    pub file_system: u64,
}

/// The parameters of a metaserver.
pub struct Options {
    /// The number of this metaserver in the administrator's list.
    pub me: Peer,
    /// The number of metaservers in the list.
    pub count: u32,
    /// The metaservers whose replies the start does not wait for.
    pub without: Vec<Peer>,
    /// The order in which peers are searched for a name that is not cached here.
    pub order: Order,
    /// True in strict mode: a home grants leases on cached copies, so that no client sees old data,
    /// and a WRITE reaches the home before the client receives the reply. Names are then searched
    /// in [`Order::Constant`].
    pub strict: bool,
    /// True if this metaserver grants leases on files to its clients, through the lease server that
    /// [`Metaserver::lend_by`] sets.
    pub lends: bool,
    /// The staleness bound of cached copies, and the limits that depend on it.
    pub bounds: Bounds,
    /// The longest time for which a home may be silent before operations that need the home fail
    /// with an I/O error. Until then such operations fail with NFS3ERR_JUKEBOX.
    pub give_up: Duration,
    /// The attributes of the root directory when it is created.
    pub owner: Owner,
    /// The write verifier. It differs at each start.
    pub verifier: Verifier,
    /// A function that returns the initial content of a new file's metafile.
    pub content: Box<dyn Fn() -> Bytes + Send + Sync>,
    /// The shared secret by which metaservers of one file system authenticate each other.
    pub word: String,
}

impl Options {
    pub(crate) fn peers(&self) -> impl Iterator<Item = Peer> + use<> {
        (0..self.count).map(Peer)
    }
}

/// The load of a metaserver. A lower value sorts first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    /// The recent busy time of the metaserver's processors, in tenths of the elapsed time.
    pub busy_tenths: u32,
    /// The number of open connections.
    pub connections: u32,
}

impl Load {
    /// The load that a metaserver reports before its first measurement: fully busy, so that no
    /// client is sent to a metaserver that has just started.
    pub const UNKNOWN: Self = Self { busy_tenths: 10, connections: 0 };
}

/// An event that is reported to the administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// All peers have replied: this metaserver serves clients.
    Open,
    /// A peer has recorded later state of this metaserver than its stable storage contains, so this
    /// metaserver refuses to serve.
    Older {
        /// The number of the peer.
        peer: u32,
        /// The epoch and version number that the peer has recorded.
        known: (u64, u64),
        /// The epoch and version number on stable storage.
        stored: (u64, u64),
    },
    /// A peer has recorded a later epoch of this metaserver: this metaserver is superseded, and it
    /// refuses to serve.
    Over {
        /// The number of the peer.
        peer: u32,
        /// The epoch that the peer has recorded.
        known: u64,
        /// The epoch of this metaserver.
        this: u64,
    },
    /// Exactly one of the peer and this metaserver is in strict mode, so this metaserver refuses to
    /// serve.
    Unlike {
        /// The number of the peer.
        peer: u32,
        /// True if this metaserver is in strict mode.
        strict: bool,
    },
}

/// A handle to a metaserver. Clones refer to the same metaserver.
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
    /// The time of the earliest scheduled wake-up of the state machines.
    armed: Mutex<Option<Time>>,
}

/// Returns the shortest sequence of records that describes the same state.
///
/// # Errors
/// Fails if a record cannot be decoded.
pub fn compacted(records: &[Bytes]) -> Result<Vec<Vec<u8>>, Damaged> {
    Ok(Disk::of(records)?.records().map(|record| record.encode()).collect())
}

/// Returns the compacted records for a metaserver that continues on another machine. The epoch in
/// these records is one higher than in the old records, so a metaserver that is later started from
/// the old records is recognised as rolled back.
///
/// # Errors
/// Fails if a record cannot be decoded.
pub fn moved(records: &[Bytes]) -> Result<Vec<Vec<u8>>, Damaged> {
    let mut disk = Disk::of(records)?;
    disk.known.epoch += 1;
    Ok(disk.records().map(|record| record.encode()).collect())
}

/// The reason why [`Metaserver::open`] fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// A record cannot be decoded.
    Damaged,
    /// The records belong to the metaserver with this other number; `None` if the list has no
    /// metaserver for them.
    OfAnother(Option<u32>),
}

impl Metaserver {
    /// Starts an epoch over the records from stable storage. `random` must differ at each start.
    ///
    /// # Errors
    /// Fails as [`OpenError`] describes.
    pub fn open(
        mut options: Options,
        records: &[Bytes],
        outside: Arc<dyn Outside>,
        random: u64,
    ) -> Result<Self, OpenError> {
        if options.strict {
            // In strict mode, leases on directories protect the name reservations at the
            // directory's home. Only this search order relies on the reservations, so use it.
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

    /// Returns the number of this metaserver, and the number of metaservers in the list.
    #[must_use]
    pub fn number(&self) -> (u32, u32) {
        (self.shared.options.me.0, self.shared.options.count)
    }

    /// Returns the epoch of this metaserver, which grows with each start.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.node().epoch()
    }

    /// Returns true if this metaserver grants leases on files to its clients.
    #[must_use]
    pub fn lends(&self) -> bool {
        self.shared.options.lends
    }

    /// Returns the number of calls to other metaservers so far.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.node().messages
    }

    /// Returns true if this metaserver serves clients.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.node().peers.is_open()
    }

    /// Records the current load of this metaserver.
    pub fn is_busy(&self, load: Load) {
        let mut node = self.node();
        node.load = load;
        node.choosing.forget();
    }

    /// Returns the load of a metaserver in the list, which may be this metaserver itself; `None` if
    /// the metaserver does not serve clients, or does not reply.
    pub async fn load_of(&self, number: u32) -> Option<Load> {
        let Answer::Load(load) = self.ask(Peer(number), Ask::Load).await else { return None };
        Some(load)
    }

    fn node(&self) -> MutexGuard<'_, Node> {
        // Ignore a poisoned lock: to panic here as well would not repair the state machine that
        // panicked.
        self.shared.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a change of the state, and then executes its effects.
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
                    // Treat a malformed reply as a refusal of the call: the peer is reachable.
                    let read =
                        |results: Bytes| ask.answer(&results).map_err(|_| NoResults::Refused);
                    let answer = results.and_then(read);
                    this.with(|node| node.call_ended(call, answer));
                });
            }
            // Ignore an error: the task that waits may have been dropped.
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

    /// Schedules a wake-up of the state machines, unless an earlier wake-up is already scheduled.
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
