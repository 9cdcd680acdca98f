//! The state that the records on stable storage describe, as a structure in memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use leasehold_base::units::{FileId, FileSystemId};
use leasehold_base::xdr::Error;
use leasehold_core::replica::moves::Move;
use leasehold_core::replica::peers::{Known, Noted};
use leasehold_core::replica::{Peer, Place};
use leasehold_wire::nfs3;

use crate::Owner;
use crate::metafile::Metafile;
use crate::record::Record;

/// The id of the root directory: the first id in the range of the first metaserver.
pub(crate) const ROOT: FileId = FileId(1 << 48 | 1);

/// The READDIR cookies of `.` and `..`. The cookies of other names are larger.
pub(crate) const THIS: u64 = 1;
pub(crate) const PARENT: u64 = 2;

/// The content of stable storage.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    /// The last epoch on stable storage, and the last version number.
    pub(crate) known: Known,
    pub(crate) ids: u64,
    pub(crate) heard: BTreeMap<Peer, Noted>,
    pub(crate) leave: Option<Move>,
    /// The two-phase renames in progress: objects that have taken a name from an object of another
    /// home, which may still have the name.
    pub(crate) replacing: BTreeMap<FileId, (Place, FileId)>,
    pub(crate) metafiles: BTreeMap<FileId, Metafile>,
    /// An index of the objects by directory and name.
    at: BTreeSet<(Place, FileId)>,
    pub(crate) notes: BTreeMap<Place, Note>,
    /// The reserved names, by directory and cookie.
    pub(crate) order: BTreeMap<(FileId, u64), Vec<u8>>,
    last_cookie: u64,
    /// The last names whose reservations were removed, with their cookies. If such a name is
    /// reserved again, as when a file is replaced, it gets its old cookie, so that its position in
    /// a listing stays.
    dropped: VecDeque<(Place, u64)>,
}

/// The maximum number of removed reservations whose cookies are remembered.
const DROPPED_MAX: usize = 256;

/// A reservation of a name: the object, and the cookie of the name in listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) object: FileId,
    pub(crate) cookie: u64,
}

/// Returns the metafile of a new root directory.
pub(crate) fn root(now: nfs3::Time, owner: &Owner) -> Metafile {
    let attributes = nfs3::Attributes {
        file_type: nfs3::FileType::Directory,
        mode: owner.mode,
        link_count: 1,
        uid: owner.uid,
        gid: owner.gid,
        size: 0,
        used: 0,
        device: nfs3::Device::default(),
        file_system: FileSystemId(owner.file_system),
        file_id: ROOT,
        accessed: now,
        modified: now,
        changed: now,
    };
    let (places, content) = (Vec::new(), Vec::new());
    Metafile { object: ROOT, version: <_>::default(), places, attributes, content }
}

impl Disk {
    /// Replays records from stable storage.
    pub(crate) fn of(records: &[impl AsRef<[u8]>]) -> Result<Self, Error> {
        let mut disk = Self {
            known: Known::default(),
            ids: 2,
            heard: BTreeMap::new(),
            leave: None,
            replacing: BTreeMap::new(),
            metafiles: BTreeMap::new(),
            at: BTreeSet::new(),
            notes: BTreeMap::new(),
            order: BTreeMap::new(),
            last_cookie: PARENT,
            dropped: VecDeque::new(),
        };
        for record in records {
            disk.take(Record::decode(record.as_ref())?);
        }
        Ok(disk)
    }

    /// Applies a record.
    pub(crate) fn take(&mut self, record: Record) {
        match record {
            Record::Put(metafile) => self.put(metafile),
            Record::Gone(object, stamp) => {
                self.known.stamp = self.known.stamp.max(stamp);
                self.remove(object);
            }
            Record::Note(place, object, cookie) => {
                self.last_cookie = self.last_cookie.max(cookie);
                self.order.insert((place.directory, cookie), place.name.clone());
                self.notes.insert(place, Note { object, cookie });
            }
            Record::NoNote(place) => {
                if let Some(note) = self.notes.remove(&place) {
                    self.order.remove(&(place.directory, note.cookie));
                    self.dropped.push_back((place, note.cookie));
                    let too_many = self.dropped.len().saturating_sub(DROPPED_MAX);
                    self.dropped.drain(..too_many);
                }
            }
            Record::Epoch(epoch) => self.known.epoch = epoch,
            Record::Ids(ids) => self.ids = ids,
            Record::Heard(peer, noted) => {
                self.heard.insert(peer, noted);
            }
            Record::Leave(leave) => self.leave = leave,
            Record::Replaces(object, Some(replaced)) => {
                self.replacing.insert(object, replaced);
            }
            Record::Replaces(object, None) => {
                self.replacing.remove(&object);
            }
            Record::Both(both) => both.into_iter().for_each(|record| self.take(record)),
        }
    }

    /// Returns the shortest sequence of records that describes this state.
    pub(crate) fn records(self) -> impl Iterator<Item = Record> {
        let known = [Record::Epoch(self.known.epoch), Record::Ids(self.ids)];
        let last = Record::Gone(FileId(0), self.known.stamp);
        let heard = self.heard.into_iter().map(|(peer, noted)| Record::Heard(peer, noted));
        let notes = self.notes.into_iter();
        let notes = notes.map(|(place, note)| Record::Note(place, note.object, note.cookie));
        let leave = self.leave.map(|given| Record::Leave(Some(given)));
        let metafiles = self.metafiles.into_values().map(Record::Put);
        let replacing = self.replacing.into_iter();
        let replacing = replacing.map(|(object, it)| Record::Replaces(object, Some(it)));
        let all = known.into_iter().chain([last]).chain(heard).chain(leave).chain(notes);
        all.chain(metafiles).chain(replacing)
    }

    fn put(&mut self, metafile: Metafile) {
        self.known.stamp = self.known.stamp.max(metafile.version);
        let object = metafile.object;
        self.remove(object);
        self.at.extend(metafile.places.iter().map(|place| (place.clone(), object)));
        self.metafiles.insert(object, metafile);
    }

    fn remove(&mut self, object: FileId) {
        if let Some(was) = self.metafiles.remove(&object) {
            for place in was.places {
                self.at.remove(&(place, object));
            }
        }
    }

    /// Returns the object of this home that has a name.
    pub(crate) fn standing_at(&self, place: &Place) -> Option<FileId> {
        first_at(&self.at, place)
    }

    /// Returns the cookie for a name: the old cookie if the name is reserved or its reservation was
    /// removed recently, otherwise a new cookie.
    pub(crate) fn cookie(&mut self, place: &Place) -> u64 {
        if let Some(note) = self.notes.get(place) {
            return note.cookie;
        }
        let dropped = self.dropped.iter().rev().find(|(was, _)| was == place);
        if let Some((_, cookie)) = dropped {
            return *cookie;
        }
        self.last_cookie += 1;
        self.last_cookie
    }

    /// Returns the name reservations in a directory.
    pub(crate) fn inside(&self, directory: FileId) -> impl Iterator<Item = (&Place, &Note)> {
        let first = Place { directory, name: Vec::new() };
        let inside = self.notes.range(first..);
        inside.take_while(move |(place, _)| place.directory == directory)
    }
}

/// Returns the first object with a name in an index.
pub(crate) fn first_at(index: &BTreeSet<(Place, FileId)>, place: &Place) -> Option<FileId> {
    let found = index.range((place.clone(), FileId(0))..).next();
    found.filter(|(there, _)| there == place).map(|(_, object)| *object)
}
