//! Caches without stale data: the mount with leases compared with the mount without, the local disk
//! and memory.

mod andrew;
mod holders;
mod paper;
mod proofs;
mod sharing;

use std::error::Error;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Options;
use crate::client::{CLOSE_TO_OPEN, LEASE, Mount, STATS, far, pairs, work};
use crate::disk::{Disk, run};
use crate::figure::{Figure, Target};
use crate::servers::Server;

/// The size of a cached file, and of one read.
const CACHED_BYTES: usize = 64 << 20;
const READS: [(&str, usize, f64); 2] = [("4k", 4 << 10, 0.9), ("128k", 128 << 10, 0.8)];
/// The number of files in an archive, in directories of a hundred, of 1 KiB each.
const ARCHIVED: u32 = 10_000;
/// The round trips of a network within a room, and within a building.
const SHORT: Duration = Duration::from_micros(200);
const LONG: Duration = Duration::from_millis(1);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Measures all figures, and prints them as they complete.
pub(crate) fn measure(options: &Options) -> Result<()> {
    let wants = |name: &str| options.wants(name);
    if wants("holders") {
        holders::measure(options)?;
    }
    // The other figures need a disk of their own, and so an administrator.
    if options.only.starts_with("holders") {
        return Ok(());
    }
    let disk = Disk::make()?;
    if wants("mab") {
        andrew::measure(options, disk.path())?;
    }
    if wants("cached-read.tmpfs") {
        cached_read(options, disk.path())?;
    }
    if wants("cached-stat.nocache") {
        cached_stat(options, disk.path())?;
    }
    if wants("untar.close-to-open") {
        untar(options, disk.path())?;
    }
    if wants("visible.round-trips") {
        sharing::visible(options, disk.path())?;
    }
    if wants("kernel-read-of-dirty.ms") {
        sharing::read_of_dirty(options, disk.path())?;
    }
    paper::measure(options, disk.path())?;
    proofs::measure(options)
}

/// Returns options with fewer pairs, for work that takes about a minute: all figures must complete
/// within twenty minutes.
fn few(options: &Options) -> Options {
    Options { pairs: options.pairs.min(2), only: options.only.clone(), ..*options }
}

/// Rereads a cached file, on the mount and on a file system in memory.
///
/// The place of its pages in memory matters as much as the reader (a factor of two between two
/// copies of the same file), so each pair has its own files, written in the same way.
fn cached_read(options: &Options, disk: &Path) -> Result<()> {
    let server = Server::ours(disk, "disk")?;
    let here = Mount::ours(server.nfs, LEASE)?;
    let memory = tempfile::tempdir()?;
    run(Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(memory.path()))?;
    let pair = |size| -> Result<(f64, f64)> {
        for folder in [disk, memory.path()] {
            fs::write(folder.join("cached"), vec![7; CACHED_BYTES])?;
        }
        let both = (
            again(&here.path().join("cached"), size)?,
            again(&memory.path().join("cached"), size)?,
        );
        for folder in [here.path(), memory.path()] {
            fs::remove_file(folder.join("cached"))?;
        }
        Ok(both)
    };
    let measured = READS.iter().try_for_each(|(name, size, least)| -> Result<()> {
        let pairs = pairs(options, || pair(*size))?;
        let units = ("ratio to tmpfs", "MiB/s");
        let name = format!("cached-read.tmpfs.{name}");
        Figure::of(name, &pairs, Target::AtLeast(*least), units, "disk").print();
        Ok(())
    });
    run(Command::new("umount").arg("-l").arg(memory.path()))?;
    measured
}

/// Returns the MiB per second of a third read of a file: the second read only marks its pages as
/// used in the kernel.
fn again(path: &Path, size: usize) -> Result<f64> {
    speed(path, size)?;
    speed(path, size)?;
    speed(path, size)
}

/// Returns the MiB per second of a file that is read to its end.
fn speed(path: &Path, size: usize) -> Result<f64> {
    let (mut file, mut buffer) = (File::open(path)?, vec![0; size]);
    let start = Instant::now();
    while file.read(&mut buffer)? > 0 {}
    Ok(CACHED_BYTES as f64 / f64::from(1 << 20) / start.elapsed().as_secs_f64())
}

/// Repeats stat calls of cached files, and of uncached ones.
fn cached_stat(options: &Options, disk: &Path) -> Result<()> {
    let server = Server::ours(disk, "disk")?;
    let ours = far(&server, SHORT, LEASE)?;
    let other = far(&server, SHORT, "cache=none")?;
    let rate = |mount: &Mount| -> Result<f64> {
        Ok(f64::from(STATS) / work("stats", mount.path(), STATS)?)
    };
    let pairs = pairs(&few(options), || Ok((rate(&ours)?, rate(&other)?)))?;
    let (name, units) = ("cached-stat.nocache".to_owned(), ("ratio to cache=none", "stats/s"));
    Figure::of(name, &pairs, Target::AtLeast(20.0), units, "disk").print();
    Ok(())
}

/// Unpacks an archive with leases and without. The measurement does not wait for delayed data, as a
/// user would not wait either; all data is at the server before the next one begins.
fn untar(options: &Options, disk: &Path) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let archive = scratch.path().join("archive.tar");
    archive_of(scratch.path(), &archive)?;
    let server = Server::ours(disk, "disk")?;
    let mut number = 0;
    let mut rate = |caching: &str| -> Result<f64> {
        number += 1;
        let folder = format!("untar{number}");
        let mount = far(&server, LONG, caching)?;
        let place = mount.path().join(&folder);
        fs::create_dir(&place)?;
        let start = Instant::now();
        run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&place))?;
        let rate = f64::from(ARCHIVED) / start.elapsed().as_secs_f64();
        mount.end()?;
        let mut all = Command::new("find");
        all.arg(disk.join(&folder)).args(["-type", "f", "-size", "1024c"]);
        let found = all.output()?.stdout.split(|byte| *byte == b'\n').count() - 1;
        if found != usize::try_from(ARCHIVED)? {
            return Err(format!("{caching}: {found} files came to the server").into());
        }
        fs::remove_dir_all(disk.join(&folder))?;
        Ok(rate)
    };
    // Each has its own mount and folder, so that a warm-up is not necessary.
    let pair = |_| Ok((rate(LEASE)?, rate(CLOSE_TO_OPEN)?));
    let pairs: Vec<_> = (0..few(options).pairs).map(pair).collect::<Result<_>>()?;
    let units = ("ratio to close-to-open at 1 ms", "files/s");
    let name = "untar.close-to-open".to_owned();
    Figure::of(name, &pairs, Target::AtLeast(3.0), units, "disk").print();
    Ok(())
}

fn archive_of(scratch: &Path, archive: &Path) -> Result<()> {
    let tree = scratch.join("tree");
    for number in 0..ARCHIVED {
        let folder = tree.join((number / 100).to_string());
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(number.to_string()), [b'x'; 1024])?;
    }
    run(Command::new("tar").arg("-cf").arg(archive).arg("-C").arg(&tree).arg("."))?;
    Ok(())
}
