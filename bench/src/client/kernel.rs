//! The mount compared with the kernel's client, which runs in a guest.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold_system_tests::{Guest, Link, Mount as GuestMount, Version};

use super::delay::Delay;
use super::mounts::Mount;
use super::{
    CLOSE_TO_OPEN, FILES, LEASE, ROUND_TRIP, Result, SOURCES, STATS, STREAM_MIB, TREE, WORK,
    seconds, work,
};
use crate::Options;
use crate::figure::{Figure, Target};
use crate::servers::Server;

/// The time limit of a guest.
const GUEST_LIMIT: Duration = Duration::from_mins(8);
/// Additional round trips in microseconds, and the number of small files there.
const ROUND_TRIPS: [u64; 4] = [200, 10_000, 50_000, 200_000];
const FAR_FILES: u32 = 20;

/// A piece of work: its figure, its name in `work.py`, and its size.
type Piece = (&'static str, &'static str, u32);

/// Work over a link with a round trip, compared by the time that each mount adds to the disk's.
const ADDED: [Piece; 3] =
    [("smallfiles", "small", FILES), ("git-status", "git", TREE), ("build", "build", SOURCES)];
/// Work compared by the share of the disk's speed, over such a link.
const STAT: Piece = ("stat", "stats", STATS);
/// Work over a short link.
const STREAM: Piece = ("stream", "write", STREAM_MIB);

/// Measures all comparisons.
pub(super) fn measure(options: &Options, disk: &Path) -> Result<()> {
    let server = Server::ours(disk, "disk")?;
    let link = Arc::new(Link::new());
    let wants = |piece: Piece| options.wants(&format!("{}.kernel", piece.0));
    let far: Vec<Piece> = ADDED.into_iter().chain([STAT]).filter(|piece| wants(*piece)).collect();
    if !far.is_empty() {
        let wire = Delay::start(server.nfs, ROUND_TRIP)?;
        let both = both(options, (&link, disk), &wire, &far, CLOSE_TO_OPEN)?;
        for (piece, pairs) in far.iter().zip(&both) {
            tell(*piece, pairs);
        }
    }
    if wants(STREAM) {
        let wire = Delay::start(server.nfs, Duration::ZERO)?;
        let both = both(options, (&link, disk), &wire, &[STREAM], CLOSE_TO_OPEN)?;
        both.iter().for_each(|pairs| tell(STREAM, pairs));
    }
    for micros in ROUND_TRIPS {
        let round_trip = Duration::from_micros(micros);
        let name = format!("smallfiles.kernel.at-{}ms", round_trip.as_secs_f64() * 1e3);
        if options.wants(&name) {
            at(&name, round_trip, (&server, &link, disk))?;
        }
    }
    Ok(())
}

/// Seconds on a mount and on its own disk.
type Times = (f64, f64);

/// Measures our mount and the kernel's client in turn: returns the pairs for each piece of work.
fn both(
    options: &Options,
    (link, disk): (&Arc<Link>, &Path),
    wire: &Delay,
    pieces: &[Piece],
    caching: &str,
) -> Result<Vec<Vec<(Times, Times)>>> {
    let mut all = vec![Vec::new(); pieces.len()];
    for _ in 0..options.pairs {
        let kernel = guest(link, wire.address.port(), pieces)?;
        let mount = Mount::ours(wire.address, caching)?;
        for ((piece, kernel), pairs) in pieces.iter().zip(kernel).zip(&mut all) {
            pairs.push((here(&mount, disk, *piece)?, kernel));
        }
    }
    Ok(all)
}

/// Measures a piece of work on our mount and on the disk.
fn here(mount: &Mount, disk: &Path, (_, what, much): Piece) -> Result<Times> {
    let place = if what == "write" { "stream" } else { "" };
    Ok((work(what, &mount.path().join(place), much)?, work(what, &disk.join(place), much)?))
}

/// Returns the reciprocal of the seconds that a mount adds to its own disk's.
fn added((mount, disk): Times) -> f64 {
    // The difference may consist of noise alone.
    1.0 / (mount - disk).max(1e-3)
}

fn tell(piece: Piece, pairs: &[(Times, Times)]) {
    let name = format!("{}.kernel", piece.0);
    let shares = [STAT.0, STREAM.0].contains(&piece.0);
    let value = |times: Times| if shares { times.1 / times.0 } else { added(times) };
    let pairs: Vec<(f64, f64)> =
        pairs.iter().map(|(ours, kernel)| (value(*ours), value(*kernel))).collect();
    let units = match piece.0 {
        "stream" => ("ratio to the kernel's client", "share of the local disk's speed"),
        "stat" => ("ratio to the kernel's client at 1 ms", "share of the local disk's speed"),
        _ => ("ratio to the kernel's client at 1 ms", "1/s that are added to the local disk's"),
    };
    let target = match piece.0 {
        "smallfiles" => Some(1.0),
        "stream" => Some(0.8),
        _ => None,
    };
    let least = Target::AtLeast(target.unwrap_or_default());
    let mut figure = Figure::of(name, &pairs, least, units, "disk");
    if target.is_none() {
        "printed".clone_into(&mut figure.target);
    }
    figure.print();
}

/// Measures small files at another round trip, once: our mount with and without leases, and the
/// kernel's.
fn at(
    name: &str,
    round_trip: Duration,
    (server, link, disk): (&Server, &Arc<Link>, &Path),
) -> Result<()> {
    let wire = Delay::start(server.nfs, round_trip)?;
    let piece = ("smallfiles", "small", FAR_FILES);
    let kernel = guest(link, wire.address.port(), &[piece])?[0];
    let files = f64::from(FAR_FILES);
    for (suffix, caching) in [("", CLOSE_TO_OPEN), (".lease", LEASE)] {
        let mount = Mount::ours(wire.address, caching)?;
        let ours = here(&mount, disk, piece)?;
        let theirs = Some(files * added(kernel));
        let unit = "files made, read and removed/s";
        Figure::beside(format!("{name}{suffix}"), files * added(ours), theirs, unit).print();
    }
    Ok(())
}

/// Measures work in a guest, on the kernel's mount and on the guest's own disk.
fn guest(link: &Arc<Link>, port: u16, pieces: &[Piece]) -> Result<Vec<Times>> {
    let mount = GuestMount { port: Some(port), export: "/".to_owned(), version: Version::V3 };
    let mut case = format!("cat >/tmp/work.py <<'END'\n{WORK}\nEND\nmkdir -p /tmp/disk\n");
    for (_, what, much) in pieces {
        let place = if *what == "write" { "/stream" } else { "" };
        let run = |folder: &str| format!("python3 /tmp/work.py {what} {folder}{place} {much}");
        write!(case, "echo LOCAL\n{}\necho MOUNT\n{}\n", run("/tmp/disk"), run("\"$PWD\""))?;
    }
    let ended = Guest::boot(link, &mount, &case, GUEST_LIMIT).wait(|_| {});
    let mut parts = ended.log.split("LOCAL").skip(1);
    let times = pieces.iter().map(|(_, what, _)| {
        let part = parts.next().ok_or_else(|| ended.log.clone())?;
        let (local, mounted) = part.split_once("MOUNT").ok_or_else(|| ended.log.clone())?;
        Ok((seconds(mounted, what)?, seconds(local, what)?))
    });
    times.collect()
}
