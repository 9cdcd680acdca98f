//! The server against nfs-ganesha: one connection, 16 calls in flight, both over the same file
//! system. Of each pair the processor time for a call is measured too, the steadier figure.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use leasehold_load::{Load, Operation, Sample, Setting, run};

use crate::Options;
use crate::disk::Disk;
use crate::figure::{Figure, Target};
use crate::servers::Server;

const IN_FLIGHT: u32 = 16;

struct Case {
    name: &'static str,
    operation: Operation,
    /// The option of our server, and the tier of the figure.
    durability: &'static str,
    rate: Option<f64>,
    cpu: Option<f64>,
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
];

const fn case(
    name: &'static str,
    operation: Operation,
    durability: &'static str,
    rate: Option<f64>,
    cpu: Option<f64>,
) -> Case {
    Case { name, operation, durability, rate, cpu }
}

/// Measures every case, and prints its figures as they come.
pub(crate) fn measure(options: &Options) -> Result<(), Box<dyn Error>> {
    let disk = Disk::make()?;
    for case in CASES.iter().filter(|case| case.name.starts_with(&options.only)) {
        let samples = pairs(options, case, disk.path())?;
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
            figure("cpu", Target::AtMost(bound), units, |sample| {
                sample.cpu_per_call().as_secs_f64() * 1e6
            });
        }
    }
    Ok(())
}

/// Measures ours and the other in turn; the first of each is thrown away, to warm up.
fn pairs(
    options: &Options,
    case: &Case,
    directory: &Path,
) -> Result<Vec<(Sample, Sample)>, Box<dyn Error>> {
    let ours = Bench::start(Server::ours(directory, case.durability)?)?;
    let other = Bench::start(Server::ganesha(directory)?)?;
    let load = Load {
        operation: case.operation,
        in_flight: IN_FLIGHT,
        connections: 1,
        time: Duration::from_secs_f64(options.seconds),
    };
    let mut samples = Vec::new();
    for _ in 0..=options.pairs {
        samples.push((ours.run(&load)?, other.run(&load)?));
    }
    ours.setting.clear()?;
    Ok(samples.split_off(1))
}

/// A server with what load needs to find there.
struct Bench {
    server: Server,
    setting: Setting,
}

impl Bench {
    fn start(server: Server) -> Result<Self, leasehold_load::Error> {
        let setting = Setting::make(server.nfs, server.mount, &server.export)?;
        Ok(Self { server, setting })
    }

    fn run(&self, load: &Load) -> Result<Sample, leasehold_load::Error> {
        run(&self.setting, load, self.server.process())
    }
}
