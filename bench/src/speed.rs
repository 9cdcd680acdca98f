//! The server compared with nfs-ganesha: one connection, 16 calls in flight or one, both over the
//! same file system. Each pair also measures the processor time for a call, the more stable figure.
//! Then the server compared with its system calls alone, and with itself.

mod alone;
mod atomic;
mod near;

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use leasehold_load::{Load, Operation, Sample, Setting, run};

use crate::Options;
use crate::disk::Disk;
use crate::figure::{Figure, Target};
use crate::seed;
use crate::servers::Server;

pub(crate) const IN_FLIGHT: u32 = 16;

struct Case {
    name: &'static str,
    operation: Operation,
    /// The durability option of our server, and the tier of the figure.
    durability: &'static str,
    rate: Option<f64>,
    cpu: Option<f64>,
    in_flight: u32,
}

const MIB: u32 = 1 << 20;

const CASES: &[Case] = &[
    case("null", Operation::Null, "disk", None, Some(0.08)),
    case("getattr", Operation::Getattr, "disk", Some(4.0), Some(0.10)),
    case("lookup", Operation::Lookup, "disk", Some(3.5), Some(0.13)),
    case("read4k", Operation::Read(4096), "disk", Some(3.0), Some(0.18)),
    case("read1m", Operation::Read(MIB), "disk", Some(1.5), Some(0.45)),
    case("write1m", Operation::Write { bytes: MIB, stable: false }, "disk", Some(1.3), Some(0.5)),
    case("sync4k", Operation::Write { bytes: 4096, stable: true }, "disk", Some(2.3), Some(0.2)),
    case("readdirplus", Operation::Readdirplus, "disk", None, Some(2.5)),
    case("create-remove.memory", Operation::CreateRemove, "memory", Some(2.0), Some(0.3)),
    // As many calls per second as the other server: the latency is not higher.
    Case { in_flight: 1, ..case("latency.getattr", Operation::Getattr, "disk", Some(1.0), None) },
];

const fn case(
    name: &'static str,
    operation: Operation,
    durability: &'static str,
    rate: Option<f64>,
    cpu: Option<f64>,
) -> Case {
    Case { name, operation, durability, rate, cpu, in_flight: IN_FLIGHT }
}

/// Measures all figures, and prints them as they complete.
pub(crate) fn measure(options: &Options) -> Result<(), Box<dyn Error>> {
    let disk = Disk::make()?;
    for case in CASES.iter().filter(|case| options.wants(case.name)) {
        beside_ganesha(options, case, disk.path())?;
    }
    near::measure(options, disk.path())?;
    alone::measure(options, disk.path())?;
    atomic::measure(options, disk.path())?;
    like_the_seed(options)
}

/// The size of a file in the paper.
const SEED_FILE_BYTES: u32 = 10_000_000;

/// Repeats measurements of the paper on version 3.
fn like_the_seed(options: &Options) -> Result<(), Box<dyn Error>> {
    let name = "seed.async-over-sync";
    if options.wants(name) {
        let samples = pairs(options, || {
            let v3 = seed::written(seed::V3, seed::Disk::ONE, SEED_FILE_BYTES)?;
            Ok((v3, seed::written(seed::V2, seed::Disk::ONE, SEED_FILE_BYTES)?))
        })?;
        let units = ("ratio of asynchronous WRITEs to WRITEs of version 2", "KB/s");
        Figure::of(name.to_owned(), &samples, Target::AtLeast(7.0), units, "disk").print();
    }
    let name = "seed.find-rpcs";
    if options.wants(name) {
        let [v2, v3, _] = seed::walks()?.map(|walk| walk.total() as f64);
        let units = ("calls of find(1) by version 3", "calls by versions 3 and 2");
        Figure::count(name.to_owned(), (v3, v2), 1133.0, units).print();
    }
    Ok(())
}

fn beside_ganesha(options: &Options, case: &Case, directory: &Path) -> Result<(), Box<dyn Error>> {
    let ours = Bench::start(Server::ours(directory, case.durability)?)?;
    let other = Bench::start(Server::ganesha(directory)?)?;
    let load = Load { in_flight: case.in_flight, ..load(options, case.operation) };
    let samples = pairs(options, || Ok((ours.run(&load)?, other.run(&load)?)))?;
    ours.setting.clear()?;
    let figure = |what: &str, target, units, value: fn(&Sample) -> f64| {
        let pairs: Vec<(f64, f64)> =
            samples.iter().map(|(ours, other)| (value(ours), value(other))).collect();
        let name = format!("{}.{what}", case.name);
        Figure::of(name, &pairs, target, units, case.durability).print();
    };
    if let Some(bound) = case.rate {
        let units = ("ratio to nfs-ganesha", "calls/s");
        figure("rate", Target::AtLeast(bound), units, Sample::rate);
    }
    if let Some(bound) = case.cpu {
        let units = ("ratio to nfs-ganesha", "us of processor a call");
        figure("cpu", Target::AtMost(bound), units, cpu);
    }
    Ok(())
}

/// Returns the processor time of the server for a call, in microseconds.
pub(crate) fn cpu(sample: &Sample) -> f64 {
    sample.cpu_per_call().as_secs_f64() * 1e6
}

/// Returns a load on one connection with calls in flight.
pub(crate) fn load(options: &Options, operation: Operation) -> Load {
    let time = Duration::from_secs_f64(options.seconds);
    Load::timed(operation, IN_FLIGHT, 1, time)
}

/// Measures two things in turn; discards the first of each, to warm up.
pub(crate) fn pairs<T>(
    options: &Options,
    mut measure: impl FnMut() -> Result<(T, T), Box<dyn Error>>,
) -> Result<Vec<(T, T)>, Box<dyn Error>> {
    let mut samples: Vec<_> = (0..=options.pairs).map(|_| measure()).collect::<Result<_, _>>()?;
    Ok(samples.split_off(1))
}

/// A server with the files for the load.
pub(crate) struct Bench {
    server: Server,
    pub(crate) setting: Setting,
}

impl Bench {
    pub(crate) fn start(server: Server) -> Result<Self, leasehold_load::Error> {
        let setting = Setting::make(server.nfs, server.mount, &server.export)?;
        Ok(Self { server, setting })
    }

    pub(crate) fn run(&self, load: &Load) -> Result<Sample, leasehold_load::Error> {
        run(&self.setting, load, self.server.process())
    }
}
