//! The records on stable storage. A later record supersedes an earlier record of the same kind
//! about the same subject.

use leasehold_base::units::FileId;
use leasehold_base::xdr::{Decode, Encode as _, Error, Reader, Writer};
use leasehold_core::replica::moves::Move;
use leasehold_core::replica::peers::Noted;
use leasehold_core::replica::{Peer, Place, Stamp};
use leasehold_wire::replica;

use crate::metafile::{self, Metafile, wire_place};

/// One change of the stored state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// The object has this metafile.
    Put(Metafile),
    /// The object is removed. The second field is the version number of the removal.
    Gone(FileId, Stamp),
    /// The object has reserved a name. The last field is the cookie of the name in listings.
    Note(Place, FileId, u64),
    /// The reservation of the name is removed.
    NoNote(Place),
    /// An epoch has started.
    Epoch(u64),
    /// All ids below this number may be in use.
    Ids(u64),
    /// The last known epoch and version number of a peer.
    Heard(Peer, Noted),
    /// The directory rename that has the permission of the root's home; `None` if it has ended.
    Leave(Option<Move>),
    /// The object has taken this name from this object of another home; `None` when that object has
    /// lost the name.
    Replaces(FileId, Option<(Place, FileId)>),
    /// Two records that are both present or both absent after a crash.
    Both(Box<[Self; 2]>),
}

/// The type number of [`Record::Both`].
const BOTH: u32 = 9;

impl Record {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Writer::new();
        match self {
            Self::Put(metafile) => {
                to.u32(1);
                metafile.encode(&mut to);
            }
            Self::Gone(object, version) => {
                to.u32(2);
                [object.0, version.0].into_iter().for_each(|word| to.u64(word));
            }
            Self::Note(place, object, cookie) => {
                to.u32(3);
                wire_place(place).encode(&mut to);
                [object.0, *cookie].into_iter().for_each(|word| to.u64(word));
            }
            Self::NoNote(place) => {
                to.u32(4);
                wire_place(place).encode(&mut to);
            }
            Self::Epoch(epoch) => {
                to.u32(5);
                to.u64(*epoch);
            }
            Self::Ids(ids) => {
                to.u32(6);
                to.u64(*ids);
            }
            Self::Heard(peer, noted) => {
                to.u32(7);
                to.u32(peer.0);
                [noted.epoch, noted.before, noted.stamp.0]
                    .into_iter()
                    .for_each(|word| to.u64(word));
            }
            Self::Leave(given) => {
                to.u32(8);
                given.is_some().encode(&mut to);
                for it in given.iter() {
                    to.u32(it.home.0);
                    [it.number, it.directory.0, it.parent.0]
                        .into_iter()
                        .for_each(|word| to.u64(word));
                }
            }
            Self::Replaces(object, replaced) => {
                to.u32(10);
                to.u64(object.0);
                replaced.is_some().encode(&mut to);
                if let Some((place, over)) = replaced {
                    wire_place(place).encode(&mut to);
                    to.u64(over.0);
                }
            }
            Self::Both(both) => {
                to.u32(BOTH);
                both.iter().for_each(|record| to.opaque(&record.encode()));
            }
        }
        to.finish().into_bytes().to_vec()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let from = &mut Reader::of_part(bytes);
        if from.u32()? != BOTH {
            return Self::decode_one(bytes);
        }
        let mut part = || Self::decode_one(from.opaque(u32::MAX)?);
        let both = Self::Both(Box::new([part()?, part()?]));
        from.finish().map(|()| both)
    }

    fn decode_one(bytes: &[u8]) -> Result<Self, Error> {
        let from = &mut Reader::of_part(bytes);
        let record = match from.u32()? {
            1 => Self::Put(Metafile::of(&replica::Metafile::decode(from)?)),
            2 => Self::Gone(FileId(from.u64()?), Stamp(from.u64()?)),
            3 => Self::Note(place(from)?, FileId(from.u64()?), from.u64()?),
            4 => Self::NoNote(place(from)?),
            5 => Self::Epoch(from.u64()?),
            6 => Self::Ids(from.u64()?),
            7 => {
                let peer = Peer(from.u32()?);
                let (epoch, before) = (from.u64()?, from.u64()?);
                Self::Heard(peer, Noted { epoch, before, stamp: Stamp(from.u64()?) })
            }
            8 if bool::decode(from)? => {
                let (home, number) = (Peer(from.u32()?), from.u64()?);
                let (directory, parent) = (FileId(from.u64()?), FileId(from.u64()?));
                Self::Leave(Some(Move { home, number, directory, parent }))
            }
            8 => Self::Leave(None),
            10 => {
                let object = FileId(from.u64()?);
                let is_there = bool::decode(from)?;
                let mut replaced = || Ok((place(from)?, FileId(from.u64()?)));
                Self::Replaces(object, is_there.then(&mut replaced).transpose()?)
            }
            _ => return Err(Error::BadValue),
        };
        from.finish().map(|()| record)
    }
}

fn place(from: &mut Reader<'_>) -> Result<Place, Error> {
    replica::Place::decode(from).map(|place| metafile::place(&place))
}

#[cfg(test)]
mod tests {
    use leasehold_wire::nfs3;

    use super::*;

    #[test]
    fn records_decode_as_they_were_encoded() {
        let place = Place { directory: FileId(7), name: b"name".to_vec() };
        let elsewhere = place.clone();
        let given = Move { home: Peer(2), number: 3, directory: FileId(4), parent: FileId(5) };
        let noted = Noted { epoch: 9, before: 8, stamp: Stamp(7) };
        let metafile = crate::disk::root(nfs3::Time::default(), &crate::Owner::default());
        let metafile = Metafile { places: vec![place.clone()], content: vec![1; 5], ..metafile };
        let both = [Record::Put(metafile.clone()), Record::Gone(FileId(3), Stamp(4))];
        for record in [
            Record::Both(Box::new(both)),
            Record::Put(metafile),
            Record::Gone(FileId(1), Stamp(2)),
            Record::Note(place.clone(), FileId(6), 5),
            Record::NoNote(place),
            Record::Epoch(4),
            Record::Ids(4096),
            Record::Heard(Peer(1), noted),
            Record::Leave(Some(given)),
            Record::Leave(None),
            Record::Replaces(FileId(8), Some((elsewhere, FileId(9)))),
            Record::Replaces(FileId(8), None),
        ] {
            assert_eq!(Record::decode(&record.encode()), Ok(record));
        }
        assert!(Record::decode(&[0, 0, 0, 99]).is_err());
        assert!(Record::decode(&[0, 0, 0, 5, 1]).is_err());
        let both = Record::Both(Box::new([Record::Epoch(1), Record::Epoch(2)]));
        let nested = Record::Both(Box::new([both.clone(), both]));
        assert!(Record::decode(&nested.encode()).is_err(), "two are not nested");
    }
}
