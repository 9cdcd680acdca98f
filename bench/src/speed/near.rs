//! The server compared with programs that only make the system calls of an operation.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use leasehold_load::{Load, Operation, Sample, run};

use super::{Bench, IN_FLIGHT, MIB, cpu, load, pairs};
use crate::Options;
use crate::figure::{Figure, Target};
use crate::floor::{Floor, listed, made};
use crate::servers::{Server, on_the_first, pin};

/// The folder of the load generator's files in the export.
const FOLDER: &str = "leasehold-load";

pub(super) fn measure(options: &Options, directory: &Path) -> Result<(), Box<dyn Error>> {
    let write = Operation::Write { bytes: MIB, stable: false };
    let processor = ("ratio to the system calls alone", "us of processor a call");
    let latency = ("ratio to an echo with the system call", "us a call");
    beside_floor(options, directory, ("read1m.floor", 1.3), processor, |load| Beside {
        load: Load { operation: Operation::Read(MIB), ..load },
        value: cpu,
    })?;
    beside_floor(options, directory, ("write1m.floor", 1.4), processor, |load| Beside {
        load: Load { operation: write, ..load },
        value: cpu,
    })?;
    // Otherwise the scheduler places client and server at random, which matters more than any
    // server.
    on_the_first(|| {
        beside_floor(options, directory, ("latency.echo", 1.3), latency, |load| Beside {
            load: Load { operation: Operation::Getattr, in_flight: 1, ..load },
            value: |sample| 1e6 / sample.rate(),
        })
    })??;
    listing(options, directory)?;
    creating(options, directory)
}

struct Beside {
    load: Load,
    value: fn(&Sample) -> f64,
}

fn beside_floor(
    options: &Options,
    directory: &Path,
    (name, bound): (&str, f64),
    units: (&'static str, &'static str),
    what: impl Fn(Load) -> Beside,
) -> Result<(), Box<dyn Error>> {
    if !options.wants(name) {
        return Ok(());
    }
    let ours = Bench::start(Server::ours(directory, "disk")?)?;
    let floor = Floor::start(&directory.join(FOLDER))?;
    let at_floor = ours.setting.at(floor.address);
    let Beside { load, value } = what(load(options, Operation::Null));
    if load.in_flight == 1 {
        pin(ours.server.process(), 1)?;
        pin(floor.process(), 1)?;
    }
    let samples = pairs(options, || {
        let here = value(&ours.run(&load)?);
        Ok((here, value(&run(&at_floor, &load, floor.process())?)))
    })?;
    Figure::of(name.to_owned(), &samples, Target::AtMost(bound), units, "disk").print();
    Ok(ours.setting.clear()?)
}

/// Measures entries with attributes per second, compared with a local program.
fn listing(options: &Options, directory: &Path) -> Result<(), Box<dyn Error>> {
    let name = "readdirplus.local";
    if !options.wants(name) {
        return Ok(());
    }
    let ours = Bench::start(Server::ours(directory, "disk")?)?;
    let load = load(options, Operation::Readdirplus);
    let many = directory.join(FOLDER).join("many");
    let samples = pairs(options, || {
        let sample = ours.run(&load)?;
        let rate = sample.entries as f64 / sample.time.as_secs_f64();
        Ok((rate, listed(&many, load.time)?))
    })?;
    let units = ("ratio to local readdir + lstat", "entries/s");
    Figure::of(name.to_owned(), &samples, Target::AtLeast(0.65), units, "disk").print();
    Ok(ours.setting.clear()?)
}

/// Measures files created and removed per second, synced before the reply, compared with a local
/// program with as many threads as calls in flight.
fn creating(options: &Options, directory: &Path) -> Result<(), Box<dyn Error>> {
    let name = "create-remove.disk.local";
    if !options.wants(name) {
        return Ok(());
    }
    let ours = Bench::start(Server::ours(directory, "disk")?)?;
    let load = load(options, Operation::CreateRemove);
    let local = directory.join("local");
    std::fs::create_dir(&local)?;
    let time = Duration::from_secs_f64(options.seconds);
    let samples = pairs(options, || Ok((ours.run(&load)?.rate(), made(&local, IN_FLIGHT, time)?)))?;
    let units = ("ratio to 16 local threads that sync", "changes/s");
    Figure::of(name.to_owned(), &samples, Target::AtLeast(0.65), units, "disk").print();
    std::fs::remove_dir(&local)?;
    Ok(ours.setting.clear()?)
}
