//! The file-system numbers of the file systems below exports with `cross = true`. A file-system
//! number is a part of the handles of the file system's objects.
//!
//! Rules, as for the export numbers in [`crate::ids`]:
//! 1. A file system receives a number that no other file system of this state ever had. The state
//!    records the number, the origin of the export, the path below the export and the origin of the
//!    file system before a handle contains the number.
//! 2. A file system that is found at another path keeps its number, unless the recorded path still
//!    leads to a file system with this origin: then the newly found file system is a copy or a
//!    second mount, and receives a new number.
//! 3. If the kernel does not report the UUID of a file system, the file system keeps its number
//!    only at an equal path.
//! 4. A file system that contains the state directory receives no number: clients must not reach
//!    the key of all handles.
//!
//! The file `crossings` has a line for each number: the number, the export's UUID or `-` and its
//! root object, the file system's UUID or `-` and its root object, and the path. All but the number
//! are in hexadecimal digits.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_fs::ObjectId;
use leasehold_shell::{own, state};
use leasehold_store_dir::{Numbers, Origin};

use crate::checks;
use crate::failure::{Failure, Kind};
use crate::ids::{bytes_of, damaged, digits, read};

const FILE: &str = "crossings";

/// A file system below an export.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    number: u16,
    export: Origin,
    origin: Origin,
    path: Vec<u8>,
}

/// The file-system numbers that a state directory has recorded. Without a state directory, as for
/// `leasehold why`, the numbers exist in memory only.
pub(crate) struct Noted {
    state: Option<PathBuf>,
    rows: Mutex<Vec<Row>>,
}

/// The file-system numbers for one export.
pub(crate) struct Crossings {
    noted: Arc<Noted>,
    directory: PathBuf,
    export: Origin,
}

impl Noted {
    /// Reads the recorded file-system numbers of a state directory.
    pub(crate) fn read(state: &Path) -> Result<Arc<Self>, Failure> {
        let rows = read_rows(state).map_err(|error| {
            let shown = state.display();
            Kind::State.because(format!("cannot use the numbers of mounts in {shown}: {error}"))
        })?;
        Ok(Arc::new(Self { state: Some(state.to_path_buf()), rows: Mutex::new(rows) }))
    }

    /// Creates an empty table that no state directory records.
    pub(crate) fn nowhere() -> Arc<Self> {
        Arc::new(Self { state: None, rows: Mutex::default() })
    }

    /// Returns the file-system numbers below one export.
    pub(crate) fn of(self: &Arc<Self>, directory: &Path) -> io::Result<Crossings> {
        let (noted, export) = (Arc::clone(self), Origin::of(directory)?);
        Ok(Crossings { noted, directory: directory.to_path_buf(), export })
    }

    fn rows(&self) -> MutexGuard<'_, Vec<Row>> {
        // A panic cannot leave the rows inconsistent, because each change replaces all rows in one
        // assignment: the lock is used even if it is poisoned.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the file-system number of a file system, and records a new number on stable storage.
    /// Runs on a thread of the server's own work.
    fn number(&self, wanted: &Row, directory: &Path, at: &Path) -> Option<u16> {
        if let Some(state) = &self.state
            && checks::is_reached(state, at).unwrap_or(true)
        {
            let path = String::from_utf8_lossy(&wanted.path).into_owned();
            tracing::warn!(
                path,
                "this mount is not crossed, because the state directory lies on it"
            );
            return None;
        }
        let mut rows = self.rows();
        if let Some(row) = rows.iter().find(|row| row.is(wanted)) {
            return Some(row.number);
        }
        let mut next = rows.clone();
        let is_moved = |row: &&mut Row| {
            let there = directory.join(OsStr::from_bytes(&row.path));
            row.export == wanted.export
                && row.origin.is(&wanted.origin)
                && !Origin::of(&there).is_ok_and(|there| there.may_be(&wanted.origin))
        };
        let number = match next.iter_mut().find(is_moved) {
            Some(row) => {
                row.path.clone_from(&wanted.path);
                row.number
            }
            None => {
                let last = next.iter().map(|row| row.number).max().unwrap_or(0);
                let Some(number) = last.checked_add(1) else {
                    tracing::error!("all 65,535 numbers of mounts are in use");
                    return None;
                };
                next.push(Row { number, ..wanted.clone() });
                number
            }
        };
        if let Some(state) = &self.state
            && let Err(error) = state::put(state, FILE, &[text(&next).as_bytes()])
        {
            tracing::error!(%error, "a mount is not crossed, because its number cannot be \
                                     recorded");
            return None;
        }
        *rows = next;
        Some(number)
    }
}

impl Row {
    /// Returns true if this is the wanted file system.
    fn is(&self, wanted: &Self) -> bool {
        self.export == wanted.export
            && self.path == wanted.path
            && self.origin.may_be(&wanted.origin)
    }
}

impl Numbers for Crossings {
    fn number(&self, path: &[u8], origin: &Origin, at: &Path) -> Option<u16> {
        // A UUID of zeros identifies no file system, because many file systems may have it: treat
        // such a UUID as missing.
        let volume = origin.volume.filter(|uuid| *uuid != [0; 16]);
        let origin = Origin { volume, ..*origin };
        let wanted = Row { number: 0, export: self.export, origin, path: path.to_vec() };
        if self.noted.state.is_none() {
            return self.noted.number(&wanted, &self.directory, at);
        }
        let (noted, directory, at) =
            (Arc::clone(&self.noted), self.directory.clone(), at.to_path_buf());
        let work = move || noted.number(&wanted, &directory, &at);
        own::spawn("mounts", work).ok()?.join().ok()?
    }

    fn path(&self, number: u16) -> Option<Vec<u8>> {
        let rows = self.noted.rows();
        let row = rows.iter().find(|row| row.number == number && row.export == self.export)?;
        Some(row.path.clone())
    }
}

fn text(rows: &[Row]) -> String {
    let mut text = String::new();
    for Row { number, export, origin, path } in rows {
        let words = [export, origin].map(|Origin { volume, object }| {
            let volume = volume.map_or_else(|| "-".to_owned(), |volume| digits(&volume));
            format!("{volume} {}", digits(object.as_bytes()))
        });
        // Formatting into a string cannot fail, so the result is ignored.
        let _ = writeln!(text, "{number} {} {}", words.join(" "), digits(path));
    }
    text
}

fn read_rows(state: &Path) -> io::Result<Vec<Row>> {
    let text = read(state, FILE)?;
    let text = std::str::from_utf8(&text).map_err(|_| damaged(FILE))?;
    text.lines().map(|line| row(line).ok_or_else(|| damaged(FILE))).collect()
}

fn row(line: &str) -> Option<Row> {
    let mut words = line.split(' ');
    let number = words.next()?.parse().ok()?;
    let mut origin = || {
        let volume = match words.next()? {
            "-" => None,
            volume => Some(bytes_of(volume)?.try_into().ok()?),
        };
        Some(Origin { volume, object: ObjectId::new(&bytes_of(words.next()?)?)? })
    };
    let (export, of_row) = (origin()?, origin()?);
    Some(Row { number, export, origin: of_row, path: bytes_of(words.next()?)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(volume: Option<u8>, object: &[u8]) -> Origin {
        let object = ObjectId::new(object).expect("it is short");
        Origin { volume: volume.map(|byte| [byte; 16]), object }
    }

    #[test]
    fn rows_are_parsed_as_written() {
        let rows = [
            Row {
                number: 1,
                export: origin(Some(1), b"root"),
                origin: origin(None, b"other"),
                path: b"a \n\xff/b".to_vec(),
            },
            Row {
                number: u16::MAX,
                export: origin(None, b"root"),
                origin: origin(Some(2), b"other"),
                path: b"c".to_vec(),
            },
        ];
        let written = text(&rows);
        let read: Option<Vec<_>> = written.lines().map(row).collect();
        assert_eq!(read.expect("it is whole"), rows);
        for line in ["", "x", "1 - 00 - 00", "65536 - 00 - 00 00", "1 - 0 - 00 00"] {
            assert_eq!(row(line), None, "{line}");
        }
    }

    /// A file-system number belongs to one file system, at every mount point.
    #[test]
    fn each_file_system_keeps_its_number() {
        let home = tempfile::tempdir().expect("there is room");
        let noted = Noted::nowhere();
        let number = |path: &str, at: Origin| {
            let row = Row {
                number: 0,
                export: origin(Some(1), b"root"),
                origin: at,
                path: path.as_bytes().to_vec(),
            };
            noted.number(&row, home.path(), home.path())
        };
        let (one, two) = (origin(Some(7), b"top"), origin(Some(8), b"top"));
        assert_eq!(number("a", one), Some(1));
        assert_eq!(number("a", one), Some(1));
        assert_eq!(number("a", two), Some(2), "another file system in its place");
        assert_eq!(number("a", one), Some(1), "the first again");
        assert_eq!(number("b", one), Some(1), "it was moved");
        let nameless = origin(None, b"top");
        assert_eq!(number("c", nameless), Some(3));
        assert_eq!(number("d", nameless), Some(4), "without a UUID the path counts");
    }
}
