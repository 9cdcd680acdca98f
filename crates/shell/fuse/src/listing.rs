//! A part of a directory listing in the kernel's format.

use bytes::Bytes;

use crate::{Entry, Reply};

/// An entry of a [`Listing`].
#[derive(Clone, Copy, Debug)]
pub struct ListingEntry<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The file id of the object.
    pub file: u64,
    /// The position from which the listing continues after this entry.
    pub next: u64,
    /// The type and permissions, of which the kernel uses only the type; 0 if unknown.
    pub mode: u32,
}

/// A part of a directory listing under construction.
#[derive(Debug)]
pub struct Listing {
    bytes: Vec<u8>,
    room: usize,
}

/// The lengths of `struct fuse_entry_out` and of the head of an entry.
const ENTRY: usize = 128;
const HEAD: usize = 24;

impl Listing {
    /// Creates an empty listing with a maximum size in bytes.
    #[must_use]
    pub fn new(room: u32) -> Self {
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        Self { bytes: Vec::with_capacity(room.min(65_536)), room }
    }

    /// Returns true if a further entry with a name of this length fits.
    #[must_use]
    pub fn fits(&self, name_bytes: usize, plus: bool) -> bool {
        let head = if plus { ENTRY + HEAD } else { HEAD };
        self.bytes.len() + (head + name_bytes).next_multiple_of(8) <= self.room
    }

    /// Adds an entry. For READDIRPLUS, `plus` contains the object of the entry, if the object is
    /// known and the kernel should receive a reference to it. Returns true if the entry fitted.
    pub fn push(&mut self, entry: ListingEntry<'_>, plus: Option<Option<&Entry>>) -> bool {
        if !self.fits(entry.name.len(), plus.is_some()) {
            return false;
        }
        match plus {
            Some(Some(found)) => found.encode(&mut self.bytes),
            Some(None) => self.bytes.extend([0; ENTRY]),
            None => {}
        }
        self.bytes.extend(entry.file.to_ne_bytes());
        self.bytes.extend(entry.next.to_ne_bytes());
        let length = u32::try_from(entry.name.len()).expect("it fits in the reply");
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend((entry.mode >> 12 & 0xf).to_ne_bytes());
        self.bytes.extend(entry.name);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        true
    }

    /// Returns the finished listing. An empty listing means the end of the directory.
    #[must_use]
    pub fn reply(self) -> Reply {
        Reply::Data(Bytes::from(self.bytes))
    }
}
