//! The server under many connections, compared with itself under few.

use std::error::Error;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use leasehold_load::{Load, Operation, crowd, latencies};
use leasehold_serve::account::Timing;

use super::{Bench, MIB, cpu, load, pairs};
use crate::Options;
use crate::figure::{Figure, Target};
use crate::instructions::count_calls;
use crate::servers::Server;

/// The number of busy connections.
const CROWD: u32 = 1000;
/// The number of calls that are counted but not made.
const ACCOUNTED: u64 = 1_000_000;

pub(super) fn measure(options: &Options, directory: &Path) -> Result<(), Box<dyn Error>> {
    let names =
        ["scale.two-connections", "fairness.1000", "isolation.getattr-p99", "accounting.getattr"];
    if !names.iter().any(|name| options.wants(name)) {
        return Ok(());
    }
    let ours = Bench::start(Server::ours(directory, "disk")?)?;
    if options.wants(names[0]) {
        let units = ("ratio of two connections to one", "calls/s");
        let pairs = two_connections(options, &ours)?;
        Figure::of(names[0].to_owned(), &pairs, Target::AtLeast(1.7), units, "disk").print();
    }
    if options.wants(names[1]) {
        let units = ("ratio of the connection with most calls to that with fewest", "calls");
        let pairs = fairness(options, &ours)?;
        Figure::of(names[1].to_owned(), &pairs, Target::AtMost(2.0), units, "disk").print();
    }
    if options.wants(names[2]) {
        let units = ("ratio beside large writes to alone", "us");
        let pairs = isolation(options, &ours)?;
        Figure::of(names[2].to_owned(), &pairs, Target::AtMost(3.0), units, "disk").print();
    }
    if options.wants(names[3]) {
        let units = ("share of a GETATTR's processor time", "us of processor a call");
        let pairs = accounting(options, &ours)?;
        Figure::of(names[3].to_owned(), &pairs, Target::AtMost(0.02), units, "disk").print();
    }
    Ok(ours.setting.clear()?)
}

/// Measures the accounting of a call with the clock for timed calls, and the whole cost of a
/// GETATTR.
fn accounting(options: &Options, ours: &Bench) -> Result<Vec<(f64, f64)>, Box<dyn Error>> {
    let load = load(options, Operation::Getattr);
    pairs(options, || {
        let start = Instant::now();
        count_calls(ACCOUNTED, || {
            let taken_up = Instant::now();
            let busy = taken_up.elapsed();
            Timing { waited: busy, busy, latency: busy }
        });
        let micros = start.elapsed().as_secs_f64() * 1e6 / ACCOUNTED as f64;
        Ok((micros, cpu(&ours.run(&load)?)))
    })
}

/// Measures an operation with a high cost at the server and a low cost at the client, because they
/// share the processors.
fn two_connections(options: &Options, ours: &Bench) -> Result<Vec<(f64, f64)>, Box<dyn Error>> {
    let one = load(options, Operation::Readdirplus);
    let two = Load { connections: 2, ..one };
    pairs(options, || {
        let single = ours.run(&one)?.rate();
        Ok((ours.run(&two)?.rate(), single))
    })
}

fn fairness(options: &Options, ours: &Bench) -> Result<Vec<(f64, f64)>, Box<dyn Error>> {
    // Several hundred calls of each.
    let time = Duration::from_secs_f64(options.seconds * 2.0);
    pairs(options, || {
        let counts = crowd(&ours.setting, Operation::Getattr, CROWD, time)?;
        let most = counts.iter().max().copied().unwrap_or(0);
        let fewest = counts.iter().min().copied().unwrap_or(0);
        Ok((most as f64, fewest as f64))
    })
}

/// Measures the 99th percentile of GETATTR, one at a time, during continuous writes by another
/// client and without them.
fn isolation(options: &Options, ours: &Bench) -> Result<Vec<(f64, f64)>, Box<dyn Error>> {
    let time = Duration::from_secs_f64(options.seconds);
    let percentile = || -> Result<f64, leasehold_load::Error> {
        let all = latencies(&ours.setting, Operation::Getattr, time)?;
        Ok(all.get(all.len() * 99 / 100).map_or(f64::NAN, |one| one.as_secs_f64() * 1e6))
    };
    let write = Operation::Write { bytes: MIB, stable: false };
    let writing = Load { time: time.mul_f64(1.5), ..load(options, write) };
    pairs(options, || {
        let alone = percentile()?;
        let beside = thread::scope(|scope| {
            let writer = scope.spawn(|| ours.run(&writing));
            let beside = percentile();
            writer.join().expect("it does not panic")?;
            beside
        })?;
        Ok((beside, alone))
    })
}
