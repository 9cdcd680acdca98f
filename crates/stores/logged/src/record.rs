//! The records of the log. Each record contains the outcome of one change.
//!
//! A record contains the outcome of a call and not its arguments: the object of a name, the
//! attributes of an object, or the bytes of a range. So the last record about a name, an attribute
//! or a byte gives its final state, independent of the earlier changes that the disk has stored.
//! Records contain the object ids that clients have in their handles.

use leasehold_base::units::{FileId, FileTime};
use leasehold_fs::{Attributes, Device, FileType, Mode, ObjectId};

/// The record of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// An object was created with a name.
    Made(Made),
    /// A name was added to an existing object.
    Linked { place: Change, object: ObjectId },
    /// A name was removed.
    Removed { place: Change, object: ObjectId },
    /// An object was renamed. The new name belonged to `over` before, if present.
    Renamed { from: Change, to: Change, object: ObjectId, over: Option<ObjectId> },
    /// Attributes were set, and the file was truncated or extended to `size`.
    Set { object: ObjectId, size: Option<u64>, state: State },
    /// Bytes were written. The bytes follow the record in the log.
    Written { object: ObjectId, offset: u64, length: u32, state: Option<State> },
    /// A COMMIT has put the data and attributes of the object on stable storage, including all
    /// records about them with numbers below `upto`. The stored state may also include later
    /// changes that have no record.
    Synced { object: ObjectId, upto: u64 },
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    pub(crate) directory: ObjectId,
    pub(crate) name: Vec<u8>,
}

/// A name that was added or removed, and the attributes of the directory after the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) spot: Spot,
    pub(crate) state: Option<State>,
}

/// A new object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) place: Change,
    pub(crate) object: ObjectId,
    pub(crate) file_id: FileId,
    pub(crate) kind: FileType,
    /// The initial size of a file. The initial bytes are zeros.
    pub(crate) size: u64,
    /// The target of a symbolic link.
    pub(crate) target: Vec<u8>,
    /// The device number of a device node.
    pub(crate) device: Device,
    /// The create verifier of an EXCLUSIVE create.
    pub(crate) exclusive: Option<[u8; 8]>,
    pub(crate) state: State,
}

/// The attributes that can be set, except the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) mode: Mode,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) accessed: FileTime,
    pub(crate) modified: FileTime,
}

impl From<&Attributes> for State {
    fn from(attributes: &Attributes) -> Self {
        let Attributes { mode, uid, gid, accessed, modified, .. } = *attributes;
        Self { mode, uid, gid, accessed, modified }
    }
}

const MADE: u8 = 1;
const LINKED: u8 = 2;
const REMOVED: u8 = 3;
const RENAMED: u8 = 4;
const SET: u8 = 5;
const WRITTEN: u8 = 6;
const SYNCED: u8 = 7;

impl Record {
    /// Encodes the record, without the data that follows a [`Record::Written`] in the log.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(128));
        match self {
            Self::Made(made) => {
                out.byte(MADE);
                made.encode(&mut out);
            }
            Self::Linked { place, object } => {
                out.byte(LINKED);
                out.change(place);
                out.object(object);
            }
            Self::Removed { place, object } => {
                out.byte(REMOVED);
                out.change(place);
                out.object(object);
            }
            Self::Renamed { from, to, object, over } => {
                out.byte(RENAMED);
                out.change(from);
                out.change(to);
                out.object(object);
                out.option(over.as_ref(), Writer::object);
            }
            Self::Set { object, size, state } => {
                out.byte(SET);
                out.object(object);
                out.option(size.as_ref(), |out, size| out.long(*size));
                out.state(state);
            }
            Self::Written { object, offset, length, state } => {
                out.byte(WRITTEN);
                out.object(object);
                out.long(*offset);
                out.option(state.as_ref(), Writer::state);
                out.word(*length);
            }
            Self::Synced { object, upto } => {
                out.byte(SYNCED);
                out.object(object);
                out.long(*upto);
            }
        }
        out.0
    }

    /// Decodes the first record of `bytes`, and returns the remaining bytes, which begin with the
    /// data of a [`Record::Written`].
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let mut from = Reader(bytes);
        let record = match from.byte()? {
            MADE => Self::Made(Made::decode(&mut from)?),
            LINKED => Self::Linked { place: from.change()?, object: from.object()? },
            REMOVED => Self::Removed { place: from.change()?, object: from.object()? },
            RENAMED => Self::Renamed {
                from: from.change()?,
                to: from.change()?,
                object: from.object()?,
                over: from.option(Reader::object)?,
            },
            SET => Self::Set {
                object: from.object()?,
                size: from.option(Reader::long)?,
                state: from.state()?,
            },
            WRITTEN => Self::Written {
                object: from.object()?,
                offset: from.long()?,
                state: from.option(Reader::state)?,
                length: from.word()?,
            },
            SYNCED => Self::Synced { object: from.object()?, upto: from.long()? },
            _ => return None,
        };
        Some((record, from.0))
    }
}

impl Made {
    fn encode(&self, out: &mut Writer) {
        out.change(&self.place);
        out.object(&self.object);
        out.long(self.file_id.0);
        out.byte(kind_number(self.kind));
        out.long(self.size);
        out.bytes(&self.target);
        out.word(self.device.major);
        out.word(self.device.minor);
        out.option(self.exclusive.as_ref(), |out, verifier| out.0.extend_from_slice(verifier));
        out.state(&self.state);
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            place: from.change()?,
            object: from.object()?,
            file_id: FileId(from.long()?),
            kind: kind_of(from.byte()?)?,
            size: from.long()?,
            target: from.bytes()?.to_vec(),
            device: Device { major: from.word()?, minor: from.word()? },
            exclusive: from.option(Reader::array)?,
            state: from.state()?,
        })
    }
}

/// The file types in the order of their numbers in records.
const KINDS: [FileType; 7] = [
    FileType::Regular,
    FileType::Directory,
    FileType::BlockDevice,
    FileType::CharacterDevice,
    FileType::Symlink,
    FileType::Socket,
    FileType::Fifo,
];

fn kind_number(kind: FileType) -> u8 {
    let number = KINDS.iter().position(|one| *one == kind).expect("all kinds are listed");
    u8::try_from(number).expect("there are few")
}

fn kind_of(number: u8) -> Option<FileType> {
    KINDS.get(usize::from(number)).copied()
}

/// An encoder of numbers and byte strings.
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(crate) fn word(&mut self, word: u32) {
        self.0.extend_from_slice(&word.to_be_bytes());
    }

    pub(crate) fn long(&mut self, long: u64) {
        self.0.extend_from_slice(&long.to_be_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.word(u32::try_from(bytes.len()).expect("names and targets are short"));
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn object(&mut self, object: &ObjectId) {
        let bytes = object.as_bytes();
        self.byte(u8::try_from(bytes.len()).expect("an id is short"));
        self.0.extend_from_slice(bytes);
    }

    fn change(&mut self, change: &Change) {
        self.object(&change.spot.directory);
        self.bytes(&change.spot.name);
        self.option(change.state.as_ref(), Self::state);
    }

    fn time(&mut self, time: FileTime) {
        self.long(time.seconds.cast_unsigned());
        self.word(time.nanoseconds);
    }

    fn state(&mut self, state: &State) {
        self.word(state.mode.bits());
        self.word(state.uid);
        self.word(state.gid);
        self.time(state.accessed);
        self.time(state.modified);
    }

    fn option<T>(&mut self, value: Option<&T>, put: impl FnOnce(&mut Self, &T)) {
        self.byte(u8::from(value.is_some()));
        if let Some(value) = value {
            put(self, value);
        }
    }
}

/// A decoder of numbers and byte strings.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn word(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn long(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.word()?;
        self.take(usize::try_from(length).ok()?)
    }

    pub(crate) fn object(&mut self) -> Option<ObjectId> {
        let length = self.byte()?;
        ObjectId::new(self.take(usize::from(length))?)
    }

    fn change(&mut self) -> Option<Change> {
        let spot = Spot { directory: self.object()?, name: self.bytes()?.to_vec() };
        Some(Change { spot, state: self.option(Self::state)? })
    }

    fn time(&mut self) -> Option<FileTime> {
        Some(FileTime { seconds: self.long()?.cast_signed(), nanoseconds: self.word()? })
    }

    fn state(&mut self) -> Option<State> {
        Some(State {
            mode: Mode::from_bits(self.word()?),
            uid: self.word()?,
            gid: self.word()?,
            accessed: self.time()?,
            modified: self.time()?,
        })
    }

    fn option<T>(&mut self, take: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.byte()? {
            0 => Some(None),
            1 => take(self).map(Some),
            _ => None,
        }
    }
}
