//! The delay until a change on one mount is visible on another.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use leasehold_session::{Credential, Options as Calling};
use leasehold_shell::client::{Runtime, Target as Place, block_on, mount};

use super::Result;
use crate::Options;
use crate::client::{LEASE, Mount, far};
use crate::figure::Figure;
use crate::servers::Server;

/// A round trip that is much longer than the computation during it.
const ROUND_TRIP: Duration = Duration::from_millis(50);
/// The largest permitted number of round trips, and milliseconds.
const ROUND_TRIPS_MAX: f64 = 5.0;
const MILLISECONDS_MAX: f64 = 100.0;
/// The size of unflushed data in a mount, below the size at which it sends a WRITE.
const DIRTY_BYTES: usize = 512 << 10;

/// Both mounts cache a file; one changes it, then the other reads it. Measures the time from the
/// start of the write to the end of the read.
pub(super) fn visible(options: &Options, disk: &Path) -> Result<()> {
    let server = Server::ours(disk, "disk")?;
    let [one, other] = [far(&server, ROUND_TRIP, LEASE)?, far(&server, ROUND_TRIP, LEASE)?];
    let mut worst: f64 = 0.0;
    for (number, how) in (0..=options.pairs).flat_map(|it| [(it, How::Open), (it, How::Closed)]) {
        let path = format!("visible{number}{how:?}");
        let (path, there) = (one.path().join(&path), other.path().join(&path));
        fs::write(&path, [0; 100])?;
        let kept = OpenOptions::new().read(true).write(true).open(&path)?;
        let reader = File::open(&there)?;
        let (mut seen, new) = ([0; 100], [1; 100]);
        for _ in 0..2 {
            reader.read_exact_at(&mut seen, 0)?;
            kept.read_exact_at(&mut seen, 0)?;
        }
        let start = Instant::now();
        kept.write_all_at(&new, 0)?;
        if matches!(how, How::Closed) {
            drop(kept);
        }
        while seen != new {
            reader.read_exact_at(&mut seen, 0)?;
        }
        worst = worst.max(start.elapsed().div_duration_f64(ROUND_TRIP));
    }
    let units = ("round trips of 50 ms, the worst", "round trips; at most");
    let name = "visible.round-trips".to_owned();
    Figure::count(name, (worst, ROUND_TRIPS_MAX), ROUND_TRIPS_MAX, units).print();
    Ok(())
}

/// The state of the file at the writer during the read: open or closed.
#[derive(Clone, Copy, Debug)]
enum How {
    Open,
    Closed,
}

/// A client of version 3 without leases reads unflushed data of a mount.
pub(super) fn read_of_dirty(options: &Options, disk: &Path) -> Result<()> {
    let server = Server::ours(disk, "disk")?;
    let writer = Mount::ours(server.nfs, LEASE)?;
    let runtime = Runtime::start()?;
    let who = Credential::system("bench", 0, 0, &[]);
    let calling = Calling::stream().impatient(Duration::from_secs(20));
    let place = Place { port: Some(server.nfs.port()), ..Place::new("127.0.0.1", b"/", calling) };
    let plain = block_on(mount(&runtime, &place, &who)).map_err(|error| error.to_string())?;
    let mut worst: f64 = 0.0;
    for number in 0..=options.pairs {
        let name = format!("dirty{number}");
        fs::write(writer.path().join(&name), vec![1; DIRTY_BYTES])?;
        // An open at the server recalls the lease.
        if fs::metadata(disk.join(&name))?.len() > 0 {
            return Err("the mount has sent data that it should delay".into());
        }
        let start = Instant::now();
        let found = block_on(plain.nfs.lookup(&who, &plain.root, name.as_bytes()))?.done();
        let file = found.map_err(|status| format!("{name}: {status:?}"))?.object;
        let read = block_on(plain.nfs.read(&who, &file, 0, 4096))?.done();
        let read = read.map_err(|status| format!("{name}: {status:?}"))?;
        worst = worst.max(start.elapsed().as_secs_f64() * 1e3);
        if *read.data != [1; 4096] {
            return Err(format!("{name}: not what the mount has written was read").into());
        }
    }
    let units = ("ms, the worst, of 512 KiB that was not pushed", "ms; at most");
    let name = "kernel-read-of-dirty.ms".to_owned();
    Figure::count(name, (worst, MILLISECONDS_MAX), MILLISECONDS_MAX, units).print();
    Ok(())
}
