//! Pages of a directory listing.

use leasehold_base::units::{Cookie, FileId};

use crate::{Attributes, ObjectId};

/// The bytes available for entries, and the bytes of each entry in addition to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The number of bytes for all entries.
    pub bytes: u32,
    /// The number of bytes for one entry without its name.
    pub entry_bytes: u32,
}

impl Allowance {
    /// No limit.
    pub const UNLIMITED: Self = Self { bytes: u32::MAX, entry_bytes: 0 };

    /// Subtracts the cost of an entry. Returns false and subtracts nothing if the entry does not
    /// fit.
    pub(super) fn take(&mut self, name_bytes: usize) -> bool {
        let name_bytes = u32::try_from(name_bytes.next_multiple_of(4)).unwrap_or(u32::MAX);
        let cost = self.entry_bytes.saturating_add(name_bytes);
        let fits = cost <= self.bytes;
        if fits {
            self.bytes -= cost;
        }
        fits
    }
}

/// The size limits of a page, so that the store stops exactly when the reply is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The limit for the whole reply (`count` of READDIR, `maxcount` of READDIRPLUS).
    pub reply: Allowance,
    /// The limit for the names and file ids (`dircount` of READDIRPLUS).
    pub names: Allowance,
}

impl Budget {
    /// Subtracts the cost of an entry; returns false if the entry does not fit.
    #[must_use]
    pub fn take(&mut self, name: &[u8]) -> bool {
        self.reply.take(name.len()) && self.names.take(name.len())
    }
}

/// The requested content of each entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The name and the file id.
    Names,
    /// The name, the file id, and if available also the object and its attributes. A caller without
    /// search permission for the directory receives neither the object nor its attributes.
    Everything,
}

/// One name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name, `.` and `..` included.
    pub name: &'a [u8],
    /// The file id of the object.
    pub file_id: FileId,
    /// The cookie from which the listing continues after this entry.
    pub cookie: Cookie,
    /// The attributes, if requested and available.
    pub attributes: Option<Attributes>,
    /// The object, if requested and available.
    pub object: Option<ObjectId>,
}

/// A sequence of entries that stores all names in one buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    names: Vec<u8>,
    entries: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    name_end: usize,
    file_id: FileId,
    cookie: Cookie,
    attributes: Option<Attributes>,
    object: Option<ObjectId>,
}

impl Entries {
    /// Appends an entry.
    pub fn push(&mut self, entry: &Entry<'_>) {
        self.names.extend_from_slice(entry.name);
        self.entries.push(Row {
            name_end: self.names.len(),
            file_id: entry.file_id,
            cookie: entry.cookie,
            attributes: entry.attributes,
            object: entry.object,
        });
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Iterates over the entries in order.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut start = 0;
        self.entries.iter().map(move |row| {
            let name = &self.names[start..row.name_end];
            start = row.name_end;
            Entry {
                name,
                file_id: row.file_id,
                cookie: row.cookie,
                attributes: row.attributes,
                object: row.object,
            }
        })
    }
}

/// A page of a directory listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The entries of the page.
    pub entries: Entries,
    /// True if the page reaches the end of the directory.
    pub end: bool,
    /// The attributes of the directory.
    pub attributes: Attributes,
}
