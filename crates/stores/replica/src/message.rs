//! The messages between metaservers as Rust values, and their encoding according to
//! `spec/replica.x`.

use core::time::Duration;

use leasehold_base::units::FileId;
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer, decode_all};
use leasehold_core::leases::{Kind, Serial};
use leasehold_core::replica::covers::Purpose;
use leasehold_core::replica::home::Refusal;
use leasehold_core::replica::moves::Move;
use leasehold_core::replica::names::Stands;
use leasehold_core::replica::peers::Known;
use leasehold_core::replica::yields::Yield;
use leasehold_core::replica::{Peer, Place, Stamp};
use leasehold_wire::list::{List, ListOf};
use leasehold_wire::{nfs3, replica};

use crate::Load;
use crate::attributes::Setting;
use crate::metafile::{Metafile, Wrote, place, wire_place};

/// The maximum number of names in the reply to LIST.
pub(crate) const LISTED_MAX: u32 = 256;

/// A request to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// The epoch and the version number that the caller found on stable storage, and true if the
    /// caller is in strict mode.
    Hello(Known, bool),
    Fetch(FileId, Option<Stamp>),
    Search(Place, Vec<Peer>),
    Named(Place),
    /// The name to reserve, the object that reserves the name, and the object that it replaces.
    Claim(Place, FileId, Option<FileId>),
    /// The question if an object has a name or is about to get the name. The last field is another
    /// object that wants to reserve the name and already has it.
    Stands(Place, FileId, Option<FileId>),
    Change {
        object: FileId,
        wanted: Setting,
        wrote: Option<Wrote>,
    },
    Place {
        /// The change number. A retry has an equal change number.
        number: u64,
        object: FileId,
        from: Option<Place>,
        to: Option<Place>,
        over: Option<FileId>,
    },
    Move(Move),
    Moving(Move),
    Announce {
        object: FileId,
        version: Stamp,
        places: Vec<Place>,
        left: Option<Place>,
    },
    List {
        directory: FileId,
        behind: u64,
        count: u32,
    },
    Evict(FileId),
    /// A request for a delegable lease: the object, the kind, the purpose, the sequence number of
    /// an earlier delegable lease that the caller returns with the request, and true if the caller
    /// reclaims a lease that it held before a restart.
    Cover(FileId, Kind, Purpose, Option<Serial>, bool),
    Uncover(FileId, Serial),
    Load,
    /// A name in a directory of the callee is about to change. The second field is the metaserver
    /// that requested the change.
    Begin(Begins, Option<Peer>),
    /// The change announced by BEGIN is stored (`true`), or was given up.
    End(Begins, bool),
    /// An object of the callee is about to lose a name to an object of the caller. The second field
    /// is the metaserver that requested the change.
    Yield(Yield, Option<Peer>),
    /// The object of the callee must lose the name now: the other object has the name since this
    /// version. `None` if the change was given up.
    Replaced(Yield, Option<Peer>, Option<Stamp>),
}

/// The identification of a change of a name in a directory of another home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Begins {
    pub(crate) directory: FileId,
    /// The ticket number of the change at the home that makes the change.
    pub(crate) number: u64,
}

/// The state that a peer reports to a restarted metaserver in the reply to HELLO.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) known: Known,
    /// True if the peer is in recovery: its clients may hold leases that they have not reclaimed
    /// yet.
    pub(crate) recovers: bool,
    /// The delegable leases that the peer holds from the restarted metaserver.
    pub(crate) covered: Vec<(FileId, Kind)>,
    /// The objects of the restarted metaserver that objects of the peer replace.
    pub(crate) replaced: Vec<Yield>,
}

/// A name in the reply to LIST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) cookie: u64,
    pub(crate) name: Vec<u8>,
    pub(crate) object: FileId,
}

/// An answer of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The reply to HELLO: the epoch of the peer, and the state that the peer reports.
    Known(u64, Told),
    /// A granted delegable lease: its sequence number, kind and term.
    Covered(Serial, Kind, Duration),
    Metafile(Metafile),
    /// The reply to FETCH if the cached copy of the caller is current.
    Same,
    Nowhere,
    Named(Option<FileId>),
    Is(bool),
    Version(Stamp),
    Listed(Vec<Listed>, bool),
    Load(Load),
    Done,
    Epoch(u64),
    Later,
    Gone,
    Exists,
    Full,
    Loop,
    Mode,
    /// No message contains this answer. It means that no reply arrived in time, and that the
    /// request may have been executed.
    Silence,
}

impl Answer {
    /// Converts the answer to a request that has no results to success or a refusal.
    pub(crate) const fn had(&self) -> Result<(), Refusal> {
        match self {
            Self::Done => Ok(()),
            Self::Gone => Err(Refusal::Gone),
            Self::Exists => Err(Refusal::Exists),
            Self::Full => Err(Refusal::Full),
            Self::Loop => Err(Refusal::Loop),
            Self::Known(..)
            | Self::Covered(..)
            | Self::Metafile(_)
            | Self::Same
            | Self::Nowhere
            | Self::Named(_)
            | Self::Is(_)
            | Self::Version(_)
            | Self::Listed(..)
            | Self::Load(_)
            | Self::Epoch(_)
            | Self::Later
            | Self::Mode
            | Self::Silence => Err(Refusal::Later),
        }
    }

    /// Converts the answer to STANDS: the object has the name or is about to get the name, or not,
    /// or the home did not reply.
    pub(crate) const fn stands(&self) -> Stands {
        if matches!(self, Self::Is(true)) {
            Stands::Yes
        } else if matches!(self, Self::Is(false) | Self::Gone) {
            // `Gone` means that no metaserver has the id in its range, so the object does not
            // exist.
            Stands::No
        } else {
            Stands::Unknown
        }
    }

    /// Encodes the results of a call.
    pub(crate) fn encode(&self, stamp: Stamp, to: &mut Writer) {
        let refused = match self {
            Self::Epoch(now) => {
                to.u32(1);
                return to.u64(*now);
            }
            Self::Later | Self::Silence => 2,
            Self::Gone => 3,
            Self::Exists => 4,
            Self::Full => 5,
            Self::Loop => 6,
            Self::Mode => 7,
            Self::Known(..)
            | Self::Covered(..)
            | Self::Metafile(_)
            | Self::Same
            | Self::Nowhere
            | Self::Named(_)
            | Self::Is(_)
            | Self::Version(_)
            | Self::Listed(..)
            | Self::Load(_)
            | Self::Done => 0,
        };
        to.u32(refused);
        if refused == 0 {
            to.u64(stamp.0);
            self.encode_results(to);
        }
    }

    fn encode_results(&self, to: &mut Writer) {
        match self {
            Self::Known(epoch, told) => {
                let Known { epoch: known_epoch, stamp: Stamp(known_stamp) } = told.known;
                let covered = |&(object, kind): &(FileId, Kind)| replica::hello::Covered {
                    object: object.0,
                    writes: kind == Kind::Write,
                };
                let covered = List(told.covered.iter().map(covered).collect());
                let (epoch, recovers) = (*epoch, told.recovers);
                let replaced = List(told.replaced.iter().map(yielded).collect());
                replica::hello::Known {
                    epoch,
                    known_epoch,
                    known_stamp,
                    recovers,
                    covered,
                    replaced,
                }
                .encode(to);
            }
            Self::Covered(serial, kind, term) => {
                let term_ms = u32::try_from(term.as_millis()).unwrap_or(u32::MAX);
                let writes = *kind == Kind::Write;
                replica::cover::Granted { serial: serial.0, writes, term_ms }.encode(to);
            }
            Self::Metafile(metafile) => {
                true.encode(to);
                metafile.encode(to);
            }
            Self::Same | Self::Nowhere => false.encode(to),
            Self::Named(named) => named.map(|object| object.0).encode(to),
            Self::Is(is) => is.encode(to),
            Self::Version(version) => to.u64(version.0),
            Self::Listed(listed, end) => {
                let entry = |one: &'_ Listed| {
                    let mut entry = Writer::new();
                    let name = nfs3::Name(&one.name);
                    let object = one.object.0;
                    replica::list::Entry { cookie: one.cookie, name, object }.encode(&mut entry);
                    Raw(entry.finish().into_bytes().to_vec())
                };
                ListOf(|| listed.iter().map(entry)).encode(to);
                end.encode(to);
            }
            Self::Load(Load { busy_tenths, connections }) => {
                let (busy_tenths, connections) = (*busy_tenths, *connections);
                replica::load::Load { busy_tenths, connections }.encode(to);
            }
            Self::Done
            | Self::Epoch(_)
            | Self::Later
            | Self::Gone
            | Self::Exists
            | Self::Full
            | Self::Loop
            | Self::Mode
            | Self::Silence => {}
        }
    }
}

/// Bytes that are already in wire format.
struct Raw(Vec<u8>);

impl Encode for Raw {
    fn encode(&self, to: &mut Writer) {
        to.fixed(&self.0);
    }
}

impl Ask {
    /// Returns true if a retransmission of the request must not run the request a second time.
    pub(crate) const fn has_effect(&self) -> bool {
        match self {
            Self::Claim(..)
            | Self::Change { .. }
            | Self::Place { .. }
            | Self::Move(_)
            | Self::Yield(..)
            | Self::Replaced(..) => true,
            Self::Hello(..)
            | Self::Fetch(..)
            | Self::Search(..)
            | Self::Named(_)
            | Self::Stands(..)
            | Self::Moving(_)
            | Self::Announce { .. }
            | Self::List { .. }
            | Self::Evict(_)
            | Self::Cover(..)
            | Self::Uncover(..)
            | Self::Load
            | Self::Begin(..)
            | Self::End(..) => false,
        }
    }

    /// Returns the procedure number of the request.
    pub(crate) const fn procedure(&self) -> u32 {
        match self {
            Self::Hello(..) => replica::hello::NUMBER,
            Self::Fetch(..) => replica::fetch::NUMBER,
            Self::Search(..) => replica::search::NUMBER,
            Self::Named(_) => replica::named::NUMBER,
            Self::Claim(..) => replica::claim::NUMBER,
            Self::Stands(..) => replica::stands::NUMBER,
            Self::Change { .. } => replica::change::NUMBER,
            Self::Place { .. } => replica::place::NUMBER,
            Self::Move(_) => replica::r#move::NUMBER,
            Self::Moving(_) => replica::moving::NUMBER,
            Self::Announce { .. } => replica::announce::NUMBER,
            Self::List { .. } => replica::list::NUMBER,
            Self::Evict(_) => replica::evict::NUMBER,
            Self::Cover(..) => replica::cover::NUMBER,
            Self::Uncover(..) => replica::uncover::NUMBER,
            Self::Load => replica::load::NUMBER,
            Self::Begin(..) => replica::begin::NUMBER,
            Self::End(..) => replica::end::NUMBER,
            Self::Yield(..) => replica::r#yield::NUMBER,
            Self::Replaced(..) => replica::replaced::NUMBER,
        }
    }

    /// Encodes the arguments of the request.
    pub(crate) fn encode(&self, caller: replica::Caller, to: &mut Writer) {
        match self {
            Self::Hello(stored, strict) => replica::hello::Args {
                peer: caller.peer,
                epoch: caller.epoch,
                stored_epoch: stored.epoch,
                stored_stamp: stored.stamp.0,
                strict: *strict,
            }
            .encode(to),
            Self::Fetch(object, known) => {
                let known = known.map(|known| known.0);
                replica::fetch::Args { caller, object: object.0, known }.encode(to);
            }
            Self::Search(place, behind) => {
                let behind = List(behind.iter().map(|peer| peer.0).collect());
                replica::search::Args { caller, place: wire_place(place), behind }.encode(to);
            }
            Self::Change { object, wanted, wrote } => {
                let wrote = wrote.as_ref().map(|wrote| replica::change::Wrote {
                    offset: wrote.offset,
                    data: replica::Content(&wrote.data),
                    modified: wrote.modified.into(),
                });
                let Setting { set: attributes, clear_set_ids } = *wanted;
                let object = object.0;
                replica::change::Args { caller, object, attributes, clear_set_ids, wrote }
                    .encode(to);
            }
            Self::Place { number, object, from, to: new, over } => {
                let (from, new) = (from.as_ref().map(wire_place), new.as_ref().map(wire_place));
                let (number, object, over) = (*number, object.0, over.map(|over| over.0));
                replica::place::Args { caller, number, object, from, to: new, over }.encode(to);
            }
            Self::Move(it) | Self::Moving(it) => {
                let (object, parent) = (it.directory.0, it.parent.0);
                replica::r#move::Args { caller, number: it.number, object, parent }.encode(to);
            }
            Self::Announce { object, version, places, left } => {
                let places = List(places.iter().map(wire_place).collect());
                let left = left.as_ref().map(wire_place);
                let (object, version) = (object.0, version.0);
                replica::announce::Args { caller, object, version, places, left }.encode(to);
            }
            Self::List { directory, behind, count } => {
                let (directory, behind, count) = (directory.0, *behind, *count);
                replica::list::Args { caller, directory, behind, count }.encode(to);
            }
            Self::Evict(_)
            | Self::Cover(..)
            | Self::Uncover(..)
            | Self::Begin(..)
            | Self::End(..) => {
                self.encode_of_leases(caller, to);
            }
            Self::Named(_)
            | Self::Claim(..)
            | Self::Stands(..)
            | Self::Yield(..)
            | Self::Replaced(..) => self.encode_of_names(caller, to),
            Self::Load => replica::load::Args { caller }.encode(to),
        }
    }

    fn encode_of_names(&self, caller: replica::Caller, to: &mut Writer) {
        if let Self::Named(place) = self {
            replica::named::Args { caller, place: wire_place(place) }.encode(to);
        }
        if let Self::Claim(place, FileId(object), over) = self {
            let (place, object) = (wire_place(place), *object);
            let over = over.map(|over| over.0);
            replica::claim::Args { caller, place, object, over }.encode(to);
        }
        if let Self::Stands(place, FileId(object), claimant) = self {
            let (place, object) = (wire_place(place), *object);
            let claimant = claimant.map(|claimant| claimant.0);
            replica::stands::Args { caller, place, object, claimant }.encode(to);
        }
        if let Self::Yield(it, by) = self {
            let (change, yielded, by) = (it.number, yielded(it), by.map(|by| by.0));
            replica::r#yield::Args { caller, change, yielded, by }.encode(to);
        }
        if let Self::Replaced(it, by, version) = self {
            let (change, yielded, by) = (it.number, yielded(it), by.map(|by| by.0));
            let version = version.map(|version| version.0);
            replica::replaced::Args { caller, change, yielded, by, version }.encode(to);
        }
    }

    fn encode_of_leases(&self, caller: replica::Caller, to: &mut Writer) {
        if let Self::Evict(FileId(object)) = *self {
            replica::evict::Args { caller, object }.encode(to);
        }
        if let Self::Cover(FileId(object), kind, purpose, given, reclaims) = *self {
            let (writes, lends) = (kind == Kind::Write, purpose == Purpose::Lend);
            let given = given.map(|given| given.0);
            replica::cover::Args { caller, object, writes, lends, reclaims, given }.encode(to);
        }
        if let Self::Uncover(FileId(object), Serial(serial)) = *self {
            replica::uncover::Args { caller, object, serial }.encode(to);
        }
        if let Self::Begin(Begins { directory: FileId(directory), number: change }, by) = *self {
            let by = by.map(|by| by.0);
            replica::begin::Args { caller, directory, change, by }.encode(to);
        }
        if let Self::End(Begins { directory: FileId(directory), number: change }, done) = *self {
            replica::end::Args { caller, directory, change, done }.encode(to);
        }
    }

    /// Decodes the arguments of a call.
    pub(crate) fn decode(
        procedure: u32,
        from: &mut Reader<'_>,
    ) -> Result<Option<(replica::Caller, Self)>, Error> {
        Ok(Some(match procedure {
            replica::hello::NUMBER => {
                let it: replica::hello::Args = decode_all(from)?;
                let caller = replica::Caller { peer: it.peer, epoch: it.epoch, callee_epoch: 0 };
                let stamp = Stamp(it.stored_stamp);
                (caller, Self::Hello(Known { epoch: it.stored_epoch, stamp }, it.strict))
            }
            replica::fetch::NUMBER => {
                let it: replica::fetch::Args = decode_all(from)?;
                (it.caller, Self::Fetch(FileId(it.object), it.known.map(Stamp)))
            }
            replica::search::NUMBER => {
                let it: replica::search::Args<'_> = decode_all(from)?;
                let behind = it.behind.0.into_iter().map(Peer).collect();
                (it.caller, Self::Search(place(&it.place), behind))
            }
            replica::change::NUMBER => {
                let it: replica::change::Args<'_> = decode_all(from)?;
                (it.caller, Self::change(&it))
            }
            replica::place::NUMBER => {
                let it: replica::place::Args<'_> = decode_all(from)?;
                let (from, to) = (it.from.as_ref().map(place), it.to.as_ref().map(place));
                let (number, object, over) = (it.number, FileId(it.object), it.over.map(FileId));
                (it.caller, Self::Place { number, object, from, to, over })
            }
            replica::r#move::NUMBER | replica::moving::NUMBER => {
                let it: replica::r#move::Args = decode_all(from)?;
                let (home, number) = (Peer(it.caller.peer), it.number);
                let (directory, parent) = (FileId(it.object), FileId(it.parent));
                let asked = Move { home, number, directory, parent };
                let asks = procedure == replica::r#move::NUMBER;
                (it.caller, if asks { Self::Move(asked) } else { Self::Moving(asked) })
            }
            replica::announce::NUMBER => {
                let it: replica::announce::Args<'_> = decode_all(from)?;
                let places = it.places.0.iter().map(place).collect();
                let (object, version) = (FileId(it.object), Stamp(it.version));
                let left = it.left.as_ref().map(place);
                (it.caller, Self::Announce { object, version, places, left })
            }
            replica::list::NUMBER => {
                let it: replica::list::Args = decode_all(from)?;
                let (directory, behind) = (FileId(it.directory), it.behind);
                (it.caller, Self::List { directory, behind, count: it.count })
            }
            replica::evict::NUMBER
            | replica::cover::NUMBER
            | replica::uncover::NUMBER
            | replica::begin::NUMBER
            | replica::end::NUMBER => Self::decode_of_leases(procedure, from)?,
            replica::named::NUMBER
            | replica::claim::NUMBER
            | replica::stands::NUMBER
            | replica::r#yield::NUMBER
            | replica::replaced::NUMBER => Self::decode_of_names(procedure, from)?,
            replica::load::NUMBER => (decode_all::<replica::load::Args>(from)?.caller, Self::Load),
            _ => return Ok(None),
        }))
    }

    fn decode_of_names(
        procedure: u32,
        from: &mut Reader<'_>,
    ) -> Result<(replica::Caller, Self), Error> {
        Ok(match procedure {
            replica::named::NUMBER => {
                let it: replica::named::Args<'_> = decode_all(from)?;
                (it.caller, Self::Named(place(&it.place)))
            }
            replica::claim::NUMBER => {
                let it: replica::claim::Args<'_> = decode_all(from)?;
                let at = place(&it.place);
                (it.caller, Self::Claim(at, FileId(it.object), it.over.map(FileId)))
            }
            replica::stands::NUMBER => {
                let it: replica::stands::Args<'_> = decode_all(from)?;
                let (at, object) = (place(&it.place), FileId(it.object));
                (it.caller, Self::Stands(at, object, it.claimant.map(FileId)))
            }
            replica::r#yield::NUMBER => {
                let it: replica::r#yield::Args<'_> = decode_all(from)?;
                (it.caller, Self::Yield(yielding(&it.yielded, it.change), it.by.map(Peer)))
            }
            _ => {
                let it: replica::replaced::Args<'_> = decode_all(from)?;
                let (yielded, by) = (yielding(&it.yielded, it.change), it.by.map(Peer));
                (it.caller, Self::Replaced(yielded, by, it.version.map(Stamp)))
            }
        })
    }

    fn decode_of_leases(
        procedure: u32,
        from: &mut Reader<'_>,
    ) -> Result<(replica::Caller, Self), Error> {
        Ok(match procedure {
            replica::cover::NUMBER => {
                let it: replica::cover::Args = decode_all(from)?;
                let purpose = if it.lends { Purpose::Lend } else { Purpose::Use };
                let (object, given) = (FileId(it.object), it.given.map(Serial));
                (it.caller, Self::Cover(object, kind(it.writes), purpose, given, it.reclaims))
            }
            replica::uncover::NUMBER => {
                let it: replica::uncover::Args = decode_all(from)?;
                (it.caller, Self::Uncover(FileId(it.object), Serial(it.serial)))
            }
            replica::begin::NUMBER => {
                let it: replica::begin::Args = decode_all(from)?;
                let naming = Begins { directory: FileId(it.directory), number: it.change };
                (it.caller, Self::Begin(naming, it.by.map(Peer)))
            }
            replica::end::NUMBER => {
                let it: replica::end::Args = decode_all(from)?;
                let naming = Begins { directory: FileId(it.directory), number: it.change };
                (it.caller, Self::End(naming, it.done))
            }
            _ => {
                let it: replica::evict::Args = decode_all(from)?;
                (it.caller, Self::Evict(FileId(it.object)))
            }
        })
    }

    fn change(it: &replica::change::Args<'_>) -> Self {
        let wrote = it.wrote.map(|wrote| Wrote {
            offset: wrote.offset,
            data: wrote.data.0.to_vec(),
            modified: wrote.modified.into(),
        });
        let wanted = Setting { set: it.attributes, clear_set_ids: it.clear_set_ids };
        Self::Change { object: FileId(it.object), wanted, wrote }
    }

    /// Decodes the reply to this request. Returns the last version number of the peer, and the
    /// answer.
    pub(crate) fn answer(&self, results: &[u8]) -> Result<(Stamp, Answer), Error> {
        let from = &mut Reader::of_part(results);
        let nothing = |it: Option<Metafile>, otherwise| it.map_or(otherwise, Answer::Metafile);
        match self {
            Self::Hello(..) => read(from, |it: replica::hello::Known<'_>| {
                let (epoch, stamp) = (it.known_epoch, Stamp(it.known_stamp));
                let covered = it.covered.0.iter();
                let covered = covered.map(|one| (FileId(one.object), kind(one.writes))).collect();
                let (known, recovers) = (Known { epoch, stamp }, it.recovers);
                let replaced = it.replaced.0.iter().map(|it| yielding(it, 0)).collect();
                Answer::Known(it.epoch, Told { known, recovers, covered, replaced })
            }),
            Self::Fetch(..) => read(from, |it: Option<replica::Metafile<'_>>| {
                nothing(it.as_ref().map(Metafile::of), Answer::Same)
            }),
            Self::Search(..) => read(from, |it: Option<replica::Metafile<'_>>| {
                nothing(it.as_ref().map(Metafile::of), Answer::Nowhere)
            }),
            Self::Named(_) => read(from, |it: Option<u64>| Answer::Named(it.map(FileId))),
            Self::Stands(..) | Self::Moving(_) => read(from, Answer::Is),
            Self::Change { .. } | Self::Place { .. } => {
                read(from, |it: u64| Answer::Version(Stamp(it)))
            }
            Self::Claim(..)
            | Self::Move(_)
            | Self::Announce { .. }
            | Self::Evict(_)
            | Self::Uncover(..)
            | Self::Begin(..)
            | Self::End(..)
            | Self::Yield(..)
            | Self::Replaced(..) => read(from, |(): ()| Answer::Done),
            Self::Cover(..) => read(from, |it: replica::cover::Granted| {
                let term = Duration::from_millis(it.term_ms.into());
                Answer::Covered(Serial(it.serial), kind(it.writes), term)
            }),
            Self::Load => read(from, |it: replica::load::Load| {
                let replica::load::Load { busy_tenths, connections } = it;
                Answer::Load(Load { busy_tenths, connections })
            }),
            Self::List { .. } => read(from, |it: replica::list::Names<'_>| {
                let entry = |one: replica::list::Entry<'_>| Listed {
                    cookie: one.cookie,
                    name: one.name.0.to_vec(),
                    object: FileId(one.object),
                };
                Answer::Listed(it.entries.0.into_iter().map(entry).collect(), it.end)
            }),
        }
    }
}

fn yielded(it: &Yield) -> replica::Yielded<'_> {
    replica::Yielded { place: wire_place(&it.place), object: it.to.0, over: it.over.0 }
}

fn yielding(it: &replica::Yielded<'_>, number: u64) -> Yield {
    Yield { over: FileId(it.over), place: place(&it.place), to: FileId(it.object), number }
}

const fn kind(writes: bool) -> Kind {
    if writes { Kind::Write } else { Kind::Read }
}

fn read<'a, Results: Decode<'a>>(
    from: &mut Reader<'a>,
    done: impl FnOnce(Results) -> Answer,
) -> Result<(Stamp, Answer), Error> {
    let none = Stamp::default();
    Ok(match replica::Answer::<Results>::decode(from)? {
        replica::Answer::Done { stamp, results } => (Stamp(stamp), done(results)),
        replica::Answer::Epoch(now) => (none, Answer::Epoch(now)),
        replica::Answer::Later => (none, Answer::Later),
        replica::Answer::Gone => (none, Answer::Gone),
        replica::Answer::Exists => (none, Answer::Exists),
        replica::Answer::Full => (none, Answer::Full),
        replica::Answer::Loop => (none, Answer::Loop),
        replica::Answer::Mode => (none, Answer::Mode),
    })
}
