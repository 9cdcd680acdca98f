//! The client's mount beside sshfs, the kernel's client and the local disk.
//!
//! The kernel's client runs in a guest, an ordinary process whose processor and memory are slower
//! than the machine's. So it is compared with that guest's own disk, and ours with the machine's:
//! for small files by the time that each adds to its own disk's, for streams by the share of its
//! own disk's speed that each has.

mod beside;
mod delay;
mod kernel;
mod mounts;

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use serde_json::Value;

pub(crate) use self::delay::{Delay, RoundTrip, delayed_datagrams};
pub(crate) use self::mounts::Mount;
use crate::Options;
use crate::disk::Disk;
use crate::figure::{Figure, Target};
use crate::servers::{Server, ours};

/// What runs on each mount.
const WORK: &str = include_str!("client/work.py");
/// A round trip of a network within a building.
const ROUND_TRIP: Duration = Duration::from_millis(1);
/// Small files in one measurement, and MiB of a stream.
const FILES: u32 = 500;
const MANY_FILES: u32 = 10_000;
const STREAM_MIB: u32 = 128;
/// Files in a work tree of git, and in a build.
const TREE: u32 = 100;
const SOURCES: u32 = 6;
/// What is asked of in a storm of stat.
pub(crate) const STATS: u32 = 10_000;
/// The caching that closes push with and opens ask with, as the kernel's client has it; and that of
/// the lease program, which needs no asking.
pub(crate) const CLOSE_TO_OPEN: &str = "cache=close-to-open";
pub(crate) const LEASE: &str = "cache=lease";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Measures all, and prints the figures as they come.
pub(crate) fn measure(options: &Options) -> Result<()> {
    let disk = Disk::make()?;
    let wants = |name: &str| options.wants(name);
    if wants("restart.lost-bytes") {
        restarts(disk.path())?;
    }
    if wants("cached-read.local") {
        cached_read(options, disk.path())?;
    }
    beside::measure(options, disk.path())?;
    kernel::measure(options, disk.path())
}

/// Runs one piece of work; how many seconds it took.
pub(crate) fn work(what: &str, place: &Path, much: u32) -> Result<f64> {
    let mut python = Command::new("timeout");
    python.args(["300", "python3", "-c", WORK, what]).arg(place).arg(much.to_string());
    let done = python.stderr(Stdio::inherit()).output()?;
    seconds(&String::from_utf8_lossy(&done.stdout), what)
}

/// The seconds of the last line about some work.
fn seconds(text: &str, what: &str) -> Result<f64> {
    let seconds = told(text, what)?["seconds"].as_f64();
    seconds.ok_or_else(|| format!("{what} does not say how long it took").into())
}

/// What the last line about some work tells.
pub(crate) fn told(text: &str, what: &str) -> Result<Value> {
    let results = text.lines().filter_map(|line| line.trim().strip_prefix("RESULT "));
    let results = results.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut results = results.filter(|result| result["what"] == what);
    results.next_back().ok_or_else(|| format!("{what} did not end well: {text}").into())
}

/// Our mount over a wire of a round trip.
pub(crate) fn far(server: &Server, round_trip: Duration, options: &str) -> Result<Mount> {
    Ok(Mount::ours(Delay::start(server.nfs, round_trip)?.address, options)?)
}

/// Writers through restarts of the server: what of theirs is not what the server has.
fn restarts(disk: &Path) -> Result<()> {
    const RESTARTS: u32 = 5;
    let (export, state) = (disk.join("restarts"), tempfile::tempdir()?);
    fs::create_dir_all(&export)?;
    let serve = || Server::serve(Command::new(ours()?), &export, "disk", state.path());
    let mut server = serve()?;
    let wire = Delay::start(server.nfs, Duration::ZERO)?;
    let mount = Mount::ours(wire.address, "")?;
    let end = state.path().join("end");
    let writers: Vec<_> = (0..3)
        .map(|number| {
            let mut python = Command::new("timeout");
            python.args(["300", "python3", "-c", WORK, "checked"]);
            python.arg(mount.path().join(number.to_string())).arg(&end);
            python.stdout(Stdio::piped()).spawn()
        })
        .collect::<io::Result<_>>()?;
    // A kill leaves what the kernel has of the files: that it came between a WRITE and its COMMIT is
    // known by what was written again under a new verifier.
    let (begun, mut restarts) = (Instant::now(), 0);
    while restarts < RESTARTS || mount.status()?["rewritten_bytes"] == 0 {
        if begun.elapsed() > Duration::from_mins(1) {
            return Err("no kill came between a WRITE and its COMMIT: nothing was tried".into());
        }
        thread::sleep(Duration::from_millis(700));
        drop(server);
        server = serve()?;
        wire.lead(server.nfs);
        restarts += 1;
    }
    fs::write(&end, "")?;
    let (mut lost, mut all) = (0.0, 0.0);
    for (number, writer) in writers.into_iter().enumerate() {
        let said: Value = serde_json::from_slice(&writer.wait_with_output()?.stdout)?;
        let bytes = said["bytes"].as_f64().unwrap_or(f64::NAN);
        let sum = Command::new("sha256sum").arg(export.join(number.to_string())).output()?;
        let sum = String::from_utf8_lossy(&sum.stdout).into_owned();
        let same = said["sum"].as_str().is_some_and(|said| sum.starts_with(said));
        lost += if same { 0.0 } else { bytes };
        all += bytes;
    }
    let units = ("bytes of files with a wrong sum, after 5 kills or more", "bytes written");
    Figure::count("restart.lost-bytes".to_owned(), (lost, all), 0.0, units).print();
    drop(server);
    Ok(())
}

/// A file that has been read is read again, here and on the local disk.
fn cached_read(options: &Options, disk: &Path) -> Result<()> {
    let server = Server::ours(disk, "disk")?;
    let mount = Mount::ours(server.nfs, "")?;
    let (here, there) = (mount.path().join("cached"), disk.join("cached"));
    work("write", &there, STREAM_MIB)?;
    let speed = |path: &Path| -> Result<f64> { Ok(f64::from(STREAM_MIB) / work("read", path, 0)?) };
    let pairs = pairs(options, || Ok((speed(&here)?, speed(&there)?)))?;
    printed("cached-read.local", &pairs, ("share of ext4's speed, at 128 KiB", "MiB/s"));
    Ok(())
}

/// A figure of which nothing is demanded.
fn printed(name: &str, pairs: &[(f64, f64)], units: (&'static str, &'static str)) {
    let mut figure = Figure::of(name.to_owned(), pairs, Target::AtLeast(0.0), units, "disk");
    "printed".clone_into(&mut figure.target);
    figure.print();
}

/// Measures two things in turn; the first of each is thrown away, to warm up.
pub(crate) fn pairs(
    options: &Options,
    mut measure: impl FnMut() -> Result<(f64, f64)>,
) -> Result<Vec<(f64, f64)>> {
    let mut samples: Vec<_> = (0..=options.pairs).map(|_| measure()).collect::<Result<_>>()?;
    Ok(samples.split_off(1))
}
