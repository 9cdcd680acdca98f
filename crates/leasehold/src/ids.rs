//! The numbers of exports, which are part of every handle: each directory keeps its own for ever.
//!
//! They stand in the state directory: the number, a blank, the path and a NUL, each. A server of
//! one directory that is named on the command line needs none of it: that is number 1 unless the
//! list has it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use leasehold_fs::ExportId;
use leasehold_shell::state;

use crate::failure::{Failure, Kind};

const NAME: &str = "exports";

/// The number of a server's only export.
pub(crate) const ONLY: ExportId = ExportId(1);

/// The number of one directory, which is not noted.
pub(crate) fn of_directory(state: &Path, directory: &Path) -> Result<ExportId, Failure> {
    let listed = read(state).map_err(|error| unusable(state, &error))?;
    Ok(listed.get(directory).copied().unwrap_or(ONLY))
}

/// The numbers of directories; new ones get one that was never given out, and are noted.
pub(crate) fn of(state: &Path, directories: &[&Path]) -> Result<Vec<ExportId>, Failure> {
    let mut listed = read(state).map_err(|error| unusable(state, &error))?;
    let before = listed.len();
    for &directory in directories {
        let last = listed.values().max().copied();
        if !listed.contains_key(directory) {
            let next = last.map_or(Some(ONLY), |last| last.0.checked_add(1).map(ExportId));
            let full = || Kind::State.because("all 65,535 numbers of exports are given out");
            listed.insert(directory.to_path_buf(), next.ok_or_else(full)?);
        }
    }
    if listed.len() > before {
        write(state, &listed).map_err(|error| unusable(state, &error))?;
    }
    Ok(directories.iter().map(|directory| listed[*directory]).collect())
}

fn unusable(state: &Path, error: &io::Error) -> Failure {
    let path = state.join(NAME);
    Kind::State.because(format!("cannot use the numbers of exports, {}: {error}", path.display()))
}

fn read(state: &Path) -> io::Result<BTreeMap<PathBuf, ExportId>> {
    let text = match fs::read(state.join(NAME)) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let damaged = || io::Error::new(ErrorKind::InvalidData, "it is damaged");
    let line = |line: &[u8]| {
        let blank = line.iter().position(|byte| *byte == b' ')?;
        let number = std::str::from_utf8(&line[..blank]).ok()?.parse().ok()?;
        Some((PathBuf::from(OsStr::from_bytes(&line[blank + 1..])), ExportId(number)))
    };
    // A path may hold every byte but NUL.
    let lines = text.split(|byte| *byte == 0).filter(|text| !text.is_empty());
    lines.map(|text| line(text).ok_or_else(damaged)).collect()
}

fn write(state: &Path, listed: &BTreeMap<PathBuf, ExportId>) -> io::Result<()> {
    let mut text = Vec::new();
    for (path, ExportId(number)) in listed {
        text.extend_from_slice(format!("{number} ").as_bytes());
        text.extend_from_slice(path.as_os_str().as_bytes());
        text.push(0);
    }
    state::put(state, NAME, &[&text])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_keeps_its_number() {
        let home = tempfile::tempdir().expect("there is room");
        let of = |paths: &[&str]| -> Vec<u16> {
            let paths: Vec<&Path> = paths.iter().map(Path::new).collect();
            of(home.path(), &paths).expect("it can be noted").iter().map(|id| id.0).collect()
        };
        let only = |path: &str| of_directory(home.path(), Path::new(path)).expect("is read").0;
        assert_eq!(only("/a"), 1);
        assert_eq!(of(&["/b", "/a b\nc"]), [1, 2]);
        assert_eq!(of(&["/d", "/a b\nc"]), [3, 2], "what is gone keeps its number");
        assert_eq!(of(&["/b"]), [1]);
        assert_eq!((only("/d"), only("/elsewhere")), (3, 1));
        fs::write(home.path().join(NAME), "nonsense").expect("there is room");
        let failed = super::of(home.path(), &[Path::new("/b")]).expect_err("nobody guesses");
        assert!(failed.to_string().contains("damaged"), "{failed}");
    }
}
