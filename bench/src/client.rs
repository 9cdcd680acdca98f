//! The client's mount compared with sshfs, the kernel's client and the local disk.
//!
//! The kernel's client runs in a guest, an ordinary process with a slower processor and memory than
//! the machine. So it is compared with that guest's own disk, and our client with the machine's
//! disk: small files by the time that each adds to its own disk's time, streams by the share of its
//! own disk's speed.

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

/// The program that runs on each mount.
const WORK: &str = include_str!("client/work.py");
/// The round trip of a network within a building.
const ROUND_TRIP: Duration = Duration::from_millis(1);
/// The number of small files in one measurement, and the MiB of a stream.
const FILES: u32 = 500;
const MANY_FILES: u32 = 10_000;
const STREAM_MIB: u32 = 128;
/// The number of files in a work tree of git, and in a build.
const TREE: u32 = 100;
const SOURCES: u32 = 6;
/// The number of stat calls in a storm.
pub(crate) const STATS: u32 = 10_000;
/// The close-to-open caching of the kernel's client, and the caching of the lease program, which
/// needs no validation.
pub(crate) const CLOSE_TO_OPEN: &str = "cache=close-to-open";
pub(crate) const LEASE: &str = "cache=lease";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Measures all figures, and prints them as they complete.
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

/// Runs one piece of work; returns its duration in seconds.
pub(crate) fn work(what: &str, place: &Path, much: u32) -> Result<f64> {
    let mut python = Command::new("timeout");
    python.args(["300", "python3", "-c", WORK, what]).arg(place).arg(much.to_string());
    let done = python.stderr(Stdio::inherit()).output()?;
    seconds(&String::from_utf8_lossy(&done.stdout), what)
}

/// Returns the seconds in the last line for a piece of work.
fn seconds(text: &str, what: &str) -> Result<f64> {
    let seconds = told(text, what)?["seconds"].as_f64();
    seconds.ok_or_else(|| format!("{what} reports no duration").into())
}

/// Returns the value in the last line for a piece of work.
pub(crate) fn told(text: &str, what: &str) -> Result<Value> {
    let results = text.lines().filter_map(|line| line.trim().strip_prefix("RESULT "));
    let results = results.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut results = results.filter(|result| result["what"] == what);
    results.next_back().ok_or_else(|| format!("{what} failed: {text}").into())
}

/// Returns our mount over a link with a round trip time.
pub(crate) fn far(server: &Server, round_trip: Duration, options: &str) -> Result<Mount> {
    Ok(Mount::ours(Delay::start(server.nfs, round_trip)?.address, options)?)
}

/// Runs writers during restarts of the server, and counts the lost data.
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
    // A kill does not clear the kernel's cache of the files: data that was written again under a
    // new verifier shows that the kill came between a WRITE and its COMMIT.
    let (begun, mut restarts) = (Instant::now(), 0);
    while restarts < RESTARTS || mount.status()?["rewritten_bytes"] == 0 {
        if begun.elapsed() > Duration::from_mins(1) {
            return Err("no kill came between a WRITE and its COMMIT".into());
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

/// Rereads a file, on the mount and on the local disk.
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

/// Prints a figure without a target.
fn printed(name: &str, pairs: &[(f64, f64)], units: (&'static str, &'static str)) {
    let mut figure = Figure::of(name.to_owned(), pairs, Target::AtLeast(0.0), units, "disk");
    "printed".clone_into(&mut figure.target);
    figure.print();
}

/// Measures two things in turn; discards the first pair, to warm up.
pub(crate) fn pairs(
    options: &Options,
    mut measure: impl FnMut() -> Result<(f64, f64)>,
) -> Result<Vec<(f64, f64)>> {
    let mut samples: Vec<_> = (0..=options.pairs).map(|_| measure()).collect::<Result<_>>()?;
    Ok(samples.split_off(1))
}
