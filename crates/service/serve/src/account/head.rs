//! The head of a call, read at fixed offsets.

use leasehold_base::limits::HANDLE_V2_BYTES;
use leasehold_leases::export_of;
use leasehold_wire::{nfs2, nfs3, nfs4};

use crate::table::{PROGRAMS, Row};

/// The offsets of the program (followed by the version), of the procedure, and of the credential's
/// length and body (RFC 5531 section 9).
const PROGRAM_AT: usize = 12;
const PROCEDURE_AT: usize = 20;
const CREDENTIAL_LENGTH_AT: usize = 28;
const CREDENTIAL_AT: usize = 32;

/// The position of a call's counters: the index of its row and the export in its handle. Both
/// values share one word, because the account compares them for every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CounterPosition(u32);

impl CounterPosition {
    /// The export number that means "no export"; no real export has this number.
    const NO_EXPORT: u16 = u16::MAX;

    #[inline]
    pub(super) fn new(row: u16, export: Option<u16>) -> Self {
        let export = export.unwrap_or(Self::NO_EXPORT);
        Self(u32::from(row) << u16::BITS | u32::from(export))
    }

    #[inline]
    pub(super) const fn row(self) -> usize {
        (self.0 >> u16::BITS) as usize
    }

    /// Returns the export, if the arguments of the call begin with a handle of this server.
    pub(super) fn export(self) -> Option<u16> {
        let [.., high, low] = self.0.to_be_bytes();
        Some(u16::from_be_bytes([high, low])).filter(|export| *export != Self::NO_EXPORT)
    }

    /// Returns the same row without an export.
    pub(super) const fn without_export(self) -> Self {
        Self(self.0 | Self::NO_EXPORT as u32)
    }
}

/// The program, the version and the name of a row.
pub(super) struct Named {
    pub(super) program: &'static str,
    pub(super) version: u32,
    pub(super) name: &'static str,
    pub(super) has_status: bool,
}

/// The map from procedures to rows.
#[derive(Clone)]
pub(super) struct Layout {
    versions: Vec<Rows>,
    rows: u16,
    /// The rows of the last call, because the next call most likely has the same program and
    /// version.
    last: Rows,
}

/// The rows of a program's version.
#[derive(Clone, Copy)]
struct Rows {
    version: u32,
    program_name: &'static str,
    procedures: Procedures,
    /// The number of the procedures.
    count: u32,
    first: u16,
    handles: Handles,
    /// The program and the version in wire form.
    key: [u8; 2 * size_of::<u32>()],
}

/// The procedures of a version.
#[derive(Clone, Copy)]
enum Procedures {
    /// The rows of the procedure table.
    Table(&'static [Row]),
    /// The procedures of NFS version 4, which are not in the procedure table.
    Version4,
}

/// The procedures of NFS version 4 by their numbers; true for results that begin with a status.
const VERSION_4: [(&str, bool); 2] = [("NULL", false), ("COMPOUND", true)];

/// The form of the handle at the beginning of the arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Handles {
    /// No handle.
    None,
    /// Version 2: fixed length.
    Fixed,
    /// Version 3: preceded by its length.
    Counted,
}

impl Layout {
    /// Creates one row for each procedure, and one for unknown procedures.
    pub(super) fn new() -> Self {
        let mut versions = Vec::new();
        let mut rows: u16 = 0;
        let mut add = |program: (u32, &'static str), version, procedures: Procedures, handles| {
            let count = match procedures {
                Procedures::Table(rows) => rows.len(),
                Procedures::Version4 => VERSION_4.len(),
            };
            let (first, key) = (rows, key(program.0, version));
            let count = u16::try_from(count).expect("there are few procedures");
            rows += count;
            let (program_name, count) = (program.1, u32::from(count));
            versions.push(Rows { version, program_name, procedures, count, first, handles, key });
        };
        for program in PROGRAMS {
            for version in program.versions {
                let handles = match (program.number, version.number) {
                    (nfs3::PROGRAM, nfs2::VERSION) => Handles::Fixed,
                    (nfs3::PROGRAM, _) => Handles::Counted,
                    _ => Handles::None,
                };
                let procedures = Procedures::Table(version.rows);
                add((program.number, program.name), version.number, procedures, handles);
            }
        }
        add((nfs4::PROGRAM, "NFS"), nfs4::VERSION, Procedures::Version4, Handles::None);
        let last = *versions.first().expect("something is served");
        Self { versions, rows: rows + 1, last }
    }

    /// Returns the program, version and name of each row, and true if the results of the procedure
    /// begin with a status.
    pub(super) fn rows(&self) -> impl Iterator<Item = Named> {
        let unknown = Named { program: "", version: 0, name: "unknown", has_status: false };
        self.versions.iter().flat_map(Rows::named).chain([unknown])
    }

    /// Returns the position of a call's counters.
    #[inline]
    pub(super) fn place(&mut self, call: &[u8]) -> CounterPosition {
        self.served(call).unwrap_or(CounterPosition::new(self.rows - 1, None))
    }

    #[inline]
    fn served(&mut self, call: &[u8]) -> Option<CounterPosition> {
        let head: &[u8; CREDENTIAL_AT] = call.first_chunk()?;
        if head[PROGRAM_AT..PROCEDURE_AT] != self.last.key {
            self.change_version(head)?;
        }
        let word_at =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let number = word_at(PROCEDURE_AT);
        if number >= self.last.count {
            return None;
        }
        #[allow(clippy::cast_possible_truncation, reason = "there are few procedures")]
        let row = self.last.first + number as u16;
        let verifier = CREDENTIAL_AT + padded(word_at(CREDENTIAL_LENGTH_AT));
        if self.last.handles == Handles::Counted
            && let Some(bytes) = call.get(verifier..verifier + COMMON_BYTES)
            && bytes[COMMON_LENGTH_AT..COMMON_HANDLE_AT - size_of::<u32>()] == [0; 4]
        {
            return Some(CounterPosition::new(row, Some(export_of(&bytes[COMMON_HANDLE_AT..]))));
        }
        Some(CounterPosition::new(row, self.export(call, verifier)))
    }

    #[cold]
    fn change_version(&mut self, head: &[u8; CREDENTIAL_AT]) -> Option<()> {
        let is_it = |rows: &&Rows| head[PROGRAM_AT..PROCEDURE_AT] == rows.key;
        self.last = *self.versions.iter().find(is_it)?;
        Some(())
    }

    /// Returns the export in the handle at the beginning of the arguments, which follow the
    /// verifier.
    fn export(&self, call: &[u8], verifier: usize) -> Option<u16> {
        let before = match self.last.handles {
            Handles::None => return None,
            Handles::Fixed => 0,
            Handles::Counted => size_of::<u32>(),
        };
        let length_at = verifier + size_of::<u32>();
        let arguments = length_at + size_of::<u32>() + padded(word(call, length_at)?);
        let handle = arguments + before;
        call.get(handle..handle + HANDLE_V2_BYTES).map(export_of)
    }
}

impl Rows {
    fn named(&self) -> Vec<Named> {
        let (program, version) = (self.program_name, self.version);
        let named = |name, has_status| Named { program, version, name, has_status };
        match self.procedures {
            Procedures::Table(rows) => {
                rows.iter().map(|row| named(row.name, row.has_status)).collect()
            }
            Procedures::Version4 => {
                VERSION_4.iter().map(|(name, has_status)| named(name, *has_status)).collect()
            }
        }
    }
}

/// Returns a program and a version in wire form.
fn key(program: u32, version: u32) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&program.to_be_bytes());
    key[4..].copy_from_slice(&version.to_be_bytes());
    key
}

/// Offsets for most calls of version 3: after the credential follow the flavour and length of an
/// empty verifier, and then the length and bytes of a handle.
const COMMON_LENGTH_AT: usize = size_of::<u32>();
const COMMON_HANDLE_AT: usize = 3 * size_of::<u32>();
const COMMON_BYTES: usize = COMMON_HANDLE_AT + HANDLE_V2_BYTES;

/// Rounds a length up to whole XDR words.
#[inline]
const fn padded(length: u32) -> usize {
    (length as usize + 3) & !3
}

/// Returns the word at an offset.
#[inline]
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}
