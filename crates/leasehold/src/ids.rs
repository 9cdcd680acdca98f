//! The export numbers, which are a part of every handle: a directory keeps its export number
//! permanently, and no other directory ever receives that number.
//!
//! A handle is sealed with its export number, so the number ties the handle to the rules of one
//! export. Rules:
//! 1. Each served directory receives an export number. The state directory records the number, with
//!    the directory's origin (its file system and its root object), before a handle contains the
//!    number.
//! 2. A directory that is found at another path keeps its number, if no directory with the same
//!    origin exists at the earlier path. Otherwise the found directory lies on a copy of the file
//!    system, and receives a new number.
//! 3. Another directory at a recorded path receives a new number.
//! 4. If the state records no origin for a path, as in the state of an earlier version, the
//!    directory that has the path now keeps the number. An earlier version recorded no path for a
//!    server of one directory: the first directory in a state without paths receives the number
//!    that such a server assigned.
//!
//! The file `exports` contains for each directory the number, a blank, the path and a NUL; earlier
//! versions read this file. The file `origins` has a line for each number: the number, the UUID of
//! the file system or `-`, and the root object.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use leasehold_fs::{ExportId, ObjectId};
use leasehold_shell::private::{self, Secrecy};
use leasehold_shell::state;
use leasehold_store_dir::Origin;

use crate::failure::{Failure, Kind};

const NAMES: &str = "exports";
const ORIGINS: &str = "origins";

/// The number of a server's first export.
const FIRST: ExportId = ExportId(1);

/// The paths and origins that the state directory records for each export number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Numbers {
    names: BTreeMap<PathBuf, ExportId>,
    origins: BTreeMap<ExportId, Origin>,
}

/// Returns the export number of an export that several metaservers serve, with equal handles at all
/// of them. Only the path selects the number: the origin is not compared, because the directories
/// of the metaservers differ.
pub(crate) fn of_group(state: &Path, directory: &Path) -> Result<ExportId, Failure> {
    let names = read_names(state).map_err(|error| unusable(state, &error))?;
    Ok(names.get(directory).copied().unwrap_or(FIRST))
}

/// Returns the export numbers of directories; the state directory records each new number.
pub(crate) fn of(state: &Path, directories: &[&Path]) -> Result<Vec<ExportId>, Failure> {
    let before = Numbers::read(state).map_err(|error| unusable(state, &error))?;
    let mut numbers = before.clone();
    let found = numbers.number(directories, &|path| Origin::of(path).ok());
    let found =
        found.ok_or_else(|| Kind::State.because("all 65,535 numbers of exports are in use"))?;
    // Write the origins before the paths. If a crash happens between the two writes, the origins
    // already mark the old number as used, so that no other directory receives it.
    if numbers.origins != before.origins
        && let Err(error) = state::put(state, ORIGINS, &[numbers.origins_text().as_bytes()])
    {
        if numbers.names != before.names {
            return Err(unusable(state, &error));
        }
        tracing::warn!(%error, "cannot record the origins of exports: only names distinguish them");
    }
    if numbers.names != before.names {
        let put = state::put(state, NAMES, &[&numbers.names_text()]);
        put.map_err(|error| unusable(state, &error))?;
    }
    Ok(found)
}

/// Returns the paths of directories that have an export number.
pub(crate) fn names(state: &Path) -> io::Result<BTreeSet<PathBuf>> {
    Ok(read_names(state)?.into_keys().collect())
}

fn unusable(state: &Path, error: &io::Error) -> Failure {
    let shown = state.display();
    Kind::State.because(format!("cannot use the numbers of exports in {shown}: {error}"))
}

impl Numbers {
    /// Returns the export numbers of directories; `None` if all numbers are in use.
    fn number(
        &mut self,
        directories: &[&Path],
        origin: &dyn Fn(&Path) -> Option<Origin>,
    ) -> Option<Vec<ExportId>> {
        let mut found = BTreeMap::new();
        for &directory in directories {
            let now = origin(directory);
            if let Some(id) = self.named(directory, now.as_ref()) {
                self.note(id, now);
                found.insert(directory, id);
            }
        }
        for &directory in directories {
            if found.contains_key(directory) {
                continue;
            }
            let now = origin(directory);
            let taken: BTreeSet<_> = found.values().copied().collect();
            let renamed = now.and_then(|now| self.renamed(&now, &taken, origin));
            let id = renamed.map_or_else(|| self.next(), Some)?;
            self.names.insert(directory.to_path_buf(), id);
            self.note(id, now);
            found.insert(directory, id);
        }
        Some(directories.iter().map(|directory| found[directory]).collect())
    }

    /// Returns the export number of a path, if the path leads to the same directory as before.
    fn named(&mut self, directory: &Path, now: Option<&Origin>) -> Option<ExportId> {
        let id = *self.names.get(directory)?;
        let noted = self.origins.get(&id);
        // The directory keeps its number by rule 4, because no origin is recorded, or because the
        // origins do not differ as far as the kernel reports the UUID of the file system.
        if noted.zip(now).is_none_or(|(noted, now)| noted.may_be(now)) {
            return Some(id);
        }
        // Rule 3. The origins still list the number, so that no other directory receives it.
        self.names.remove(directory);
        None
    }

    /// Returns the export number that a directory had at another path, and removes that path. Rule
    /// 2.
    fn renamed(
        &mut self,
        now: &Origin,
        taken: &BTreeSet<ExportId>,
        origin: &dyn Fn(&Path) -> Option<Origin>,
    ) -> Option<ExportId> {
        let mut same =
            self.origins.iter().filter(|(id, noted)| noted.is(now) && !taken.contains(id));
        let (&id, _) = same.next()?;
        let name = self.names.iter().find(|(_, other)| **other == id).map(|(name, _)| name.clone());
        if let Some(name) = name {
            if origin(&name).is_some_and(|there| there.may_be(now)) {
                return None;
            }
            self.names.remove(&name);
        }
        Some(id)
    }

    fn note(&mut self, id: ExportId, now: Option<Origin>) {
        let noted = self.origins.get(&id);
        // If the kernel does not report the UUID now, keep the origin with the recorded UUID.
        let is_known = noted.is_some_and(|noted| noted.volume.is_some());
        if let Some(now) = now.filter(|now| now.volume.is_some() || !is_known) {
            self.origins.insert(id, now);
        }
    }

    /// Returns an export number that was never assigned.
    fn next(&self) -> Option<ExportId> {
        let last = self.names.values().chain(self.origins.keys()).max();
        last.map_or(Some(FIRST), |last| last.0.checked_add(1).map(ExportId))
    }

    fn read(state: &Path) -> io::Result<Self> {
        Ok(Self { names: read_names(state)?, origins: read_origins(state)? })
    }

    fn names_text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for (path, ExportId(number)) in &self.names {
            text.extend_from_slice(format!("{number} ").as_bytes());
            text.extend_from_slice(path.as_os_str().as_bytes());
            text.push(0);
        }
        text
    }

    fn origins_text(&self) -> String {
        let mut text = String::new();
        for (ExportId(number), Origin { volume, object }) in &self.origins {
            let volume = volume.map_or_else(|| "-".to_owned(), |volume| digits(&volume));
            // Formatting into a string cannot fail, so the result is ignored.
            let _ = writeln!(text, "{number} {volume} {}", digits(object.as_bytes()));
        }
        text
    }
}

/// Formats bytes as hexadecimal digits.
pub(crate) fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    let pair = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.iter().map(pair).collect()
}

pub(crate) fn damaged(name: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("{name} is damaged"))
}

/// Reads a file of the state directory; returns no bytes if the file does not exist.
pub(crate) fn read(state: &Path, name: &str) -> io::Result<Vec<u8>> {
    let path = state.join(name);
    match private::read(&path, Secrecy::Readable) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(io::Error::new(error.kind(), format!("{} {error}", path.display()))),
        read => read,
    }
}

fn read_names(state: &Path) -> io::Result<BTreeMap<PathBuf, ExportId>> {
    let text = read(state, NAMES)?;
    let line = |line: &[u8]| {
        let blank = line.iter().position(|byte| *byte == b' ')?;
        let number = std::str::from_utf8(&line[..blank]).ok()?.parse().ok()?;
        Some((PathBuf::from(OsStr::from_bytes(&line[blank + 1..])), ExportId(number)))
    };
    // Split at NUL, because a path may contain every other byte.
    let lines = text.split(|byte| *byte == 0).filter(|text| !text.is_empty());
    lines.map(|text| line(text).ok_or_else(|| damaged(NAMES))).collect()
}

fn read_origins(state: &Path) -> io::Result<BTreeMap<ExportId, Origin>> {
    let text = read(state, ORIGINS)?;
    let text = std::str::from_utf8(&text).map_err(|_| damaged(ORIGINS))?;
    let line = |line: &str| {
        let mut words = line.split(' ');
        let (number, volume, object) = (words.next()?, words.next()?, words.next()?);
        let volume = match volume {
            "-" => None,
            volume => Some(bytes_of(volume)?.try_into().ok()?),
        };
        let object = ObjectId::new(&bytes_of(object)?)?;
        Some((ExportId(number.parse().ok()?), Origin { volume, object }))
    };
    text.lines().map(|text| line(text).ok_or_else(|| damaged(ORIGINS))).collect()
}

#[cfg(test)]
mod tests;
