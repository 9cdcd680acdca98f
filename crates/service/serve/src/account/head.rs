//! What the head of a call says of it, read from its bytes at fixed places.

use leasehold_base::limits::HANDLE_V2_BYTES;

use crate::handles::export_of;
use crate::table::{PROGRAMS, Row};

/// Where the program, the version and the procedure stand (RFC 5531 section 9), and where the
/// credential begins.
const PROGRAM_AT: usize = 12;
const VERSION_AT: usize = 16;
const PROCEDURE_AT: usize = 20;
const CREDENTIAL_AT: usize = 24;

/// Where a call is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The number of its row.
    pub(super) row: u16,
    /// Whether its reply says in a status whether it succeeded.
    pub(super) has_status: bool,
    /// The export that its handle names, if it is a handle of ours.
    pub(super) export: Option<u16>,
}

/// Which row belongs to which procedure.
#[derive(Clone)]
pub(super) struct Layout {
    versions: Vec<Rows>,
    rows: usize,
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
        let mut rows = 0;
        let mut versions = Vec::new();
        for program in PROGRAMS {
            for version in program.versions {
                let first = u16::try_from(rows).expect("there are few procedures");
                versions.push(Rows {
                    program: program.number,
                    version: version.number,
                    program_name: program.name,
                    rows: version.rows,
                    first,
                    has_handles: program.number == leasehold_wire::nfs3::PROGRAM,
                });
                rows += version.rows.len();
            }
        }
        Self { versions, rows: rows + 1 }
    }

    pub(super) const fn rows(&self) -> usize {
        self.rows
    }

    /// Program, version and name of each row.
    pub(super) fn names(&self) -> impl Iterator<Item = (&'static str, u32, &'static str)> {
        let of = |rows: &Rows| {
            let (program, version) = (rows.program_name, rows.version);
            rows.rows.iter().map(move |row| (program, version, row.name))
        };
        self.versions.iter().flat_map(of).chain([("", 0, "unknown")])
    }

    /// Where a call is counted.
    pub(super) fn place(&self, call: &[u8]) -> Place {
        self.served(call).unwrap_or_else(|| {
            let row = u16::try_from(self.rows - 1).expect("there are few procedures");
            Place { row, has_status: false, export: None }
        })
    }

    fn served(&self, call: &[u8]) -> Option<Place> {
        let (program, version) = (word(call, PROGRAM_AT)?, word(call, VERSION_AT)?);
        let number = word(call, PROCEDURE_AT)?;
        let is_it = |rows: &&Rows| rows.version == version && rows.program == program;
        let rows = self.versions.iter().find(is_it)?;
        let procedure = rows.rows.get(number as usize)?;
        let has_status = procedure.has_status;
        let export = if has_status && rows.has_handles { export(call, version) } else { None };
        // Below the number of rows, which fits.
        #[allow(clippy::cast_possible_truncation, reason = "as the line above says")]
        Some(Place { row: rows.first + number as u16, has_status, export })
    }
}

/// The export that the handle names with which the arguments begin.
fn export(call: &[u8], version: u32) -> Option<u16> {
    let verifier = after_opaque(call, CREDENTIAL_AT)?;
    let arguments = after_opaque(call, verifier)?;
    // Version 3 says how long a handle is.
    let handle = arguments + if version == 2 { 0 } else { size_of::<u32>() };
    call.get(handle..handle + HANDLE_V2_BYTES).map(export_of)
}

/// Where what follows a credential or a verifier begins: it has a flavour, a length and a body.
fn after_opaque(call: &[u8], at: usize) -> Option<usize> {
    let length = word(call, at + size_of::<u32>())? as usize;
    Some(at + 2 * size_of::<u32>() + length.next_multiple_of(size_of::<u32>()))
}

/// The word at a place.
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}
