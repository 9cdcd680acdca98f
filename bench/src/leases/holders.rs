//! The cost of lease holders for clients without leases: GETATTR and READ while a thousand clients
//! hold leases on other files, at one event loop and at two.
//!
//! With another server program in the environment variable [`OTHER`], such as an earlier version,
//! both programs are measured in turn. Otherwise the server without holders is the counterpart.

use std::path::Path;
use std::process::Command;
use std::thread;

use leasehold_load::{Holders, Load, Operation, Sample, Setting, processor_time, run};

use super::Result;
use crate::Options;
use crate::figure::{Figure, Target};
use crate::servers::{Server, ours};

/// The environment variable with the path of another server program.
const OTHER: &str = "LEASEHOLD_BENCH_OTHER";

/// The number of clients with leases.
const HOLDERS: u32 = 1000;

const OPERATIONS: [(&str, Operation); 2] =
    [("getattr", Operation::Getattr), ("read4k", Operation::Read(4096))];

/// The number of files under load, each with a connection. Calls on one file use one mutex.
const FILES: u32 = 4;
const IN_FLIGHT: u32 = 16;

/// A server with its files, and with lease holders if it has any.
struct Bench {
    server: Server,
    settings: Vec<Setting>,
    holders: Option<Holders>,
}

impl Bench {
    fn start(program: &Path, loops: u32, folder: &Path, holders: u32) -> Result<Self> {
        let (served, state) = (folder.join("served"), folder.join("state"));
        for folder in [&served, &state] {
            std::fs::create_dir_all(folder)?;
        }
        for number in 0..FILES {
            std::fs::create_dir_all(served.join(number.to_string()))?;
        }
        let mut command = Command::new(program);
        command.arg("serve").arg(&served).args(["--threads", &loops.to_string()]);
        let server = Server::started(command, "memory", &state)?;
        let make = |number| Setting::make(server.nfs, server.mount, &format!("/{number}"));
        let settings = (0..FILES).map(make).collect::<core::result::Result<Vec<_>, _>>()?;
        let holders =
            (holders > 0).then(|| Holders::register(&settings[0], holders)).transpose()?;
        Ok(Self { server, settings, holders })
    }

    /// Returns the calls per second, and the processor time of the server for each call in
    /// microseconds.
    fn run(&mut self, operation: Operation, options: &Options) -> Result<(f64, f64)> {
        // The terms last longer than one measurement.
        self.holders.as_mut().map_or(Ok(()), Holders::renew)?;
        let time = std::time::Duration::from_secs_f64(options.seconds);
        let load = Load::timed(operation, IN_FLIGHT, 1, time);
        let process = self.server.process();
        let before = processor_time(process)?;
        let loads: Vec<_> = self
            .settings
            .iter()
            .map(|setting| {
                let setting = *setting;
                thread::spawn(move || run(&setting, &load, process))
            })
            .collect();
        let mut samples: Vec<Sample> = Vec::new();
        for load in loads {
            samples.push(load.join().map_err(|_| "a load panicked")??);
        }
        let used = processor_time(process)?.saturating_sub(before);
        let calls: u64 = samples.iter().map(|sample| sample.calls).sum();
        let rate = samples.iter().map(Sample::rate).sum();
        Ok((rate, used.as_secs_f64() * 1e6 / calls as f64))
    }
}

/// Measures the figures `holders.LOOPS.OPERATION.rate` and `.cpu`.
pub(super) fn measure(options: &Options) -> Result<()> {
    let other = std::env::var_os(OTHER);
    for loops in 1..=2 {
        let folders = [tempfile::tempdir()?, tempfile::tempdir()?];
        let mut with = Bench::start(&ours()?, loops, folders[0].path(), HOLDERS)?;
        let mut beside = match &other {
            Some(program) => Bench::start(program.as_ref(), loops, folders[1].path(), HOLDERS)?,
            None => Bench::start(&ours()?, loops, folders[1].path(), 0)?,
        };
        for (name, operation) in OPERATIONS {
            let (mut rates, mut costs) = (Vec::new(), Vec::new());
            for _ in 0..options.pairs {
                let (here, there) =
                    (with.run(operation, options)?, beside.run(operation, options)?);
                rates.push((here.0, there.0));
                costs.push((here.1, there.1));
            }
            let name = |what| format!("holders.{loops}.{name}.{what}");
            let (rate, cost) = (("ratio", "calls/s"), ("ratio", "us of processor a call"));
            Figure::of(name("rate"), &rates, Target::AtLeast(0.0), rate, "memory").print();
            Figure::of(name("cpu"), &costs, Target::AtLeast(0.0), cost, "memory").print();
        }
        for bench in [with, beside] {
            bench.holders.map_or(Ok(()), Holders::end)?;
        }
    }
    Ok(())
}
