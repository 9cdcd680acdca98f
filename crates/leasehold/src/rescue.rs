//! `leasehold rescue`: written data that a server rejected after the writing program had continued.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use leasehold_shell::state;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::failure::{Failure, Kind};
use crate::output::say;

/// The names of the files with the rejected data of one file, in a directory of their own.
pub(crate) const DATA: &str = "data";
pub(crate) const FACTS: &str = "facts.json";

/// The number of bytes that are compared and written at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// Inspect written data that a server rejected, and write it to its file again
///
/// A mount sends written data to its server some time after a program wrote it. The server rejects
/// the data if its disk or a quota is full, or if the disk fails. It also rejects data of a mount
/// that lost its lease, for example because the machine was suspended, if another client has
/// changed the file meanwhile. The mount then logs an error, reports it to the next write, fsync or
/// close of the file, and stores the rejected data in the directory that `--directory` names.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Rescue {
    List(List),
    Show(Show),
    Apply(Apply),
}

/// The directory of rejected data.
#[derive(Debug, clap::Args)]
pub(crate) struct Place {
    /// The directory of rejected data [default: /var/lib/leasehold/rescue; for ordinary users, a
    /// directory in their home]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// List the stored data, one line for each file
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    place: Place,

    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
}

/// Show the file that stored data belongs to, and the differences to the file's current content
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The id, as shown by `leasehold rescue list`
    #[arg(value_name = "ID")]
    id: String,

    #[command(flatten)]
    place: Place,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Write stored data over the current content of its file, and delete the stored data
#[derive(Debug, clap::Args)]
pub(crate) struct Apply {
    /// The id, as shown by `leasehold rescue list`
    #[arg(value_name = "ID")]
    id: String,

    #[command(flatten)]
    place: Place,

    /// Write the data to this file instead, such as a copy of the original, and keep the stored
    /// data
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

/// The description of the stored data of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    /// The source of the mount.
    pub(crate) source: String,
    /// The mount point.
    pub(crate) mounted_on: PathBuf,
    /// The path of the file below the mount point; `None` if it has no known name or the name is
    /// not UTF-8.
    pub(crate) path: Option<String>,
    /// The time of the first rejection, in seconds since 1970.
    pub(crate) when_s: u64,
    /// The revision of the file that the writing program had seen; 0 if `error` contains the reason
    /// of the rejection.
    pub(crate) made_from: u64,
    /// The revision of the file when the server rejected the data; 0 if `error` contains the
    /// reason.
    pub(crate) found: u64,
    /// The error of the server; `None` if the server rejected the data because another client had
    /// changed the file. Descriptions by an earlier release have no such field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// The ranges of the stored data, in ascending order; adjacent ranges are merged.
    pub(crate) pieces: Vec<Piece>,
}

/// A range of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Piece {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl Piece {
    const fn end(self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}

impl Facts {
    /// Adds a piece.
    pub(crate) fn add(&mut self, piece: Piece) {
        let apart = |one: &Piece| one.end() < piece.offset || piece.end() < one.offset;
        let known = core::mem::take(&mut self.pieces).into_iter();
        let (mut pieces, joined): (Vec<Piece>, Vec<Piece>) = known.partition(apart);
        let offset = joined.iter().map(|one| one.offset).chain([piece.offset]).min();
        let end = joined.iter().map(|one| one.end()).chain([piece.end()]).max();
        let (offset, end) = (offset.unwrap_or_default(), end.unwrap_or_default());
        pieces.push(Piece { offset, bytes: end - offset });
        pieces.sort_by_key(|one| one.offset);
        self.pieces = pieces;
    }

    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }

    /// Returns the current path of the file, if its mount exists.
    fn target(&self) -> Option<PathBuf> {
        self.path.as_ref().map(|path| self.mounted_on.join(path))
    }

    fn name(&self) -> String {
        let unknown = || format!("a file without a name below {}", self.mounted_on.display());
        self.target().map_or_else(unknown, |path| path.display().to_string())
    }
}

/// Returns the directory in which mounts of this user store rejected data.
pub(crate) fn default_directory() -> Option<PathBuf> {
    state::default_directory().map(|directory| directory.join("rescue"))
}

impl Place {
    fn directory(&self) -> Result<PathBuf, Failure> {
        self.directory.clone().or_else(default_directory).ok_or_else(|| {
            Kind::State
                .because("there is no home directory: name the directory with --directory DIR")
        })
    }

    /// Returns the directory and the description of stored data.
    fn find(&self, id: &str) -> Result<(PathBuf, Facts), Failure> {
        let directory = self.directory()?.join(id);
        let is_name = Path::new(id).components().count() == 1 && !id.starts_with('.');
        let facts = read(&directory).ok().filter(|_| is_name).ok_or_else(|| {
            Kind::Options.because(format!("unknown id {id}: see `leasehold rescue list`"))
        })?;
        Ok((directory, facts))
    }
}

fn read(directory: &Path) -> io::Result<Facts> {
    Ok(serde_json::from_slice(&fs::read(directory.join(FACTS))?)?)
}

/// Runs a subcommand.
pub(crate) fn run(options: &Rescue) -> Result<(), Failure> {
    match options {
        Rescue::List(options) => list(options),
        Rescue::Show(options) => show(options),
        Rescue::Apply(options) => apply(options),
    }
}

fn list(options: &List) -> Result<(), Failure> {
    let directory = options.place.directory()?;
    let failed = |error: io::Error| {
        Kind::State.because(format!("cannot read {}: {error}", directory.display()))
    };
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries.collect::<Result<Vec<_>, _>>().map_err(failed)?,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(failed(error)),
    };
    let mut lines = Vec::new();
    for entry in entries {
        // The entry may be incomplete because a mount is creating it, or because another command is
        // removing it: skip the entry.
        let Ok(facts) = read(&entry.path()) else { continue };
        let id = entry.file_name().to_string_lossy().into_owned();
        lines.push(match options.json {
            true => json!({ "id": id, "bytes": facts.bytes(), "facts": facts }).to_string(),
            false => format!("{id}  {} bytes of {}", facts.bytes(), facts.name()),
        });
    }
    lines.sort_unstable();
    lines.into_iter().try_for_each(|line| say(line + "\n"))
}

/// Compares a piece with the current file.
fn compared(piece: Piece, data: &File, target: Option<&File>) -> io::Result<&'static str> {
    let Some(target) = target else { return Ok("the file cannot be read") };
    for (offset, length) in chunks(piece) {
        let (mut ours, mut theirs) = (vec![0; length], vec![0; length]);
        data.read_exact_at(&mut ours, offset)?;
        match target.read_exact_at(&mut theirs, offset) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Ok("the file is shorter");
            }
            read => read?,
        }
        if ours != theirs {
            return Ok("different");
        }
    }
    Ok("the same")
}

/// Divides a piece into parts of bounded length.
fn chunks(piece: Piece) -> impl Iterator<Item = (u64, usize)> {
    let mut at = piece.offset;
    std::iter::from_fn(move || {
        let length = (piece.end() - at).min(CHUNK_BYTES);
        let chunk = (at, usize::try_from(length).ok()?);
        at += length;
        (length > 0).then_some(chunk)
    })
}

fn show(options: &Show) -> Result<(), Failure> {
    let (directory, facts) = options.place.find(&options.id)?;
    let failed = |error: io::Error| Kind::Running.because(format!("cannot compare: {error}"));
    let data = File::open(directory.join(DATA)).map_err(failed)?;
    let target = facts.target().and_then(|path| File::open(path).ok());
    let mut pieces = Vec::new();
    for piece in &facts.pieces {
        pieces.push((*piece, compared(*piece, &data, target.as_ref()).map_err(failed)?));
    }
    if options.json {
        let row = |(piece, is): &(Piece, &str)| json!({ "offset": piece.offset, "bytes": piece.bytes, "now": is });
        let pieces: Vec<_> = pieces.iter().map(row).collect();
        let told = json!({ "id": options.id, "facts": facts, "compared": pieces });
        return say(format!("{told}\n"));
    }
    let Facts { source, made_from, found, error, .. } = &facts;
    let why = match error {
        Some(error) => format!("rejected: {error}"),
        None => format!("based on revision {made_from}, rejected at {found}"),
    };
    let mut page = format!(
        "{}\nof {source}; {why}\nstored in {}\n",
        facts.name(),
        directory.join(DATA).display()
    );
    for (piece, is) in pieces {
        page += &format!("{} bytes at {}: {is}\n", piece.bytes, piece.offset);
    }
    say(page)
}

fn apply(options: &Apply) -> Result<(), Failure> {
    let (directory, facts) = options.place.find(&options.id)?;
    let target = options.to.clone().or_else(|| facts.target()).ok_or_else(|| {
        Kind::Options.because("its file has no known name: give one with --to FILE")
    })?;
    let failed = |error: io::Error| {
        Kind::Running.because(format!("cannot write to {}: {error}", target.display()))
    };
    let data = File::open(directory.join(DATA)).map_err(failed)?;
    let mut open = OpenOptions::new();
    // Without `--to` the file must exist. If the server is not mounted, the mount point is an empty
    // local directory, and the data must not go into a new file there.
    let open = open.write(true).create(options.to.is_some()).truncate(false);
    let file = open.open(&target).map_err(failed)?;
    for (offset, length) in facts.pieces.iter().flat_map(|piece| chunks(*piece)) {
        let mut bytes = vec![0; length];
        data.read_exact_at(&mut bytes, offset).map_err(failed)?;
        file.write_all_at(&bytes, offset).map_err(failed)?;
    }
    file.sync_all().map_err(failed)?;
    if options.to.is_none() {
        fs::remove_dir_all(&directory).map_err(failed)?;
    }
    say(format!("{} bytes written to {}\n", facts.bytes(), target.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_an_earlier_release_are_parsed() {
        let old = r#"{"source":"host:/a","mounted_on":"/m","path":"f","when_s":1,"made_from":2,
            "found":3,"pieces":[{"offset":0,"bytes":4}]}"#;
        let facts: Facts = serde_json::from_str(old).expect("nothing is missing");
        assert_eq!((facts.error.as_deref(), facts.found, facts.bytes()), (None, 3, 4));
        // An earlier release ignores the field `error`, so descriptions must stay readable in both
        // directions.
        let new = Facts { error: Some("full".to_owned()), ..facts };
        let text = serde_json::to_string(&new).expect("all of it is text");
        assert_eq!(serde_json::from_str::<Facts>(&text).expect("the same").error, new.error);
    }

    #[test]
    fn adjacent_pieces_are_merged() {
        let mut facts = Facts {
            source: String::new(),
            mounted_on: PathBuf::new(),
            path: None,
            when_s: 0,
            made_from: 1,
            found: 2,
            error: None,
            pieces: Vec::new(),
        };
        for (offset, bytes) in [(100, 10), (0, 5), (110, 10), (3, 4), (50, 1)] {
            facts.add(Piece { offset, bytes });
        }
        let pieces: Vec<_> = facts.pieces.iter().map(|one| (one.offset, one.bytes)).collect();
        assert_eq!(pieces, [(0, 7), (50, 1), (100, 20)]);
        assert_eq!(facts.bytes(), 28);
    }
}
