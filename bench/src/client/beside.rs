//! The mount compared with sshfs and rclone's mount, whose servers sync nothing. Neither does our
//! server here, except where a figure states that its data is on the disk.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use super::delay::Delay;
use super::mounts::{Mount, Webdav, sftp};
use super::{
    CLOSE_TO_OPEN, FILES, LEASE, MANY_FILES, ROUND_TRIP, Result, SOURCES, STATS, STREAM_MIB, TREE,
    pairs, work,
};
use crate::Options;
use crate::figure::{Figure, Target};
use crate::servers::Server;

/// A mount, its folder at the server, and the durability of its data.
struct Side {
    mount: Mount,
    folder: std::path::PathBuf,
    _server: Option<Server>,
}

/// Returns our mount over a link with a round trip time.
fn ours(disk: &Path, durability: &str, options: &str) -> Result<Side> {
    let folder = disk.join("ours");
    fs::create_dir_all(&folder)?;
    let server = Server::ours(&folder, durability)?;
    let mount = Mount::ours(Delay::start(server.nfs, ROUND_TRIP)?.address, options)?;
    Ok(Side { mount, folder, _server: Some(server) })
}

/// Returns another mount, over such a link to its own server.
fn other(
    disk: &Path,
    name: &str,
    server: SocketAddr,
    start: fn(SocketAddr, &Path) -> std::io::Result<Mount>,
) -> Result<Side> {
    let folder = disk.join(name);
    let mount = start(Delay::start(server, ROUND_TRIP)?.address, &folder)?;
    Ok(Side { mount, folder, _server: None })
}

/// Measures all comparisons.
pub(super) fn measure(options: &Options, disk: &Path) -> Result<()> {
    if wants_any(options, "sshfs") || options.wants("client-cpu") {
        let folder = disk.join("sshfs");
        fs::create_dir_all(&folder)?;
        let sshfs = other(disk, "sshfs", sftp()?, Mount::sshfs)?;
        beside(options, disk, (&sshfs, "sshfs"))?;
    }
    if wants_any(options, "rclone") {
        let folder = disk.join("rclone");
        fs::create_dir_all(&folder)?;
        let webdav = Webdav::serve(&folder)?;
        let rclone = other(disk, "rclone", webdav.address, Mount::rclone)?;
        beside(options, disk, (&rclone, "rclone"))?;
    }
    Ok(())
}

const WORKS: [&str; 6] = ["smallfiles", "git-status", "build", "stat", "cold-read", "cached-read"];

fn wants_any(options: &Options, other: &str) -> bool {
    WORKS.iter().any(|work| options.wants(&format!("{work}.{other}")))
}

fn beside(options: &Options, disk: &Path, (theirs, name): (&Side, &str)) -> Result<()> {
    let units = (
        match name {
            "sshfs" => "ratio to sshfs at 1 ms",
            _ => "ratio to rclone's mount at 1 ms",
        },
        "files made, read and removed/s",
    );
    let small = |side: &Side| rate("small", FILES, side.mount.path());
    for (suffix, durability, caching) in [
        ("", "memory", LEASE),
        (".close-to-open", "memory", CLOSE_TO_OPEN),
        (".disk", "disk", LEASE),
    ] {
        let figure = format!("smallfiles.{name}{suffix}");
        if !options.wants(&figure) {
            continue;
        }
        let ours = ours(disk, durability, caching)?;
        let both = pairs(options, || Ok((small(&ours)?, small(theirs)?)))?;
        let target = if figure == "smallfiles.sshfs" { 3.0 } else { 0.0 };
        let tier = if durability == "disk" { "disk" } else { "memory" };
        let mut figure = Figure::of(figure, &both, Target::AtLeast(target), units, tier);
        if target == 0.0 {
            "printed".clone_into(&mut figure.target);
        }
        figure.print();
    }
    let ours = ours(disk, "memory", LEASE)?;
    let many = format!("smallfiles.{name}.10000");
    if name == "sshfs" && options.wants(&many) {
        // It takes minutes, and so runs once.
        let all = |side: &Side| rate("small", MANY_FILES, side.mount.path());
        let mut figure = Figure::beside(many, all(&ours)?, Some(all(theirs)?), units.1);
        figure.tier = "memory";
        figure.print();
    }
    let rates = [
        ("git-status", "git", TREE, 1.0, "runs of git status/s"),
        ("build", "build", SOURCES, 1.0, "builds/s"),
        ("stat", "stats", STATS, f64::from(STATS), "stats/s"),
    ];
    for (figure, what, much, each, absolute) in rates {
        let figure = format!("{figure}.{name}");
        if options.wants(&figure) {
            let rate =
                |side: &Side| -> Result<f64> { Ok(each / work(what, side.mount.path(), much)?) };
            let both = pairs(options, || Ok((rate(&ours)?, rate(theirs)?)))?;
            printed(figure, &both, (units.0, absolute));
        }
    }
    streams(options, (&ours, theirs, name), units.0)?;
    if name == "sshfs" && options.wants("client-cpu") {
        processor(&ours)?;
    }
    Ok(())
}

/// Reads a file that is only at the server, first without and then with a cache.
fn streams(
    options: &Options,
    (ours, theirs, name): (&Side, &Side, &str),
    unit: &'static str,
) -> Result<()> {
    let (cold, again) = (format!("cold-read.{name}"), format!("cached-read.{name}"));
    if !options.wants(&cold) && !options.wants(&again) {
        return Ok(());
    }
    let (mut number, mut cached) = (0, Vec::new());
    let mut read = |side: &Side| -> Result<(f64, f64)> {
        number += 1;
        let file = format!("cold-{number}");
        work("write", &side.folder.join(&file), STREAM_MIB)?;
        let place = side.mount.path().join(&file);
        if name == "rclone" && core::ptr::eq(side, theirs) {
            side.mount.look_again(&place)?;
        }
        let speed = || -> Result<f64> { Ok(f64::from(STREAM_MIB) / work("read", &place, 0)?) };
        let speeds = (speed()?, speed()?);
        fs::remove_file(side.folder.join(&file))?;
        Ok(speeds)
    };
    let first = pairs(options, || {
        let (ours, theirs) = (read(ours)?, read(theirs)?);
        cached.push((ours.1, theirs.1));
        Ok((ours.0, theirs.0))
    })?;
    printed(cold, &first, (unit, "MiB/s, read for the first time"));
    printed(again, &cached.split_off(1), (unit, "MiB/s, read again"));
    Ok(())
}

/// Measures the processor time of the mount's process for one piece of each kind of work.
fn processor(ours: &Side) -> Result<()> {
    let used = |what: &str, place: &Path, much: u32, each: f64| -> Result<f64> {
        let before = ours.mount.processor()?;
        work(what, place, much)?;
        Ok((ours.mount.processor()? - before).as_secs_f64() * 1e6 / each)
    };
    let path = ours.mount.path();
    let (stream, mib) = (path.join("stream"), f64::from(STREAM_MIB));
    let cold = "cold";
    work("write", &ours.folder.join(cold), STREAM_MIB)?;
    let figures = [
        ("small", "us a small file", used("small", path, FILES, f64::from(FILES))?),
        ("stat", "us a stat", used("stats", path, STATS, f64::from(STATS))?),
        ("write", "us a MiB", used("write", &stream, STREAM_MIB, mib)?),
        ("read", "us a MiB", used("read", &path.join(cold), 0, mib)?),
    ];
    for (what, unit, micros) in figures {
        let mut figure = Figure::beside(format!("client-cpu.{what}"), micros, None, unit);
        figure.tier = "memory";
        figure.print();
    }
    Ok(())
}

fn rate(what: &str, much: u32, place: &Path) -> Result<f64> {
    Ok(f64::from(much) / work(what, place, much)?)
}

/// Prints a figure without a target.
fn printed(name: String, pairs: &[(f64, f64)], units: (&'static str, &'static str)) {
    let mut figure = Figure::of(name, pairs, Target::AtLeast(0.0), units, "memory");
    "printed".clone_into(&mut figure.target);
    figure.print();
}
