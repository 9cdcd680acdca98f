//! Parts of a directory.

use leasehold_base::units::{Cookie, FileId};

use crate::{Attributes, ObjectId};

/// How many bytes entries may take, and how many each takes beside its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Bytes for all entries.
    pub bytes: u32,
    /// Bytes for one entry without its name.
    pub entry_bytes: u32,
}

impl Allowance {
    /// No bound.
    pub const UNLIMITED: Self = Self { bytes: u32::MAX, entry_bytes: 0 };

    /// Takes an entry's share away; false, and nothing taken, when it does not fit.
    fn take(&mut self, name_bytes: usize) -> bool {
        let name_bytes = u32::try_from(name_bytes.next_multiple_of(4)).unwrap_or(u32::MAX);
        let cost = self.entry_bytes.saturating_add(name_bytes);
        let fits = cost <= self.bytes;
        if fits {
            self.bytes -= cost;
        }
        fits
    }
}

/// What a listing may take: so the store stops just where the reply is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The whole reply (`count` of READDIR, `maxcount` of READDIRPLUS).
    pub reply: Allowance,
    /// Names and numbers alone (`dircount` of READDIRPLUS).
    pub names: Allowance,
}

impl Budget {
    /// Takes an entry's share away; false when it no longer fits.
    #[must_use]
    pub fn take(&mut self, name: &[u8]) -> bool {
        self.reply.take(name.len()) && self.names.take(name.len())
    }
}

/// How much is wanted to know of each entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Its name and number.
    Names,
    /// Its object and attributes as well, where they can be had; not by a caller who may not
    /// search the directory.
    Everything,
}

/// One name of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The name, `.` and `..` included.
    pub name: &'a [u8],
    /// The number of its object.
    pub file_id: FileId,
    /// Where a listing goes on behind it.
    pub cookie: Cookie,
    /// Its attributes, when wanted and to be had.
    pub attributes: Option<Attributes>,
    /// Its object, when wanted and to be had.
    pub object: Option<ObjectId>,
}

/// A sequence of entries; their names lie in one piece of memory.
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

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries in order.
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

/// A part of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its entries.
    pub entries: Entries,
    /// Whether the directory ends here.
    pub end: bool,
    /// The directory.
    pub attributes: Attributes,
}
