//! `leasehold rescue`: written data that a server refused after the program had gone on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use leasehold_shell::state;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::failure::{Failure, Kind};
use crate::say::say;

/// The names of what is kept of one file, in a directory of its own.
pub(crate) const DATA: &str = "data";
pub(crate) const FACTS: &str = "facts.json";

/// So many bytes are compared and written at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// Look at written data that a server refused, and write it after all
///
/// A mount sends written data to its server later. The server refuses data where its disk or a
/// quota is full, or where the disk fails. It refuses data of a mount that lost its lease, as when
/// the machine stood still, if another client has changed the file meanwhile. The mount then logs
/// an error, has the next write, fsync or close of the file fail, and keeps the data here.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Rescue {
    List(List),
    Show(Show),
    Apply(Apply),
}

/// Where it is kept.
#[derive(Debug, clap::Args)]
pub(crate) struct Place {
    /// Where mounts keep it [default: /var/lib/leasehold/rescue; of ordinary users in their home]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// List what is kept, one file a line
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    #[command(flatten)]
    place: Place,

    /// Say it as JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Say where data belongs, and whether the file is different there now
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// Which, as `leasehold rescue list` says
    #[arg(value_name = "ID")]
    id: String,

    #[command(flatten)]
    place: Place,

    /// Say it as JSON
    #[arg(long)]
    json: bool,
}

/// Write data to where it belongs, over what is there by now, and keep it no longer
#[derive(Debug, clap::Args)]
pub(crate) struct Apply {
    /// Which, as `leasehold rescue list` says
    #[arg(value_name = "ID")]
    id: String,

    #[command(flatten)]
    place: Place,

    /// Write it to this file, such as a copy, and keep it here too
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

/// What is known of data that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    /// What was mounted.
    pub(crate) source: String,
    /// Where.
    pub(crate) mounted_on: PathBuf,
    /// The file, below that; none where it had no name that is known, or one that is no text.
    pub(crate) path: Option<String>,
    /// When the first of it was refused, in seconds since 1970.
    pub(crate) when_s: u64,
    /// The revision that the data was made from; 0 where `error` gives the reason of the refusal.
    pub(crate) made_from: u64,
    /// The revision that the file had then; 0 likewise.
    pub(crate) found: u64,
    /// The error that the server refused the data with; none where the data came too late. Files of
    /// an earlier release have no such field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// In order, none touching another.
    pub(crate) pieces: Vec<Piece>,
}

/// Bytes of the file.
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
    /// One piece more.
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

    /// Where the file is, while it is mounted.
    fn target(&self) -> Option<PathBuf> {
        self.path.as_ref().map(|path| self.mounted_on.join(path))
    }

    fn name(&self) -> String {
        let unknown = || format!("a file without a name below {}", self.mounted_on.display());
        self.target().map_or_else(unknown, |path| path.display().to_string())
    }
}

/// Where mounts of this user keep what was refused.
pub(crate) fn default_directory() -> Option<PathBuf> {
    state::default_directory().map(|directory| directory.join("rescue"))
}

impl Place {
    fn directory(&self) -> Result<PathBuf, Failure> {
        self.directory.clone().or_else(default_directory).ok_or_else(|| {
            Kind::State.because("there is no home directory with it: name it with --directory DIR")
        })
    }

    /// One that is kept: its directory and what is known of it.
    fn find(&self, id: &str) -> Result<(PathBuf, Facts), Failure> {
        let directory = self.directory()?.join(id);
        let is_name = Path::new(id).components().count() == 1 && !id.starts_with('.');
        let facts = read(&directory).ok().filter(|_| is_name).ok_or_else(|| {
            Kind::Options.because(format!("there is no {id}: `leasehold rescue list` has all"))
        })?;
        Ok((directory, facts))
    }
}

fn read(directory: &Path) -> io::Result<Facts> {
    Ok(serde_json::from_slice(&fs::read(directory.join(FACTS))?)?)
}

/// Does what is asked.
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
        // Another mount may just be making it, or another command removing it.
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

/// How a piece is to the file as it is now.
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

/// The parts of a piece: where each is, and how long.
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
        Some(error) => format!("refused: {error}"),
        None => format!("made from revision {made_from}, refused at {found}"),
    };
    let mut page = format!(
        "{}\nof {source}; {why}\nkept in {}\n",
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
        Kind::Options.because("it had no name that is known: say with --to FILE where it belongs")
    })?;
    let failed = |error: io::Error| {
        Kind::Running.because(format!("cannot write to {}: {error}", target.display()))
    };
    let data = File::open(directory.join(DATA)).map_err(failed)?;
    let mut open = OpenOptions::new();
    // The file itself must be there: an empty mount point would take a new one.
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
    fn facts_of_an_earlier_release_are_read() {
        let old = r#"{"source":"host:/a","mounted_on":"/m","path":"f","when_s":1,"made_from":2,
            "found":3,"pieces":[{"offset":0,"bytes":4}]}"#;
        let facts: Facts = serde_json::from_str(old).expect("nothing is missing");
        assert_eq!((facts.error.as_deref(), facts.found, facts.bytes()), (None, 3, 4));
        // An earlier release ignores the error.
        let new = Facts { error: Some("full".to_owned()), ..facts };
        let text = serde_json::to_string(&new).expect("all of it is text");
        assert_eq!(serde_json::from_str::<Facts>(&text).expect("the same").error, new.error);
    }

    #[test]
    fn pieces_that_touch_are_one() {
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
