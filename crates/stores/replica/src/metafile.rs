//! The metafile of an object: its names, attributes and content. The content states the location of
//! the file data.

use leasehold_base::units::{FileId, FileTime};
use leasehold_base::xdr::{Encode as _, Writer};
use leasehold_core::replica::{Place, Stamp};
use leasehold_fs::{Attributes, Device, FileType, Mode};
use leasehold_wire::list::{List, ListOf};
use leasehold_wire::{nfs3, replica};

/// The metafile of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Metafile {
    pub(crate) object: FileId,
    pub(crate) version: Stamp,
    /// The names of the object.
    pub(crate) places: Vec<Place>,
    /// The attributes. `size` is not the size of the file, which is the length of the content. From
    /// an EXCLUSIVE create until the first change, `used` is 1 and `size` contains the create
    /// verifier.
    pub(crate) attributes: nfs3::Attributes,
    /// The location of the data, or the target of a symbolic link.
    pub(crate) content: Vec<u8>,
}

/// A part of a content that WRITEs have changed and that the object's home does not have yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrote {
    pub(crate) offset: u64,
    pub(crate) data: Vec<u8>,
    pub(crate) modified: FileTime,
}

impl Metafile {
    /// Returns true if the object is a directory.
    pub(crate) fn is_directory(&self) -> bool {
        self.attributes.file_type == nfs3::FileType::Directory
    }

    /// Returns true if the object has the name.
    pub(crate) fn stands_at(&self, place: &Place) -> bool {
        self.places.contains(place)
    }

    /// Updates the link count, and returns true if the object has a name.
    pub(crate) fn has_names(&mut self) -> bool {
        if !self.is_directory() {
            let names = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
            self.attributes.link_count = names;
        }
        !self.places.is_empty()
    }

    /// Returns the directory of the first name. The parent of the root is the root.
    pub(crate) fn parent(&self) -> FileId {
        self.places.first().map_or(self.object, |place| place.directory)
    }

    /// Applies the effect of WRITEs.
    pub(crate) fn write(&mut self, wrote: &Wrote) {
        let start = usize::try_from(wrote.offset).expect("it was checked to fit");
        let end = start + wrote.data.len();
        if self.content.len() < end {
            self.content.resize(end, 0);
        }
        self.content[start..end].copy_from_slice(&wrote.data);
        self.forget_verifier();
        self.change_at(wrote.modified);
        self.attributes.modified = self.attributes.changed;
    }

    /// Stores the create verifier of an EXCLUSIVE create.
    pub(crate) const fn keep_verifier(&mut self, verifier: [u8; 8]) {
        self.attributes.used = 1;
        self.attributes.size = u64::from_be_bytes(verifier);
    }

    /// Removes the create verifier, because the object has changed since its creation.
    pub(crate) const fn forget_verifier(&mut self) {
        self.attributes.used = 0;
        self.attributes.size = 0;
    }

    /// Returns true if the object was created with this create verifier and has not changed since.
    pub(crate) const fn has_verifier(&self, verifier: [u8; 8]) -> bool {
        self.attributes.used == 1 && self.attributes.size == u64::from_be_bytes(verifier)
    }

    /// Sets the change time to `now`, or to a later time if necessary, so that it increases with
    /// each change.
    pub(crate) fn change_at(&mut self, now: FileTime) {
        let last = FileTime::from(self.attributes.changed);
        let next = if now > last { now } else { just_behind(last) };
        self.attributes.changed = next.into();
    }

    /// Sets the times of a directory in which a name changes. Always returns true, which means that
    /// the directory is not removed.
    pub(crate) fn touch_at(&mut self, now: FileTime) -> bool {
        self.change_at(now);
        self.attributes.modified = self.attributes.changed;
        true
    }

    /// Returns the attributes as clients see them.
    pub(crate) fn seen(&self) -> Attributes {
        let of = &self.attributes;
        let size = if self.is_directory() { 4096 } else { self.content.len() as u64 };
        Attributes {
            file_type: file_type(of.file_type),
            mode: Mode::from_bits(of.mode),
            link_count: of.link_count,
            uid: of.uid,
            gid: of.gid,
            size,
            // A metafile is stored in the records and uses no disk blocks of its own.
            used: if of.file_type == nfs3::FileType::Regular { 0 } else { 4096 },
            device: Device { major: of.device.major, minor: of.device.minor },
            file_system: of.file_system,
            file_id: self.object,
            accessed: of.accessed.into(),
            modified: of.modified.into(),
            changed: of.changed.into(),
        }
    }

    /// Encodes the metafile as a part of a message.
    pub(crate) fn encode(&self, writer: &mut Writer) {
        self.object.0.encode(writer);
        self.version.0.encode(writer);
        ListOf(|| self.places.iter().map(wire_place)).encode(writer);
        self.attributes.encode(writer);
        replica::Content(&self.content).encode(writer);
    }

    /// Converts a metafile from a message.
    pub(crate) fn of(from: &replica::Metafile<'_>) -> Self {
        let List(places) = &from.places;
        Self {
            object: FileId(from.object),
            version: Stamp(from.version),
            places: places.iter().map(place).collect(),
            attributes: from.attributes,
            content: from.content.0.to_vec(),
        }
    }
}

/// Converts a directory and name for a message.
pub(crate) fn wire_place(place: &Place) -> replica::Place<'_> {
    replica::Place { directory: place.directory.0, name: nfs3::Name(&place.name) }
}

/// Converts a directory and name from a message.
pub(crate) fn place(from: &replica::Place<'_>) -> Place {
    Place { directory: FileId(from.directory), name: from.name.0.to_vec() }
}

/// Returns the time one nanosecond later.
fn just_behind(time: FileTime) -> FileTime {
    match time.nanoseconds {
        999_999_999 => FileTime { seconds: time.seconds + 1, nanoseconds: 0 },
        nanoseconds => FileTime { nanoseconds: nanoseconds + 1, ..time },
    }
}

/// Converts a file type for a message.
pub(crate) const fn wire_type(file_type: FileType) -> nfs3::FileType {
    match file_type {
        FileType::Regular => nfs3::FileType::Regular,
        FileType::Directory => nfs3::FileType::Directory,
        FileType::BlockDevice => nfs3::FileType::BlockDevice,
        FileType::CharacterDevice => nfs3::FileType::CharacterDevice,
        FileType::Symlink => nfs3::FileType::Symlink,
        FileType::Socket => nfs3::FileType::Socket,
        FileType::Fifo => nfs3::FileType::Fifo,
    }
}

const fn file_type(from: nfs3::FileType) -> FileType {
    match from {
        nfs3::FileType::Regular => FileType::Regular,
        nfs3::FileType::Directory => FileType::Directory,
        nfs3::FileType::BlockDevice => FileType::BlockDevice,
        nfs3::FileType::CharacterDevice => FileType::CharacterDevice,
        nfs3::FileType::Symlink => FileType::Symlink,
        nfs3::FileType::Socket => FileType::Socket,
        nfs3::FileType::Fifo => FileType::Fifo,
    }
}
