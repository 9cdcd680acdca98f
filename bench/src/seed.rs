//! The measurements of "NFS Version 3: Design and Implementation" (Pawlowski and others, 1994),
//! repeated: our server over a disk with the sync times of the paper.

mod disk;
mod paper;
mod server;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use leasehold_load::{
    BASIC_FILE_BYTES, Basic, Sequence, TIMES, Version, Walk, Walker, basic, sequence, walk,
};

pub(crate) use disk::Disk;
pub(crate) use paper::measure;
use server::{Log, Served};

/// The size of a WRITE of version 2.
const PIECE_BYTES: u32 = 8192;

/// The number of a client's write-behind threads ("biods").
const WRITERS: u32 = 7;

/// The number of files and directories of the paper's find(1).
const FILES: u32 = 9612;
const DIRECTORIES: u32 = 155;
const DEPTH: u32 = 7;

/// The way of writing a file to the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    name: &'static str,
    /// Concurrent WRITEs; concurrent WRITEs of version 2 share syncs.
    in_flight: u32,
    stable: bool,
    log: Log,
}

/// Each WRITE is on the disk before the next is sent, which prevents write gathering.
pub(crate) const V2: Way = Way { name: "v2", in_flight: 1, stable: true, log: Log::Without };
/// Concurrent WRITEs share a sync.
const V2_GATHERED: Way =
    Way { name: "v2, gathering", in_flight: WRITERS, stable: true, log: Log::Without };
/// The same with a write-ahead log in memory, which represents the battery-backed one.
const V2_LOG: Way = Way {
    name: "v2, gathering and stable log",
    in_flight: WRITERS,
    stable: true,
    log: Log::InMemory,
};
/// One COMMIT at the end.
pub(crate) const V3: Way = Way { name: "v3", in_flight: WRITERS, stable: false, log: Log::Without };
/// The same with a write-ahead log.
const V3_LOG: Way =
    Way { name: "v3, stable log", in_flight: WRITERS, stable: false, log: Log::InMemory };

/// Returns the kilobytes per second for a file of `bytes` bytes on a disk, by the clock of the
/// disk.
pub(crate) fn written(way: Way, disk: Disk, bytes: u32) -> Result<f64, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let served = Served::start(folder.path(), disk, way.log)?;
    let Way { in_flight, stable, .. } = way;
    let how = Sequence { bytes, piece_bytes: PIECE_BYTES, in_flight, stable };
    let time = sequence(served.address, served.root, "file", how)?;
    Ok(f64::from(bytes) / 1e3 / time.as_secs_f64() / f64::from(disk.haste))
}

/// Runs the basic tests of the Connectathon suite with a version, over one disk; times by its
/// clock.
fn basics(version: Version, log: Log) -> Result<Vec<Basic>, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let served = Served::start(folder.path(), Disk::ONE, log)?;
    let stable = version == Version::Two;
    let how =
        Sequence { bytes: BASIC_FILE_BYTES, piece_bytes: PIECE_BYTES, in_flight: WRITERS, stable };
    let mut writing = Duration::ZERO;
    for number in 0..TIMES {
        writing += sequence(served.address, served.root, &number.to_string(), how)?;
    }
    let mut done = basic(served.address, served.root, version)?;
    let pieces = u64::from(BASIC_FILE_BYTES / PIECE_BYTES);
    let times = u64::from(TIMES);
    let mut calls = BTreeMap::from([("CREATE", times), ("WRITE", times * pieces)]);
    if !stable {
        calls.insert("COMMIT", times);
    }
    let written = Basic { name: WRITTEN, time: writing, calls };
    let place = done.iter().position(|test| test.name > WRITTEN).unwrap_or(done.len());
    done.insert(place, written);
    for test in &mut done {
        // A read-only test does not use the disk.
        let syncs = !["3", "5b", "9"].iter().any(|number| test.name.starts_with(number));
        test.time *= if syncs { Disk::ONE.haste } else { 1 };
    }
    Ok(done)
}

/// The test whose calls [`sequence`] makes.
const WRITTEN: &str = "5a: a file of 1 MB written 10 times";

/// Walks a tree like the paper's in each way.
pub(crate) fn walks() -> Result<[Walk; 3], Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    make_tree(folder.path())?;
    let served = Served::start(folder.path(), Disk::NONE, Log::Without)?;
    let by = |walker| -> Result<Walk, Box<dyn Error>> {
        let seen = walk(served.address, served.root, walker)?;
        let is_whole = (seen.files, seen.directories) == (FILES.into(), DIRECTORIES.into());
        if is_whole { Ok(seen) } else { Err(format!("{walker:?} saw {seen:?}").into()) }
    };
    Ok([by(Walker::Version2)?, by(Walker::Version3)?, by(Walker::Version3Plain)?])
}

/// Creates files, evenly distributed over directories up to seven levels deep.
fn make_tree(root: &Path) -> io::Result<()> {
    let mut directories = vec![(root.to_path_buf(), 1)];
    let mut parent = 0;
    while directories.len() < DIRECTORIES as usize {
        let (above, depth) = directories[parent].clone();
        parent += 1;
        if depth == DEPTH {
            continue;
        }
        for number in 0..3 {
            if directories.len() < DIRECTORIES as usize {
                let path = above.join(format!("directory-{number}"));
                fs::create_dir(&path)?;
                directories.push((path, depth + 1));
            }
        }
    }
    for number in 0..FILES {
        let (directory, _) = &directories[(number % DIRECTORIES) as usize];
        fs::write(directory.join(format!("file-{number}")), b"")?;
    }
    Ok(())
}
