//! What the head of a call says of it, read from its bytes at fixed places.

use leasehold_base::limits::HANDLE_V2_BYTES;

use crate::handles::export_of;
use crate::table::{PROGRAMS, Row};

/// Where the program, the version and the procedure stand (RFC 5531 section 9), and where the
/// credential begins: with its flavour and its length.
const PROGRAM_AT: usize = 12;
const VERSION_AT: usize = 16;
const PROCEDURE_AT: usize = 20;
const CREDENTIAL_LENGTH_AT: usize = 28;
const CREDENTIAL_AT: usize = 32;

/// Where a call is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The number of its row.
    pub(super) row: u16,
    /// The export that its handle names, if it begins with a handle of ours.
    pub(super) export: Option<u16>,
}

/// A row by name.
pub(super) struct Named {
    pub(super) program: &'static str,
    pub(super) version: u32,
    pub(super) name: &'static str,
    pub(super) has_status: bool,
}

/// Which row belongs to which procedure.
#[derive(Clone)]
pub(super) struct Layout {
    versions: Vec<Rows>,
    rows: u16,
    /// The place in `versions` of the last call: the next is most likely of the same.
    last: usize,
}

/// The rows of a program's version.
#[derive(Clone)]
struct Rows {
    program: u32,
    version: u32,
    program_name: &'static str,
    rows: &'static [Row],
    first: u16,
    has_handles: bool,
}

impl Layout {
    /// A row for each procedure, and one for what is none.
    pub(super) fn new() -> Self {
        let mut rows: u16 = 0;
        let mut versions = Vec::new();
        for program in PROGRAMS {
            for version in program.versions {
                let first = rows;
                versions.push(Rows {
                    program: program.number,
                    version: version.number,
                    program_name: program.name,
                    rows: version.rows,
                    first,
                    has_handles: program.number == leasehold_wire::nfs3::PROGRAM,
                });
                rows += u16::try_from(version.rows.len()).expect("there are few procedures");
            }
        }
        Self { versions, rows: rows + 1, last: 0 }
    }

    /// Program, version and name of each row, and whether its results begin with a status.
    pub(super) fn rows(&self) -> impl Iterator<Item = Named> {
        let of = |rows: &Rows| {
            let (program, version) = (rows.program_name, rows.version);
            let named = move |row: &Row| Named {
                program,
                version,
                name: row.name,
                has_status: row.has_status,
            };
            rows.rows.iter().map(named)
        };
        let unknown = Named { program: "", version: 0, name: "unknown", has_status: false };
        self.versions.iter().flat_map(of).chain([unknown])
    }

    /// Where a call is counted.
    #[inline]
    pub(super) fn place(&mut self, call: &[u8]) -> Place {
        self.served(call).unwrap_or(Place { row: self.rows - 1, export: None })
    }

    #[inline]
    fn served(&mut self, call: &[u8]) -> Option<Place> {
        let head: &[u8; CREDENTIAL_AT] = call.first_chunk()?;
        let word_at =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let key = (word_at(PROGRAM_AT), word_at(VERSION_AT));
        let number = word_at(PROCEDURE_AT);
        let mut rows = &self.versions[self.last];
        if (rows.program, rows.version) != key {
            let is_it = |rows: &Rows| (rows.program, rows.version) == key;
            self.last = self.versions.iter().position(is_it)?;
            rows = &self.versions[self.last];
        }
        if number as usize >= rows.rows.len() {
            return None;
        }
        let arguments = after_verifier(call, word_at(CREDENTIAL_LENGTH_AT));
        let export = arguments
            .filter(|_| rows.has_handles)
            .and_then(|arguments| export(call, arguments, rows.version));
        #[allow(clippy::cast_possible_truncation, reason = "there are few procedures")]
        Some(Place { row: rows.first + number as u16, export })
    }
}

/// Where the arguments begin, behind a credential of this length and the verifier.
#[inline]
fn after_verifier(call: &[u8], credential: u32) -> Option<usize> {
    let padded = |length: u32| (length as usize).next_multiple_of(size_of::<u32>());
    let verifier = CREDENTIAL_AT + padded(credential) + size_of::<u32>();
    Some(verifier + size_of::<u32>() + padded(word(call, verifier)?))
}

/// The export that the handle names with which the arguments begin.
#[inline]
fn export(call: &[u8], arguments: usize, version: u32) -> Option<u16> {
    // Version 3 says how long a handle is.
    let handle = arguments + if version == 2 { 0 } else { size_of::<u32>() };
    call.get(handle..handle + HANDLE_V2_BYTES).map(export_of)
}

/// The word at a place.
#[inline]
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}
